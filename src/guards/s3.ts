/**
 * The guard for objects in S3, and in other stores that have its conditional writes. S3 can compare only an ETag. So
 * the floor is in the object's metadata and the write is a compare-and-swap: read ETag and floor, refuse if the floor
 * is higher, write if the ETag is still the same, and start again if it is not.
 *
 * An ETag is usually a digest of the body alone. If a later holder writes the same bytes that a paused holder saw
 * before, the ETag comes back, and the paused holder's condition holds although the floor has risen. So the fence must
 * be part of the body too: then no two fences ever share an ETag.
 */
import { backoffMs } from '../tools/backoff.ts';
import { checkFence, readFloor, type Stale } from './fence.ts';

/** @example `const body: S3Body = new TextEncoder().encode('{}');` */
export type S3Body = string | Uint8Array;

/**
 * The two requests that the guard makes. {@link s3Objects} makes them with the AWS SDK; any other client can implement
 * them.
 *
 * @example
 * ```ts
 * const objects: S3Objects = s3Objects({ client, bucket: 'reports', HeadObjectCommand, PutObjectCommand });
 * ```
 */
export interface S3Objects {
  /** The ETag and the user metadata (names in lower case, without `x-amz-meta-`), or null when there is no object. */
  head(key: string): Promise<{ readonly etag: string; readonly metadata: Readonly<Record<string, string>> } | null>;
  /**
   * Writes if the condition holds. Answers `conflict` to 412, to 409, and to 404 for an object that vanished since its
   * head.
   */
  put(
    key: string,
    body: S3Body,
    options: S3Condition & { readonly metadata: Readonly<Record<string, string>>; readonly contentType?: string },
  ): Promise<{ readonly etag: string } | 'conflict'>;
}

/** @example `const condition: S3Condition = { ifNoneMatch: '*' };` */
export type S3Condition = { readonly ifMatch: string } | { readonly ifNoneMatch: '*' };

/**
 * An object to write. Give a JSON `value`, which is stored as `{"fence":34,"value":…}`; or a function that puts the
 * fence into bytes of your own format. For large bytes, write them under a name that is never reused and fence a small
 * object that points to it.
 *
 * @example
 * ```ts
 * const write: S3Write = { key: 'notes.txt', fence: grant.fence, body: (fence) => `# fence ${fence}\n${text}` };
 * ```
 */
export type S3Write = {
  readonly key: string;
  readonly fence: number;
  /** More user metadata, kept beside the fence. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly contentType?: string;
} & ({ readonly value: unknown } | { readonly body: (fence: number) => S3Body });

/**
 * The result of the write. After `conflict` it is not known whether anything was written: others wrote at every try.
 * Try again.
 *
 * @example
 * ```ts
 * const outcome: S3Outcome = await putFenced(objects, write);
 * ```
 */
export type S3Outcome =
  | { readonly kind: 'written'; readonly etag: string }
  | Stale
  | { readonly kind: 'conflict'; readonly attempts: number };

/** @example `const options: S3PutOptions = { attemptsMax: 3 };` */
export interface S3PutOptions {
  readonly attemptsMax?: number;
  /** Injected in tests; by default a timer. */
  readonly sleep?: (delayMs: number) => Promise<void>;
  /** Injected in tests; by default `Math.random`. */
  readonly random?: () => number;
}

/**
 * A lock leaves one live writer and at most a few late ones. If eight tries in a row meet another write, something else
 * is wrong.
 */
const defaultAttemptsMax = 8;
/** About the time of one S3 round trip. After a shorter wait the other write would still be on its way. */
const backoffBaseMs = 50;
/** With it, eight tries last at most about four seconds: much less than the default lease of thirty. */
const backoffMsMax = 1000;

const fenceMetadata = 'fence';

/**
 * Writes an object unless a later holder has written it.
 *
 * `stale` is about the object as it is now. If the reply to an earlier try was lost, that try may have been applied
 * before the later holder wrote.
 *
 * @example
 * ```ts
 * const outcome = await putFenced(objects, { key: 'report.json', fence: grant.fence, value: report });
 * if (outcome.kind === 'conflict') throw new Error(`gave up after ${outcome.attempts} tries`);
 * throwIfStale(outcome);
 * ```
 */
export async function putFenced(objects: S3Objects, write: S3Write, options: S3PutOptions = {}): Promise<S3Outcome> {
  const { key, fence } = write;
  const body = stampedBody(write);
  const metadata = stampedMetadata(write);
  const contentType = write.contentType ?? ('value' in write ? 'application/json' : undefined);
  const { attemptsMax = defaultAttemptsMax, sleep = timer, random = Math.random } = options;

  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const stored = await objects.head(key);
    const floor = stored ? storedFloor(key, stored.metadata) : 0;
    if (floor > fence) return { kind: 'stale', fence, floor };
    // The object is still the one whose floor was just read, or there is still none.
    const condition: S3Condition = stored ? { ifMatch: stored.etag } : { ifNoneMatch: '*' };
    const put = await objects.put(key, body, { ...condition, metadata, ...(contentType && { contentType }) });
    if (put !== 'conflict') return { kind: 'written', etag: put.etag };
    if (attempt < attemptsMax) await sleep(backoffMs(attempt, backoffBaseMs, backoffMsMax, random));
  }
  return { kind: 'conflict', attempts: attemptsMax };
}

