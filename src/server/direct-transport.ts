import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { type Answer, type Call, pathOf, type Transport } from '../client/transport.ts';
import { operations } from '../http/operations.ts';
import { Problem, toProblem } from '../http/problems.ts';
import { type Reply, Request } from '../http/request.ts';
import { type Operation, type Route, routes } from '../http/routes.ts';
import type { Service } from '../http/service.ts';

/** A route without the names of its parameters: only their places count. */
const shapeOf = (method: string, path: string): string => `${method} ${path.replace(/\{\w+\}/g, '{}')}`;
const parametersOf = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '');

const byShape = new Map<string, Route & { readonly operation: Operation }>(
  routes.map((route) => [shapeOf(route.method, route.path), route]),
);

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
    const requestId = `direct-${this.#requests}`;
    try {
      const route = byShape.get(shapeOf(call.method, call.route));
      if (route === undefined) throw new Problem('not-found', `There is no route ${call.method} ${call.route}.`);
      const request = new Request(eventOf(call, route, requestId), signal);
      return answerOf(await operations[route.operation](this.#service, request), requestId);
    } catch (error) {
      const problem = toProblem(error);
      const instance = `urn:holdfast:request:${requestId}`;
      return answerOf({ status: problem.status, body: { ...problem.toJSON(), instance } }, requestId);
    }
  }

  close(): void {
    this.#close();
  }
}

function answerOf({ status, body, text, headers }: Reply, requestId: string): Answer {
  return {
    status,
    headers: { ...headers, 'x-request-id': requestId },
    body: text === undefined ? body : JSON.parse(text),
  };
}

/** As much of API Gateway's event as operations can see. */
function eventOf(call: Call, route: Route, requestId: string): APIGatewayProxyEventV2 {
  const given = parametersOf(call.route).map((name) => encodeURIComponent(call.parameters[name] ?? ''));
  const names = parametersOf(route.path);
  const event: Partial<APIGatewayProxyEventV2> = {
    routeKey: `${route.method} ${route.path}`,
    rawPath: pathOf(call),
    pathParameters: Object.fromEntries(names.map((name, index) => [name, given[index] ?? ''])),
    queryStringParameters: { ...call.query },
    headers: { 'content-type': 'application/json', ...call.headers },
    requestContext: { requestId, http: { method: call.method } } as APIGatewayProxyEventV2['requestContext'],
    isBase64Encoded: false,
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  };
  return event as APIGatewayProxyEventV2;
}
