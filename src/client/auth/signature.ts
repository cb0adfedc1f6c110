/** AWS Signature Version 4 with WebCrypto, so it works in every runtime that has `fetch`. */
import type { Unsigned } from './auth.ts';

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  readonly expiration?: Date | undefined;
}

/** All its headers are signed. */
export interface SigningRequest extends Unsigned {
  readonly credentials: AwsCredentials;
  readonly region: string;
  readonly service: string;
  readonly at: Date;
}

const utf8 = new TextEncoder();

const hex = (bytes: ArrayBuffer): string =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');

const sha256 = async (text: string): Promise<string> => hex(await crypto.subtle.digest('SHA-256', utf8.encode(text)));

async function hmac(key: ArrayBuffer | Uint8Array<ArrayBuffer>, text: string): Promise<ArrayBuffer> {
  const imported = await crypto.subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  return crypto.subtle.sign('HMAC', imported, utf8.encode(text));
}

/** The encoding of RFC 3986. encodeURIComponent does not escape these five characters. */
const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);

/** In the signature, the path is encoded once more than it is sent. Only S3 differs. */
const canonicalPath = ({ pathname }: URL): string => pathname.split('/').map(encode).join('/');

const byCode = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const canonicalQuery = ({ searchParams }: URL): string =>
  [...searchParams]
    .map(([name, value]) => [encode(name), encode(value)] as const)
    .sort(([a, x], [b, y]) => byCode(a, b) || byCode(x, y))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');

/** The headers that tell AWS who sent a request. */
export async function sign(request: SigningRequest): Promise<Record<string, string>> {
  const { method, url, credentials, region, service, at } = request;
  const stamp = at.toISOString().replace(/[-:]|\.\d{3}/g, '');
  const day = stamp.slice(0, 8);
  const added: Record<string, string> = {
    'x-amz-date': stamp,
    ...(credentials.sessionToken === undefined ? {} : { 'x-amz-security-token': credentials.sessionToken }),
  };
  const signed = Object.entries({ ...request.headers, ...added, host: url.host }).sort(([a], [b]) => byCode(a, b));
  const names = signed.map(([name]) => name).join(';');
  const canonical = [
    method,
    canonicalPath(url),
    canonicalQuery(url),
    ...signed.map(([name, value]) => `${name}:${value.trim().replace(/\s+/g, ' ')}`),
    '',
    names,
    await sha256(request.body ?? ''),
  ].join('\n');

  const scope = `${day}/${region}/${service}/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', stamp, scope, await sha256(canonical)].join('\n');
  let key: ArrayBuffer | Uint8Array<ArrayBuffer> = utf8.encode(`AWS4${credentials.secretAccessKey}`);
  for (const part of [day, region, service, 'aws4_request']) key = await hmac(key, part);
  const signature = hex(await hmac(key, toSign));
  const credential = `${credentials.accessKeyId}/${scope}`;
  return {
    ...added,
    authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`,
  };
}
