/** The adapter for `node:http`: turns the raw request into the request that operations see. */
import { type ParsedUrlQuery, parse as parseQuery } from 'node:querystring';
import { decodePath } from './api-gateway.ts';
import { anonymous, type Request } from './request.ts';
import { matchPath } from './router.ts';

/** A request from `node:http`. Nothing in it is parsed twice. */
export interface RawRequest {
  readonly id: string;
  readonly method: string;
  /** The request target exactly as on the request line. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  /** Called only if somebody listens: a signal for each request would cost more than the rest of this adapter. */
  readonly gone: () => AbortSignal;
}

/** Reads `rawHeaders` (name, value, …): names in lower case, repeated ones joined by a comma. */
export function readHeaders(rawHeaders: readonly string[]): Record<string, string> {
  // Without a prototype, because a header may be named `constructor`.
  const values = Object.create(null) as Record<string, string>;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] as string).toLowerCase();
    const value = rawHeaders[index + 1] as string;
    const earlier = values[name];
    values[name] = earlier === undefined ? value : `${earlier},${value}`;
  }
  return values;
}

/** Splits a request target into path and query. The absolute form, which proxies send, loses its origin. */
export function splitTarget(target: string): { encodedPath: string; rawQueryString: string } {
  let originForm = target;
  if (!target.startsWith('/')) {
    const authorityStart = target.indexOf('://');
    if (authorityStart !== -1) {
      const pathStart = target.slice(authorityStart + 3).search(/[/?]/);
      originForm = pathStart === -1 ? '/' : target.slice(authorityStart + 3 + pathStart);
      if (originForm.startsWith('?')) originForm = `/${originForm}`;
    }
  }
  const question = originForm.indexOf('?');
  return question === -1
    ? { encodedPath: originForm, rawQueryString: '' }
    : { encodedPath: originForm.slice(0, question), rawQueryString: originForm.slice(question + 1) };
}

/** Values are decoded. Repeated values are joined by a comma, as API Gateway does. */
export function readQuery(rawQueryString: string): Record<string, string> {
  const parsed: ParsedUrlQuery = parseQuery(rawQueryString);
  for (const name in parsed) {
    const value = parsed[name];
    if (Array.isArray(value)) parsed[name] = value.join(',');
  }
  return parsed as Record<string, string>;
}

/**
 * An HTTP API decodes the whole path once before it looks for a route, so an encoded slash separates segments like a
 * plain one. This adapter does the same.
 */
export function requestOfNode({ id, method, target, headers, body, gone }: RawRequest): Request {
  const { encodedPath, rawQueryString } = splitTarget(target);
  const path = decodePath(encodedPath);
  const match = matchPath(path);
  const operation = match?.operations.get(method);
  return {
    id,
    operation,
    method,
    path,
    parameters: operation === undefined || match === undefined ? {} : match.parameters,
    query: readQuery(rawQueryString),
    headers,
    body: body === undefined || body.length === 0 ? undefined : body.toString('utf8'),
    caller: anonymous,
    get signal() {
      return gone();
    },
  };
}
