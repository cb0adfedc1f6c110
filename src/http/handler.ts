import { operations } from '../contract/operations.ts';
import { defined } from '../tools/collections.ts';
import type { Log } from '../tools/log.ts';
import { handlers } from './operations.ts';
import { Problem, toProblem } from './problems.ts';
import { checkRequest, type Reply, type Request } from './request.ts';
import { matchPath } from './router.ts';
import type { Service } from './service.ts';

/** An answer, independent of how it is sent. */
export interface Answer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

export type Handler = (request: Request) => Promise<Answer>;

/** Called with each refusal and the request that was refused. */
export type OnProblem = (problem: Problem, request: Request) => void;

export interface HandlerOptions {
  readonly onProblem?: OnProblem;
  /** Settled before an answer is sent: Lambda stops a function after its answer, even if deliveries are left. */
  readonly handOffs?: { settle(): Promise<void> };
}

/** Answers every request of the service. Adapters call it. */
export function createHandler(
  service: Service,
  log: Pick<Log, 'info' | 'error'>,
  { onProblem = () => {}, handOffs }: HandlerOptions = {},
): Handler {
  return async (request) => {
    const answer = await answerTo(request);
    if (handOffs !== undefined) await handOffs.settle();
    return answer;
  };

  async function answerTo(request: Request): Promise<Answer> {
    const startedAt = performance.now();
    try {
      const reply = await operate(service, request);
      logRequest(log, request, reply.status, startedAt, reply);
      return toAnswer(reply, request.id);
    } catch (error) {
      const problem = toProblem(error);
      logRequest(log, request, problem.status, startedAt, { problem });
      onProblem(problem, request);
      return problemAnswer(problem, request.id);
    }
  }
}

/** Returns an operation's answer, or throws a problem. */
export async function operate(service: Service, request: Request): Promise<Reply> {
  const { operation } = request;
  if (operation === undefined) throw noSuchRoute(request);
  refuseForeignNamespace(request);
  return handlers[operation](service, checkRequest(operation, request) as never);
}

/** Checked on every route: a token that is bound to namespaces can use no other, whatever its scopes are. */
function refuseForeignNamespace({ namespaces, parameters: { ns } }: Request): void {
  if (namespaces === undefined || ns === undefined || namespaces.includes(ns) || namespaces.includes('*')) return;
  throw new Problem('forbidden', 'The token does not list this namespace.');
}

function noSuchRoute({ method, path }: Request): Problem {
  const match = matchPath(path);
  if (match === undefined) return new Problem('not-found', `Nothing answers ${method} at this path.`);
  const allow = [...match.operations.keys()].join(', ');
  return new Problem('method-not-allowed', `This path takes ${allow}, but got ${method}.`, {}, { headers: { allow } });
}

/** Every error is sent as problem+json, and contains only what its problem says. */
export function problemAnswer(problem: Problem, requestId: string): Answer {
  const body = { ...problem.toJSON(), instance: instanceOf(requestId) };
  return toAnswer({ status: problem.status, body, headers: problem.headers }, requestId, 'application/problem+json');
}

export const instanceOf = (requestId: string): string => `urn:holdfast:request:${requestId}`;

function toAnswer(reply: Reply, requestId: string, type = 'application/json'): Answer {
  const { retryAfterMs } = (reply.body ?? {}) as { retryAfterMs?: unknown };
  return {
    status: reply.status,
    headers: {
      'content-type': type,
      'cache-control': 'no-store',
      'x-request-id': requestId,
      ...reply.headers,
      ...(typeof retryAfterMs === 'number' ? { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) } : {}),
    },
    body: reply.text ?? (reply.body === undefined ? undefined : JSON.stringify(reply.body)),
  };
}

/** One line per request. It names the route, because a path may contain a session id, and never the body. */
function logRequest(
  log: Pick<Log, 'info' | 'error'>,
  request: Request,
  status: number,
  startedAt: number,
  { problem, logged }: { readonly problem?: Problem } & Pick<Reply, 'logged'>,
): void {
  const { operation, method, parameters } = request;
  const { ns, name } = parameters;
  const fields = {
    requestId: request.id,
    route: operation === undefined ? `${method} $default` : operations[operation].route,
    status,
    tookMs: Math.round((performance.now() - startedAt) * 10) / 10,
    ...defined({ namespace: ns, name, code: problem?.code }),
    ...logged,
  };
  // The caller must not see the cause. The operator of the service needs it in the log.
  // A refusal by the store has a cause too: its own check of requests should have found it.
  const isFault = status >= 500 || (status === 400 && problem?.cause !== undefined);
  if (isFault) log.error('request', { ...fields, error: describe(problem?.cause ?? problem) });
  else log.info('request', fields);
}

function describe(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const { name, message, stack, cause } = error;
  // AWS can find the request on its side by this id.
  const awsRequestId = (error as { $metadata?: { requestId?: string } }).$metadata?.requestId;
  return {
    name,
    message,
    stack,
    ...defined({ awsRequestId, cause: cause === undefined ? undefined : describe(cause) }),
  };
}
