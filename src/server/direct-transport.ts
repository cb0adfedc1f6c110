import { HoldfastError } from '../client/errors.ts';
import { type Answer, type Call, pathOf, type Transport } from '../client/transport.ts';
import { type Operation, operations } from '../contract/operations.ts';
import { instanceOf, operate } from '../http/handler.ts';
import { toProblem } from '../http/problems.ts';
import { anonymous, type Reply, type Request } from '../http/request.ts';
import type { Service } from '../http/service.ts';
import { reasonOf, rootCauseOf } from '../tools/error-text.ts';

export interface DirectTransportOptions {
  readonly close?: (() => void) | undefined;
  /** The name of the store in messages. */
  readonly target?: string | undefined;
}

/**
 * Runs the service's own operations in the caller's process. There is no HTTP between the SDK and the store, but the
 * behavior is the same, because the same code answers behind the HTTP routes.
 */
export class DirectTransport implements Transport {
  readonly #service: Service;
  readonly #close: () => void;
  readonly target: string;
  #requests = 0;

  constructor(service: Service, { close = () => {}, target = 'the store' }: DirectTransportOptions = {}) {
    this.#service = service;
    this.#close = close;
    this.target = target;
  }

  async request(call: Call, signal: AbortSignal): Promise<Answer> {
    this.#requests += 1;
    const id = `direct-${this.#requests}`;
    try {
      return answerOf(await operate(this.#service, requestOf(call, id, signal)), id);
    } catch (error) {
      const wrong = misconfigurationOf(error);
      // A retry would fail in the same way. So the error is reported at once, with its real cause.
      if (wrong !== undefined)
        throw new HoldfastError('misconfigured', `${this.target}: ${wrong}`, { cause: rootCauseOf(error) });
      const problem = toProblem(error);
      const body = { ...problem.toJSON(), instance: instanceOf(id) };
      return { ...answerOf({ status: problem.status, body }, id), cause: rootCauseOf(error) };
    }
  }

  close(): void {
    this.#close();
  }
}

/** Keyed by the error names of DynamoDB and the AWS SDK. */
const misconfigurations: Readonly<Record<string, string>> = {
  ResourceNotFoundException: 'there is no such table in this Region and account',
  CredentialsProviderError: 'no AWS credentials were found',
  TokenProviderError: 'no AWS credentials were found',
  AccessDeniedException: 'the AWS credentials do not give the rights that direct mode needs',
  UnrecognizedClientException: 'AWS does not know these credentials',
  InvalidSignatureException: 'AWS does not accept the signature of these credentials',
  IncompleteSignatureException: 'AWS does not accept the signature of these credentials',
  MissingAuthenticationTokenException: 'the request carried no AWS credentials',
  ExpiredTokenException: 'the AWS credentials have expired',
};

/** What is wrong with the configuration, if that is the cause of the failure. */
function misconfigurationOf(error: unknown): string | undefined {
  const root = rootCauseOf(error);
  if (!(root instanceof Error)) return undefined;
  const known =
    misconfigurations[root.name] ?? (/Region is missing/.test(root.message) ? 'no AWS Region is set' : undefined);
  return known === undefined ? undefined : `${known} (${reasonOf(root)}).`;
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
