import { type Answer, type Call, pathOf, type Transport } from '../client/transport.ts';
import { type Operation, operations } from '../contract/operations.ts';
import { instanceOf, operate } from '../http/handler.ts';
import { toProblem } from '../http/problems.ts';
import { anonymous, type Reply, type Request } from '../http/request.ts';
import type { Service } from '../http/service.ts';

/**
 * The service's own operations in the caller's process: no HTTP between the SDK and the store, and yet one behaviour, since what
 * answers is the very code that answers behind the routes.
 */
export class DirectTransport implements Transport {
  readonly #service: Service;
  readonly #close: () => void;
  #requests = 0;

  constructor(service: Service, close: () => void = () => {}) {
    this.#service = service;
    this.#close = close;
  }

  async request(call: Call, signal: AbortSignal): Promise<Answer> {
    this.#requests += 1;
    const id = `direct-${this.#requests}`;
    try {
      return answerOf(await operate(this.#service, requestOf(call, id, signal)), id);
    } catch (error) {
      const problem = toProblem(error);
      const body = { ...problem.toJSON(), instance: instanceOf(id) };
      return answerOf({ status: problem.status, body }, id);
    }
  }

  close(): void {
    this.#close();
  }
}

const requestOf = (call: Call, id: string, signal: AbortSignal): Request => ({
  id,
  operation: call.operation in operations ? (call.operation as Operation) : undefined,
  method: call.method,
  path: pathOf(call),
  parameters: call.parameters,
  query: call.query ?? {},
  headers: { 'content-type': 'application/json', ...call.headers },
  body: call.body === undefined ? undefined : JSON.stringify(call.body),
  caller: anonymous,
  signal,
});

function answerOf({ status, body, text, headers }: Reply, requestId: string): Answer {
  return {
    status,
    headers: { ...headers, 'x-request-id': requestId },
    body: text === undefined ? body : JSON.parse(text),
  };
}
