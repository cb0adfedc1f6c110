import { STATUS_CODES, validateHeaderName, validateHeaderValue } from 'node:http';
import { type Answer, instanceOf } from '../http/handler.ts';

/** 204 and 304 have neither body nor length; every other answer says its length, without which `node:http` would send chunks. */
export function framedHeaders({ status, headers, body = '' }: Answer): Record<string, string> {
  if (status === 204 || status === 304) return { ...headers };
  return { ...headers, 'content-length': String(Buffer.byteLength(body)) };
}

const ownWords = (status: number, message: string, requestId: string): Answer => ({
  status,
  headers: { 'content-type': 'application/json', 'x-request-id': requestId },
  body: JSON.stringify({ message }),
});

/** What API Gateway itself says when a handler failed to answer. */
export const failedAnswer = (requestId: string): Answer => ownWords(500, 'Internal Server Error', requestId);

/** What API Gateway itself says when a handler took longer than an integration may. */
export const timedOutAnswer = (requestId: string): Answer => ownWords(504, 'Endpoint request timed out', requestId);

/** Why the gateway does not let a request through. Some have a status that the service itself never answers. */
export interface Refusal {
  readonly status: number;
  readonly title: string;
  readonly code: string;
  readonly detail: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A refusal by the gateway, before any operation ran, in the service's own form of error (RFC 9457). `message` is the one field that
 * API Gateway's own refusals have.
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

/** The answer as bytes for a socket that has no `ServerResponse`: a refused upgrade, a request that can't be parsed. */
export function formatRawAnswer(answer: Answer): Buffer {
  let head = `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? 'Unknown'}\r\n`;
  for (const [name, value] of Object.entries(framedHeaders(answer))) {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    head += `${name}: ${value}\r\n`;
  }
  return Buffer.concat([Buffer.from(`${head}connection: close\r\n\r\n`, 'latin1'), Buffer.from(answer.body ?? '')]);
}
