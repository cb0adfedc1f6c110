/** The key and the payload of an event, as `once` needs them. Both come from outside. */
import { createHash } from 'node:crypto';
import { checkName } from '../client/core.ts';
import { InvalidRequestError } from '../client/index.ts';

/** A key longer than this does not fit into the name of its lock. */
const keyLengthMax = 200;
/** Keys that can't be names are replaced by their digest. A key that looks like one is replaced too, so that no two meet. */
const digestPrefix = 'sha256:';

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** A part of a key that is the text of a missing value, such as that of a header that was not sent. */
const missingPart = /(^|[^A-Za-z0-9])(undefined|null|NaN|\[object Object\])($|[^A-Za-z0-9])/;

/**
 * The key as a name of a lock. A sender may choose any characters. Throws if the key is empty or has a part that is
 * missing: all events without that part would count as one.
 */
export function keyFrom(key: string): string {
  if (key === '' || missingPart.test(key)) {
    throw new InvalidRequestError('The event has no key, or a part of its key is missing.', [
      { field: 'key', message: 'must be there, with all its parts' },
    ]);
  }
  return isName(key) && !key.startsWith(digestPrefix) ? key : `${digestPrefix}${digest(key)}`;
}

function isName(key: string): boolean {
  if (key.length > keyLengthMax) return false;
  try {
    checkName('job', key);
    return true;
  } catch {
    return false;
  }
}

/** An event of API Gateway, in either format. */
export interface HttpLike {
  readonly requestContext?: { readonly http?: { readonly method?: string; readonly path?: string } };
  readonly httpMethod?: string;
  readonly path?: string;
  readonly rawPath?: string;
  readonly rawQueryString?: string;
  readonly queryStringParameters?: unknown;
  readonly body?: unknown;
}

/** The digest of what a handler works with. Undefined if there is nothing to compare. */
export const payloadDigest = (payload: unknown): string | undefined =>
  payload === undefined ? undefined : digest(JSON.stringify(payload) ?? '');

/** What an HTTP request asks for, without the headers: those of a repeat may differ. */
export function httpPayload(event: HttpLike): unknown {
  const { requestContext, httpMethod, path, rawPath, rawQueryString, queryStringParameters, body } = event;
  const method = httpMethod ?? requestContext?.http?.method;
  return [method, rawPath ?? path, rawQueryString ?? queryStringParameters ?? null, body ?? null];
}
