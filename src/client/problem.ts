import type { DeadlockStep, FieldError, HolderView } from '../contract/views.ts';
import {
  DeadlockError,
  type ErrorCode,
  type ErrorDetails,
  HoldfastError,
  InvalidRequestError,
  LeaseLostError,
  LimitMismatchError,
  LockHeldError,
  type LostReason,
  QueueFullError,
  SessionLostError,
  StaleFenceError,
  ThrottledError,
  UnavailableError,
  VersionMismatchError,
  WaitTimeoutError,
} from './errors.ts';
import type { Answer } from './transport.ts';

/** Every field that a problem may have. Each is checked before it is used, because it comes from outside. */
interface Problem {
  readonly code?: unknown;
  readonly detail?: unknown;
  readonly message?: unknown;
  readonly errors?: readonly FieldError[];
  readonly holders?: readonly HolderView[];
  readonly queueDepth?: number;
  readonly retryAfterMs?: unknown;
  readonly waitedMs?: number;
  readonly blockedBy?: readonly string[];
  readonly reason?: LostReason;
  readonly revokedBy?: string;
  readonly revokedReason?: string;
  readonly limit?: number;
  readonly cycle?: readonly DeadlockStep[];
  readonly fenceFloor?: number;
  readonly version?: number | null;
}

/** A gateway or proxy in front of the service refuses without a code. Then the status says what happened. */
const codeOfStatus: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid-request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not-found',
  405: 'method-not-allowed',
  408: 'unavailable',
  410: 'session-lost',
  412: 'version-mismatch',
  413: 'too-large',
  415: 'unsupported-media-type',
  428: 'precondition-required',
  429: 'throttled',
  500: 'internal',
  502: 'unavailable',
  503: 'unavailable',
  504: 'unavailable',
};

/** The error that an answer means. Only for answers that are not successes. */
export function errorOf({ status, headers, body, cause }: Answer): HoldfastError {
  const problem: Problem = typeof body === 'object' && body !== null ? body : {};
  const code = typeof problem.code === 'string' ? (problem.code as ErrorCode) : codeOfStatus[status];
  const said = [problem.detail, problem.message].find((text) => typeof text === 'string') as string | undefined;
  const message = said ?? `The service answered ${status}.`;
  const details: ErrorDetails = { status, requestId: headers['x-request-id'], cause };
  const retryAfterMs = patienceOf(problem, headers);
  switch (code) {
    case 'invalid-request':
      return new InvalidRequestError(message, problem.errors ?? [], details);
    case 'lock-held':
      return new LockHeldError(message, { ...problem, retryAfterMs }, details);
    case 'wait-timeout':
      return new WaitTimeoutError(message, problem, details);
    case 'lease-lost':
      return new LeaseLostError(message, problem.reason ?? 'not_owner', details, problem);
    case 'limit-mismatch':
      return new LimitMismatchError(message, problem.limit ?? 0, details);
    case 'deadlock':
      return new DeadlockError(message, problem.cycle ?? [], details);
    case 'stale-fence':
      return new StaleFenceError(message, problem.fenceFloor ?? 0, details);
    case 'session-lost':
      return new SessionLostError(message, details);
    case 'version-mismatch':
      return new VersionMismatchError(message, problem.version ?? null, details);
    case 'queue-full':
      return new QueueFullError(message, retryAfterMs, details);
    case 'throttled':
      return new ThrottledError(message, retryAfterMs, details);
    case 'internal':
    case 'unavailable':
      return new UnavailableError(message, { retryAfterMs, code }, details);
    default:
      return new HoldfastError(code ?? 'unexpected-answer', message, details);
  }
}

function patienceOf({ retryAfterMs }: Problem, headers: Readonly<Record<string, string>>): number {
  if (typeof retryAfterMs === 'number' && retryAfterMs >= 0) return retryAfterMs;
  const seconds = Number(headers['retry-after'] ?? 0);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : 0;
}
