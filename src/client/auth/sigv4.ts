import type { Auth } from './auth.ts';
import { type AwsCredentials, sign } from './signature.ts';

export type { AwsCredentials } from './signature.ts';

export interface SigV4Options {
  /** By default read from the URL of an API, else from `AWS_REGION`. */
  readonly region?: string | undefined;
  /**
   * By default the environment's keys, as in a Lambda function, else the default chain of `@aws-sdk/credential-provider-node`, where
   * that package is installed. A function is asked again when what it gave is about to expire.
   */
  readonly credentials?: AwsCredentials | (() => Promise<AwsCredentials>) | undefined;
  /** The name that the service signs under. Behind API Gateway it is `execute-api`. */
  readonly service?: string | undefined;
}

/** Keys are renewed this long before they end, as the AWS SDKs do: a request must not arrive after its key. */
const expiryMarginMs = 300_000;

const environment = (): Readonly<Record<string, string | undefined>> =>
  (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};

/**
 * Signs requests by AWS Signature Version 4: the way in where the service asks for IAM.
 *
 * @example
 * ```ts
 * const locks = new Holdfast({ url, namespace: 'payments', auth: sigv4() });
 * ```
 */
export function sigv4({ region, credentials, service = 'execute-api' }: SigV4Options = {}): Auth {
  const source = cached(typeof credentials === 'object' ? async () => credentials : (credentials ?? defaultChain()));
  return async ({ method, url, headers, body }) => {
    const inRegion = region ?? regionOf(url) ?? environment().AWS_REGION ?? environment().AWS_DEFAULT_REGION;
    if (inRegion === undefined) throw new TypeError('sigv4 needs a region: give one, or set AWS_REGION.');
    return sign({ method, url, headers, body, service, credentials: await source(), region: inRegion, at: new Date() });
  };
}

const regionOf = ({ hostname }: URL): string | undefined =>
  /\.execute-api\.([a-z0-9-]+)\.amazonaws\.com/.exec(hostname)?.[1];

/** Asks once for all requests, and again shortly before the keys expire. */
function cached(load: () => Promise<AwsCredentials>): () => Promise<AwsCredentials> {
  let loading: Promise<AwsCredentials> | undefined;
  const isFresh = ({ expiration }: AwsCredentials) =>
    expiration === undefined || expiration.getTime() - Date.now() > expiryMarginMs;
  const reload = () => {
    const loaded = load();
    loading = loaded;
    loaded.catch(() => {
      // A failure is not kept: the next request asks again.
      if (loading === loaded) loading = undefined;
    });
    return loaded;
  };
  return async () => {
    if (loading === undefined) return reload();
    const known = await loading;
    return isFresh(known) ? known : reload();
  };
}

function defaultChain(): () => Promise<AwsCredentials> {
  let chain: (() => Promise<AwsCredentials>) | undefined;
  return async () => {
    const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = environment();
    if (accessKeyId && secretAccessKey) {
      // A Lambda function's keys are replaced when its environment is: they are read once and outlive it.
      return { accessKeyId, secretAccessKey, sessionToken: environment().AWS_SESSION_TOKEN || undefined };
    }
    chain ??= await loadChain();
    return chain();
  };
}

/** Named by a variable, so that bundlers leave it alone where it isn't installed. */
async function loadChain(): Promise<() => Promise<AwsCredentials>> {
  const packageName = '@aws-sdk/credential-provider-node';
  try {
    const { defaultProvider } = (await import(packageName)) as {
      defaultProvider: () => () => Promise<AwsCredentials>;
    };
    return defaultProvider();
  } catch (cause) {
    const message = `No AWS keys in the environment; install ${packageName}, or give sigv4 the credentials.`;
    throw new Error(message, { cause });
  }
}
