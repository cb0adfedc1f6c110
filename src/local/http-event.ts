import { type ParsedUrlQuery, parse as parseQuery } from 'node:querystring';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import type { EpochMs } from '../time/clock.ts';
import type { RouteTable } from './route-table.ts';

/** What of an HTTP request goes into its event. `node:http` has all of it without parsing anything twice. */
export interface HttpRequest {
  readonly method: string;
  /** The request target as it stood on the request line. */
  readonly target: string;
  readonly httpVersion: string;
  readonly sourceIp: string;
  readonly headers: RequestHeaders;
  readonly body: Buffer | undefined;
}

export interface RequestHeaders {
  /** Names in lower case, repeated headers joined by a comma. No prototype: a header may be named `constructor`. */
  readonly values: Record<string, string>;
  readonly cookies: string[] | undefined;
}

/**
 * A connection's own headers say how bytes travel on one hop. API Gateway ends that hop, so its events lack them;
 * the body arrives whole, with its length in `content-length`.
 */
const hopHeaders = new Set(['connection', 'keep-alive', 'transfer-encoding']);

/** Reads `rawHeaders` (name, value, …) as API Gateway would: its events have cookies apart from headers. */
export function readHeaders(rawHeaders: readonly string[]): RequestHeaders {
  const values = Object.create(null) as Record<string, string>;
  let cookies: string[] | undefined;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] as string).toLowerCase();
    const value = rawHeaders[index + 1] as string;
    if (name === 'cookie') {
      cookies ??= [];
      for (const cookie of value.split(';')) {
        const trimmed = cookie.trim();
        if (trimmed !== '') cookies.push(trimmed);
      }
    } else {
      const earlier = values[name];
      values[name] = earlier === undefined ? value : `${earlier},${value}`;
    }
  }
  return { values, cookies };
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

/**
 * An HTTP API decodes the whole path once, before it looks for a route: `rawPath`, for all its name, and the path
 * parameters are both decoded, and an encoded slash parts segments like a plain one. (REST APIs and function URLs keep
 * the encoding; only `rawQueryString` keeps it here.)
 *
 * An escape that can't be decoded stays as it came: no name allows a percent sign, so the handler refuses it in
 * the service's own words.
 */
export function decodePath(encodedPath: string): string {
  if (!encodedPath.includes('%')) return encodedPath;
  try {
    return decodeURIComponent(encodedPath);
  } catch {
    return encodedPath;
  }
}

/** Values decoded, repeated ones joined by a comma; absent, as in a real event, where there is no query. */
export function readQuery(rawQueryString: string): Record<string, string> | undefined {
  if (rawQueryString === '') return undefined;
  const parsed: ParsedUrlQuery = parseQuery(rawQueryString);
  for (const name in parsed) {
    const value = parsed[name];
    if (Array.isArray(value)) parsed[name] = value.join(',');
  }
  return parsed as Record<string, string>;
}

/**
 * API Gateway passes these as text and base64-encodes every other body, also one without a content type and also a
 * form (`application/x-www-form-urlencoded`), which surprises most people once.
 */
const textTypePattern = /^\s*(?:text\/[^;]*|application\/(?:json|xml|javascript))\s*(?:;|$)/i;

export const isTextType = (contentType: string | undefined): boolean =>
  contentType === 'application/json' || (contentType !== undefined && textTypePattern.test(contentType));

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const;

// Events of the same second share their text: a busy gateway formats one date a second, not one a request.
let formattedSecond = Number.NaN;
let formattedText = '';

/** The time format of access logs, which API Gateway uses in its events: `08/Apr/2022:07:31:05 +0000`. */
export function formatLogTime(instant: EpochMs): string {
  const second = Math.floor(instant / 1000);
  if (second !== formattedSecond) {
    const date = new Date(instant);
    const day = `${String(date.getUTCDate()).padStart(2, '0')}/${months[date.getUTCMonth()]}/${date.getUTCFullYear()}`;
    formattedText = `${day}:${date.toISOString().slice(11, 19)} +0000`;
    formattedSecond = second;
  }
  return formattedText;
}

/** The headers of an event: without those of the hop, and with the length and the sender that API Gateway adds. */
function toEventHeaders(request: HttpRequest): Record<string, string> {
  const { values } = request.headers;
  for (const name of hopHeaders) {
    if (values[name] !== undefined) delete values[name];
  }
  values['content-length'] = String(request.body?.length ?? 0);
  const forwarded = values['x-forwarded-for'];
  values['x-forwarded-for'] = forwarded === undefined ? request.sourceIp : `${forwarded}, ${request.sourceIp}`;
  values['x-forwarded-proto'] = 'http';
  return values;
}

/**
 * The event of API Gateway's HTTP API (payload format 2.0) on a `$default` stage. Optional fields are absent, never
 * null or empty, just as in a real event. Takes over the request's headers.
 */
export function toHttpEvent(
  request: HttpRequest,
  routes: RouteTable,
  requestId: string,
  receivedAt: EpochMs,
): APIGatewayProxyEventV2 {
  const { encodedPath, rawQueryString } = splitTarget(request.target);
  const path = decodePath(encodedPath);
  const { routeKey, pathParameters } = routes.match(request.method, path);
  const headers = toEventHeaders(request);
  const event: APIGatewayProxyEventV2 = {
    version: '2.0',
    routeKey,
    rawPath: path,
    rawQueryString,
    headers,
    requestContext: {
      accountId: 'anonymous',
      apiId: 'local',
      domainName: 'localhost',
      domainPrefix: 'localhost',
      http: {
        method: request.method,
        path,
        protocol: `HTTP/${request.httpVersion}`,
        sourceIp: request.sourceIp,
        userAgent: headers['user-agent'] ?? '',
      },
      requestId,
      routeKey,
      stage: '$default',
      time: formatLogTime(receivedAt),
      timeEpoch: receivedAt,
    },
    isBase64Encoded: false,
  };
  if (request.headers.cookies !== undefined) event.cookies = request.headers.cookies;
  const query = readQuery(rawQueryString);
  if (query !== undefined) event.queryStringParameters = query;
  if (pathParameters !== undefined) event.pathParameters = pathParameters;
  if (request.body !== undefined && request.body.length > 0) {
    event.isBase64Encoded = !isTextType(headers['content-type']);
    event.body = request.body.toString(event.isBase64Encoded ? 'base64' : 'utf8');
  }
  return event;
}
