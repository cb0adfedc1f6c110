import { STATUS_CODES, validateHeaderName, validateHeaderValue } from 'node:http';

/** What goes out on the wire. Headers are flat (name, value, …), the form that `node:http` writes without copying. */
export interface HttpAnswer {
  readonly statusCode: number;
  readonly headers: string[];
  readonly body: string | Buffer;
}

/** The handler returned something that API Gateway could not send on. */
export class InvalidAnswerError extends Error {
  override readonly name = 'InvalidAnswerError';
}

/** The gateway writes these itself; a handler's word on them could break the framing of the response. */
const framingHeaders = new Set(['connection', 'content-length', 'keep-alive', 'transfer-encoding']);

/** Adds the length, without which `node:http` would send chunks. 204 and 304 have neither body nor length. */
function frameAnswer(statusCode: number, headers: string[], body: string | Buffer): HttpAnswer {
  if (statusCode === 204 || statusCode === 304) return { statusCode, headers, body: '' };
  headers.push('content-length', String(Buffer.byteLength(body)));
  return { statusCode, headers, body };
}

const jsonAnswer = (statusCode: number, body: string, ...moreHeaders: string[]): HttpAnswer =>
  frameAnswer(statusCode, ['content-type', 'application/json', ...moreHeaders], body);

/** What API Gateway itself says when the handler threw or returned something that is no answer. */
export const handlerFailedAnswer = (requestId: string): HttpAnswer =>
  jsonAnswer(500, '{"message":"Internal Server Error"}', 'x-request-id', requestId);

/** What API Gateway itself says when the handler took longer than an integration may. */
export const handlerTimedOutAnswer = (requestId: string): HttpAnswer =>
  jsonAnswer(504, '{"message":"Endpoint request timed out"}', 'x-request-id', requestId);

export interface Problem {
  readonly status: number;
  readonly title: string;
  readonly code: string;
  readonly detail: string;
  /** Headers that belong to this refusal, flat like an answer's. */
  readonly headers?: readonly string[];
}

/**
 * A refusal by the gateway, before any handler ran, in the service's own form of error (RFC 9457). `message` is the one
 * field that API Gateway's own refusals have. A request too broken to name a path has no `instance`.
 */
export function problemAnswer(problem: Problem, requestId: string): HttpAnswer {
  const { status, title, code, detail } = problem;
  const instance = `urn:holdfast:request:${requestId}`;
  return frameAnswer(
    status,
    ['content-type', 'application/problem+json', 'x-request-id', requestId, ...(problem.headers ?? [])],
    JSON.stringify({ type: `urn:holdfast:problem:${code}`, title, status, detail, instance, code, message: title }),
  );
}

/** The answer as bytes for a socket that has no `ServerResponse`: a refused upgrade, a request that can't be parsed. */
export function formatRawAnswer(answer: HttpAnswer): Buffer {
  let head = `HTTP/1.1 ${answer.statusCode} ${STATUS_CODES[answer.statusCode] ?? 'Unknown'}\r\n`;
  for (let index = 0; index + 1 < answer.headers.length; index += 2) {
    const name = answer.headers[index] as string;
    const value = answer.headers[index + 1] as string;
    validateHeaderName(name);
    validateHeaderValue(name, value);
    head += `${name}: ${value}\r\n`;
  }
  return Buffer.concat([Buffer.from(`${head}connection: close\r\n\r\n`, 'latin1'), Buffer.from(answer.body)]);
}

function readStatus(statusCode: unknown): number {
  // 1xx would promise a second response that never comes.
  if (typeof statusCode === 'number' && Number.isInteger(statusCode) && statusCode >= 200 && statusCode <= 599) {
    return statusCode;
  }
  throw new InvalidAnswerError(
    `The handler's statusCode must be an integer from 200 to 599, got ${String(statusCode)}.`,
  );
}

function readBody(body: unknown, isBase64Encoded: unknown): string | Buffer {
  if (body === undefined || body === null) return '';
  if (typeof body !== 'string')
    throw new InvalidAnswerError(`The handler's body must be a string, got ${typeof body}.`);
  return isBase64Encoded === true ? Buffer.from(body, 'base64') : body;
}

function readAnswerHeaders(given: unknown, cookies: unknown, hasBody: boolean): string[] {
  const headers: string[] = [];
  let hasContentType = false;
  if (given !== undefined && given !== null) {
    if (typeof given !== 'object')
      throw new InvalidAnswerError(`The handler's headers must be an object, got ${typeof given}.`);
    for (const [name, value] of Object.entries(given)) {
      const lowerName = name.toLowerCase();
      if (framingHeaders.has(lowerName) || value === undefined || value === null) continue;
      if (lowerName === 'content-type') hasContentType = true;
      headers.push(lowerName, String(value));
    }
  }
  // API Gateway labels a structured answer that names no content type as plain text, not as JSON.
  if (hasBody && !hasContentType) headers.push('content-type', 'text/plain; charset=utf-8');
  if (Array.isArray(cookies)) {
    for (const cookie of cookies) headers.push('set-cookie', String(cookie));
  }
  return headers;
}

/**
 * Reads a handler's result as API Gateway does for payload format 2.0: an object with a `statusCode` is the answer; any
 * other string or JSON value is the body of a 200 with `application/json`.
 *
 * A handler that returns nothing at all has a fault, and a lock service never says 200 by omission: that is a failure.
 */
export function toHttpAnswer(result: unknown): HttpAnswer {
  if (typeof result === 'string') return jsonAnswer(200, result);
  if (result === undefined || result === null) throw new InvalidAnswerError('The handler returned no result.');
  if (typeof result !== 'object' || !('statusCode' in result) || result.statusCode === undefined) {
    const text = JSON.stringify(result);
    if (text === undefined)
      throw new InvalidAnswerError(`The handler's result is no JSON value, got ${typeof result}.`);
    return jsonAnswer(200, text);
  }
  const answer = result as {
    statusCode: unknown;
    headers?: unknown;
    body?: unknown;
    cookies?: unknown;
    isBase64Encoded?: unknown;
  };
  const body = readBody(answer.body, answer.isBase64Encoded);
  const headers = readAnswerHeaders(answer.headers, answer.cookies, body.length > 0);
  return frameAnswer(readStatus(answer.statusCode), headers, body);
}