function stampedBody(write: S3Write): S3Body {
  const fence = checkFence(write.fence);
  if ('value' in write) return JSON.stringify({ fence, value: write.value });
  const body = write.body(fence);
  // A body that ignores its fence brings the old ETag back. Another fence must give other bytes.
  if (sameBytes(body, write.body(fence === 1 ? 2 : fence - 1))) {
    throw new TypeError(
      `The body for ${write.key} is the same for every fence; put the fence into it, or its ETag can't guard it.`,
    );
  }
  return body;
}

function stampedMetadata({ fence, metadata = {} }: S3Write): Record<string, string> {
  // Names of metadata are headers, so `Fence` would be a second value of the same header.
  const taken = Object.keys(metadata).find((name) => name.toLowerCase() === fenceMetadata);
  if (taken !== undefined) throw new TypeError(`The metadata ${taken} belongs to the guard; choose another name.`);
  return { ...metadata, [fenceMetadata]: String(fence) };
}

function sameBytes(a: S3Body, b: S3Body): boolean {
  if (typeof a === 'string' || typeof b === 'string') return a === b;
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** An object from before the guard has no fence, and so no floor. A fence that can't be read is an error. */
function storedFloor(key: string, metadata: Readonly<Record<string, string>>): number {
  const stored = metadata[fenceMetadata];
  return stored === undefined ? 0 : readFloor(stored, `x-amz-meta-${fenceMetadata} of ${key}`);
}

const timer = (delayMs: number) => new Promise<void>((resolve) => setTimeout(resolve, delayMs));

/** A command class of the AWS SDK, as far as the guard knows it. */
// biome-ignore lint/suspicious/noExplicitAny: command classes differ in their inputs, and only the user has their types.
type CommandClass = new (input: any) => any;

/**
 * Makes {@link S3Objects} from the AWS SDK. The caller passes the client and the two command classes, so that this
 * package depends on no SDK. The caller needs `s3:GetObject`, `s3:PutObject` and `s3:ListBucket`. Without the last one
 * S3 answers 403, not 404, for an object that does not exist.
 *
 * @example
 * ```ts
 * import { HeadObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
 *
 * const objects = s3Objects({ client: new S3Client(), bucket: 'reports', HeadObjectCommand, PutObjectCommand });
 * ```
 */
export function s3Objects(sdk: {
  // biome-ignore lint/suspicious/noExplicitAny: the SDK's `send` is overloaded, which no narrower type accepts.
  readonly client: { send(command: any): Promise<any> };
  readonly bucket: string;
  readonly HeadObjectCommand: CommandClass;
  readonly PutObjectCommand: CommandClass;
}): S3Objects {
  const { client, bucket: Bucket } = sdk;
  return {
    async head(Key) {
      try {
        const { ETag, Metadata } = await client.send(new sdk.HeadObjectCommand({ Bucket, Key }));
        return { etag: ETag, metadata: Metadata ?? {} };
      } catch (error) {
        if (statusOf(error) === 404) return null;
        throw error;
      }
    },
    async put(Key, Body, { metadata: Metadata, contentType, ...condition }) {
      const precondition =
        'ifMatch' in condition ? { IfMatch: condition.ifMatch } : { IfNoneMatch: condition.ifNoneMatch };
      const ContentType = contentType && { ContentType: contentType };
      try {
        const { ETag } = await client.send(
          new sdk.PutObjectCommand({ Bucket, Key, Body, Metadata, ...ContentType, ...precondition }),
        );
        return { etag: ETag };
      } catch (error) {
        if (isConflict(error)) return 'conflict';
        throw error;
      }
    },
  };
}

function isConflict(error: unknown): boolean {
  const status = statusOf(error);
  // If an object was deleted meanwhile, S3 answers 404 to If-Match. It also answers 404 if there is no bucket, which is
  // no conflict.
  return status === 412 || status === 409 || (status === 404 && (error as Error).name !== 'NoSuchBucket');
}

function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } } | null)?.$metadata?.httpStatusCode;
}
