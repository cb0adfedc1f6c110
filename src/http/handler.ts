import middy from '@middy/core';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2, Context } from 'aws-lambda';
import type { ServiceLog } from './logger.ts';
import { operations } from './operations.ts';
import { Problem, toProblem } from './problems.ts';
import { type Reply, Request } from './request.ts';
import { methodsAt, operationOf } from './router.ts';
import type { Service } from './service.ts';

type Answer = APIGatewayProxyStructuredResultV2;
/** The local gateway can tell when a caller's connection broke; Lambda can't. */
type CallContext = Context & { readonly clientGone?: AbortSignal };

/** The function behind every route. A missing route is answered here too, so that what is deployed and what runs locally agree. */
export function createHttpHandler(service: Service, log: ServiceLog) {
  // Each wait is bounded by its own deadline, so middy's early answer, a timer for every request, is not needed.
  return middy<APIGatewayProxyEventV2, Answer>({ timeoutEarlyInMillis: 0 })
    .use(requestLog(log))
    .use(problemAnswers())
    .handler(async (event, context: CallContext) =>
      toAnswer(await operate(service, new Request(event, context.clientGone)), event),
    );
}

function operate(service: Service, request: Request): Promise<Reply> {
  const operation = operationOf(request.routeKey);
  if (operation !== undefined) return operations[operation](service, request);
  const allowed = methodsAt(request.path);
  if (allowed.length === 0) throw new Problem('not-found', `There is no route ${request.method} to this path.`);
  const allow = allowed.join(', ');
  throw new Problem(
    'method-not-allowed',
    `This path takes ${allow}, got ${request.method}.`,
    {},
    { headers: { allow } },
  );
}

function toAnswer(reply: Reply, event: APIGatewayProxyEventV2, type = 'application/json'): Answer {
  const text = reply.text ?? (reply.body === undefined ? undefined : JSON.stringify(reply.body));
  return {
    statusCode: reply.status,
    headers: {
      'content-type': type,
      'cache-control': 'no-store',
      'x-request-id': event.requestContext.requestId,
      ...reply.headers,
      ...retryAfter(reply.body),
    },
    ...(text === undefined ? {} : { body: text }),
  };
}

function retryAfter(body: unknown): Record<string, string> {
  const { retryAfterMs } = (body ?? {}) as { retryAfterMs?: unknown };
  return typeof retryAfterMs === 'number' ? { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) } : {};
}

/** Every error leaves as problem+json, and says no more than its problem does. */
function problemAnswers(): middy.MiddlewareObj<APIGatewayProxyEventV2, Answer> {
  return {
    onError: (request) => {
      const problem = toProblem(request.error);
      const instance = `urn:holdfast:request:${request.event.requestContext.requestId}`;
      const reply = { status: problem.status, body: { ...problem.toJSON(), instance }, headers: problem.headers };
      request.response = toAnswer(reply, request.event, 'application/problem+json');
    },
  };
}

/** One line per request: by route, since a path may carry a session id; never a body. */
function requestLog(log: ServiceLog): middy.MiddlewareObj<APIGatewayProxyEventV2, Answer> {
  const startedAt = new WeakMap<object, number>();
  const write = ({ event, response, error }: { event: APIGatewayProxyEventV2; response: unknown; error?: unknown }) => {
    const status = (response as Answer | undefined)?.statusCode ?? 500;
    const { ns, name } = event.pathParameters ?? {};
    const fields = {
      requestId: event.requestContext.requestId,
      route: event.routeKey,
      method: event.requestContext.http.method,
      status,
      tookMs: Math.round((performance.now() - (startedAt.get(event) ?? performance.now())) * 10) / 10,
      ...(ns === undefined ? {} : { namespace: ns }),
      ...(name === undefined ? {} : { name }),
      ...(error === undefined || error === null ? {} : { code: toProblem(error).code }),
    };
    // The caller is told nothing of a cause; whoever runs the service needs it.
    if (status >= 500) log.error('request', { ...fields, error: describe(error) });
    else log.info('request', fields);
  };
  return {
    before: ({ event }) => {
      startedAt.set(event, performance.now());
    },
    after: write,
    onError: write,
  };
}

function describe(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const { name, message, stack, cause } = error;
  return { name, message, stack, ...(cause === undefined ? {} : { cause: describe(cause) }) };
}
