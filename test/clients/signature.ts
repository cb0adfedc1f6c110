/** Checks AWS Signature Version 4 as AWS does, from its documentation and not from a client's code. */
import { createHash, createHmac } from 'node:crypto';
import type { Exchange } from './proxy.ts';

export const keys = { id: 'AKIAKITEXAMPLE', secret: 'the-secret-of-the-kit', region: 'eu-west-1' } as const;

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();

/** Every byte except unreserved characters. */
const encode = (text: string): string =>
  [...Buffer.from(text)]
    .map((byte) => {
      const char = String.fromCharCode(byte);
      return /[A-Za-z0-9_.~-]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
    })
    .join('');

/** What is wrong with the signature. Undefined if it is right. */
export function wrongSignature({ method, url, headers, text }: Exchange, now = Date.now()): string | undefined {
  const pattern =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;
  const found = pattern.exec(headers.authorization ?? '');
  if (found === null) return `no signature, but ${headers.authorization?.slice(0, 20)}`;
  const [, id, day = '', region, service = '', names = '', signature] = found;
  if (id !== keys.id || region !== keys.region || service !== 'execute-api') return 'another key, region or service';
  const stamp = String(headers['x-amz-date']);
  const at = Date.parse(stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!stamp.startsWith(day) || Math.abs(now - at) > 300_000) return `the date ${stamp}`;
  if (!names.split(';').includes('host')) return 'the header host is not signed';
  const [path = '', query = ''] = url.split('?');
  const canonical = [
    method,
    // The path is encoded once more than it is sent.
    path.split('/').map(encode).join('/'),
    query
      .split('&')
      .filter((pair) => pair !== '')
      .map((pair) => pair.split('=').map((part) => encode(decodeURIComponent(part.replaceAll('+', ' ')))))
      .map(([name, value = '']) => `${name}=${value}`)
      .sort()
      .join('&'),
    ...names.split(';').map((name) => `${name}:${String(headers[name]).trim().replaceAll(/\s+/g, ' ')}`),
    '',
    names,
    sha256(text),
  ].join('\n');
  const scope = `${day}/${region}/${service}/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', stamp, scope, sha256(canonical)].join('\n');
  const key = [day, keys.region, service, 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${keys.secret}`);
  return hmac(key, toSign).toString('hex') === signature ? undefined : 'the signature does not match the request';
}
