import { STATUS_CODES, validateHeaderName, validateHeaderValue } from 'node:http';
import { type Answer, instanceOf } from '../http/handler.ts';

/**
 * 204 and 304 have neither body nor length. Every other answer has its length: without it, `node:http` would send
 * chunks.
 */
export function framedHeaders({ status, headers, body = '' }: Answer): Record<string, string> {
  if (status === 204 || status === 304) return { ...headers };
  return { ...headers, 'content-length': String(Buffer.byteLength(body)) };
}

const gatewayMessage = (status: number, message: string, requestId: string): Answer => ({
  status,
  headers: { 'content-type': 'application/json', 'x-request-id': requestId },
  body: JSON.stringify({ message }),
});

/** API Gateway's own answer if a handler fails. */
export const failedAnswer = (requestId: string): Answer => gatewayMessage(500, 'Internal Server Error', requestId);

/** API Gateway's own answer if a handler takes longer than an integration may. */
export const timedOutAnswer = (requestId: string): Answer =>
  gatewayMessage(504, 'Endpoint request timed out', requestId);

/** Why the gateway refuses a request. Some refusals have a status that the service itself never answers. */
export interface Refusal {
  readonly status: number;
  readonly title: string;
  readonly code: string;
  readonly detail: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A refusal by the gateway before any operation ran, in the service's own error format (RFC 9457). `message` is the one
 * field that API Gateway's own refusals have.
 */
export function refusalAnswer({ status, title, code, detail, headers }: Refusal, requestId: string): Answer {
  const type = `urn:holdfast:problem:${code}`;
  const instance = instanceOf(requestId);
  return {
    status,
    headers: { 'content-type': 'application/problem+json', 'x-request-id': requestId, ...headers },
    body: JSON.stringify({ type, title, status, detail, instance, code, message: title }),
  };
}

/**
 * The answer as bytes, for a socket without a `ServerResponse`: a refused upgrade, or a request that can't be parsed.
 */
export function formatRawAnswer(answer: Answer): Buffer {
  let head = `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? 'Unknown'}\r\n`;
  for (const [name, value] of Object.entries(framedHeaders(answer))) {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    head += `${name}: ${value}\r\n`;
  }
  return Buffer.concat([Buffer.from(`${head}connection: close\r\n\r\n`, 'latin1'), Buffer.from(answer.body ?? '')]);
}
