import type { Auth } from './auth.ts';
import { type AwsCredentials, sign } from './signature.ts';

export type { AwsCredentials } from './signature.ts';

export interface SigV4Options {
  /** By default it is read from the URL of the API, else from `AWS_REGION`. */
  readonly region?: string | undefined;
  /**
   * By default the keys of the environment, as in a Lambda function. If there are none, the default chain of
   * `@aws-sdk/credential-provider-node`, if that package is installed. A function is called again shortly before its keys
   * expire.
   */
  readonly credentials?: AwsCredentials | (() => Promise<AwsCredentials>) | undefined;
  /** The name of the AWS service in the signature. For API Gateway it is `execute-api`. */
  readonly service?: string | undefined;
}

/** Keys are renewed this long before they end, as in the AWS SDKs. A request must not arrive after its keys have expired. */
const expiryMarginMs = 300_000;

const environment = (): Readonly<Record<string, string | undefined>> =>
  (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};

/**
 * Signs requests with AWS Signature Version 4. Needed if the service uses IAM.
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
    if (inRegion === undefined) throw new TypeError('sigv4 needs a region: pass one, or set AWS_REGION.');
    return sign({ method, url, headers, body, service, credentials: await source(), region: inRegion, at: new Date() });
  };
}

const regionOf = ({ hostname }: URL): string | undefined =>
  /\.execute-api\.([a-z0-9-]+)\.amazonaws\.com/.exec(hostname)?.[1];

/** Loads the keys once for all requests, and again shortly before they expire. */
function cached(load: () => Promise<AwsCredentials>): () => Promise<AwsCredentials> {
  let loading: Promise<AwsCredentials> | undefined;
  const isFresh = ({ expiration }: AwsCredentials) =>
    expiration === undefined || expiration.getTime() - Date.now() > expiryMarginMs;
  const reload = () => {
    const loaded = load();
    loading = loaded;
    loaded.catch(() => {
      // A failure is not kept, so the next request tries again.
      if (loading === loaded) loading = undefined;
    });
    return loaded;
  };
  return async () => {
    const begun = loading;
    if (begun === undefined) return reload();
    const known = await begun;
    if (isFresh(known)) return known;
    // Of the requests that find the keys too old at the same time, the first loads new keys for all.
    return loading === undefined || loading === begun ? reload() : loading;
  };
}

function defaultChain(): () => Promise<AwsCredentials> {
  let chain: (() => Promise<AwsCredentials>) | undefined;
  return async () => {
    const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = environment();
    if (accessKeyId && secretAccessKey) {
      // The keys of a Lambda function last longer than its process, so they are read once.
      return { accessKeyId, secretAccessKey, sessionToken: environment().AWS_SESSION_TOKEN || undefined };
    }
    chain ??= await loadChain();
    return chain();
  };
}

/** The name is in a variable, so a bundler does not look for the package, which is optional. */
async function loadChain(): Promise<() => Promise<AwsCredentials>> {
  const packageName = '@aws-sdk/credential-provider-node';
  try {
    const { defaultProvider } = (await import(packageName)) as {
      defaultProvider: () => () => Promise<AwsCredentials>;
    };
    return defaultProvider();
  } catch (cause) {
    const message = `There are no AWS keys in the environment. Install ${packageName}, or pass credentials to sigv4.`;
    throw new Error(message, { cause });
  }
}
