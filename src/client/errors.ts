/** Every error of the SDK: one class with a typed code, and subclasses for the codes that have fields of their own. */
import type { ProblemCode } from '../contract/problems.ts';
import type { LostReason as ContractLostReason, DeadlockStep, FieldError, HolderView } from '../contract/views.ts';

/**
 * What went wrong, for code to switch on: a code of the service, or one of the SDK.
 *
 * @example
 * ```ts
 * if (isHoldfastError(error) && error.code === 'lock-held') return 'busy';
 * ```
 */
export type ErrorCode =
  | ProblemCode
  | 'too-many-retries'
  | 'once-failed'
  | 'closed'
  | 'misconfigured'
  | 'unsupported'
  | 'unexpected-answer';

/** What every error may say besides its code. */
export interface ErrorDetails {
  /** The HTTP status, if the service answered. */
  readonly status?: number | undefined;
  /** Finds the request in the service's log. */
  readonly requestId?: string | undefined;
  readonly cause?: unknown;
}

/**
 * The base class of all errors of the SDK. `code` says what happened, `cause` is the error behind it. No message ever
 * shows a leaseId.
 *
 * @example
 * ```ts
 * try {
 *   await locks.acquire('wallet:42', { waitMs: 5_000 });
 * } catch (error) {
 *   if (isHoldfastError(error)) console.warn(error.code, error.requestId);
 * }
 * ```
 */
export class HoldfastError extends Error {
  override readonly name: string = 'HoldfastError';
  readonly code: ErrorCode;
  readonly status: number | undefined;
  readonly requestId: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.requestId = details.requestId;
  }
}

/**
 * True if this is an error of the SDK. It looks at the fields, so an error from another copy of this package counts too.
 *
 * @example
 * ```ts
 * const busy = isHoldfastError(error) && error.code === 'lock-held';
 * ```
 */
export const isHoldfastError = (error: unknown): error is HoldfastError =>
  error instanceof HoldfastError ||
  (error instanceof Error && 'code' in error && 'requestId' in error && 'status' in error);

/**
 * Another caller holds the lock, and this call did not wait.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof LockHeldError) retryIn(error.retryAfterMs); }
 * ```
 */
export class LockHeldError extends HoldfastError {
  override readonly name = 'LockHeldError';
  readonly holders: readonly HolderView[];
  readonly queueDepth: number;
  readonly retryAfterMs: number;
  /** If several locks were asked for: the ones that others hold. */
  readonly blockedBy: readonly string[];

  constructor(
    message: string,
    fields: {
      holders?: readonly HolderView[];
      queueDepth?: number;
      retryAfterMs?: number;
      blockedBy?: readonly string[];
    } = {},
    details: ErrorDetails = {},
  ) {
    super('lock-held', message, details);
    this.holders = fields.holders ?? [];
    this.queueDepth = fields.queueDepth ?? 0;
    this.retryAfterMs = fields.retryAfterMs ?? 0;
    this.blockedBy = fields.blockedBy ?? [];
  }
}

/**
 * The wait is over and the lock was not granted. Nothing is held and the place in the queue is given up.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof WaitTimeoutError) console.warn(`gave up after ${error.waitedMs} ms`); }
 * ```
 */
export class WaitTimeoutError extends HoldfastError {
  override readonly name = 'WaitTimeoutError';
  readonly holders: readonly HolderView[];
  readonly queueDepth: number;
  readonly waitedMs: number;
  readonly blockedBy: readonly string[];

  constructor(
    message: string,
    fields: {
      holders?: readonly HolderView[];
      queueDepth?: number;
      waitedMs?: number;
      blockedBy?: readonly string[];
    } = {},
    details: ErrorDetails = {},
  ) {
    super('wait-timeout', message, details);
    this.holders = fields.holders ?? [];
    this.queueDepth = fields.queueDepth ?? 0;
    this.waitedMs = fields.waitedMs ?? 0;
    this.blockedBy = fields.blockedBy ?? [];
  }
}

/** Why a lease is over. `unconfirmed`: the SDK could not renew it in time, so it may have ended on the service. */
export type LostReason = ContractLostReason | 'unconfirmed';

/**
 * The lease is over, or may be. Stop the work that it protected. Late writes that carry the fence are refused.
 *
 * @example
 * ```ts
 * lock.onLost((error) => console.warn(`lost: ${error.reason}`));
 * ```
 */
export class LeaseLostError extends HoldfastError {
  override readonly name = 'LeaseLostError';
  readonly reason: LostReason;

  constructor(message: string, reason: LostReason, details: ErrorDetails = {}) {
    super('lease-lost', message, details);
    this.reason = reason;
  }
}

/**
 * Sessions wait for each other in a circle. This wait was ended, so that the others can go on.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof DeadlockError) console.warn(error.cycle); }
 * ```
 */
export class DeadlockError extends HoldfastError {
  override readonly name = 'DeadlockError';
  readonly cycle: readonly DeadlockStep[];

  constructor(message: string, cycle: readonly DeadlockStep[], details: ErrorDetails = {}) {
    super('deadlock', message, details);
    this.cycle = cycle;
  }
}

/**
 * A write was refused because its fence is below the floor: a later holder has written. Records and guards throw the same class. The
 * lock was lost, so stop the work that it protected. A retry with the same fence can never succeed, because floors only rise.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof StaleFenceError) return; } // A later holder has written. Its data stays.
 * ```
 */
export class StaleFenceError extends HoldfastError {
  override readonly name = 'StaleFenceError';
  /** The highest fence that the record or the resource has seen. */
  readonly floor: number;

  constructor(message: string, floor: number, details: ErrorDetails = {}) {
    super('stale-fence', message, details);
    this.floor = floor;
  }
}

/**
 * The record has another version than the write expected.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof VersionMismatchError) console.warn(`now at ${error.version}`); }
 * ```
 */
export class VersionMismatchError extends HoldfastError {
  override readonly name = 'VersionMismatchError';
  /** Null if there is no such record. */
  readonly version: number | null;

  constructor(message: string, version: number | null, details: ErrorDetails = {}) {
    super('version-mismatch', message, details);
    this.version = version;
  }
}

/**
 * The lock is in use with another limit. All callers of a semaphore must name the same limit.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof LimitMismatchError) console.warn(`in force: ${error.limit}`); }
 * ```
 */
export class LimitMismatchError extends HoldfastError {
  override readonly name = 'LimitMismatchError';
  readonly limit: number;

  constructor(message: string, limit: number, details: ErrorDetails = {}) {
    super('limit-mismatch', message, details);
    this.limit = limit;
  }
}

/**
 * The session is over, and with it every lock that was taken under it.
 *
 * @example
 * ```ts
 * session.signal.addEventListener('abort', () => console.warn(session.signal.reason));
 * ```
 */
export class SessionLostError extends HoldfastError {
  override readonly name = 'SessionLostError';

  constructor(message: string, details: ErrorDetails = {}) {
    super('session-lost', message, details);
  }
}

/**
 * The service or its store could not be reached within the time for this call. Nobody knows whether the request took
 * effect. After an acquire, the SDK has sent a release, in case the lock was granted.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof UnavailableError) return response(503, error.retryAfterMs); }
 * ```
 */
export class UnavailableError extends HoldfastError {
  override readonly name = 'UnavailableError';
  readonly retryAfterMs: number;
  /** True if the breaker was open, so nothing was sent. */
  readonly circuitOpen: boolean;

  constructor(
    message: string,
    fields: { retryAfterMs?: number; circuitOpen?: boolean; code?: 'unavailable' | 'internal' } = {},
    details: ErrorDetails = {},
  ) {
    super(fields.code ?? 'unavailable', message, details);
    this.retryAfterMs = fields.retryAfterMs ?? 0;
    this.circuitOpen = fields.circuitOpen ?? false;
  }
}

/**
 * The service is throttled, for longer than the time for this call.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof ThrottledError) await sleep(error.retryAfterMs); }
 * ```
 */
export class ThrottledError extends HoldfastError {
  override readonly name = 'ThrottledError';
  readonly retryAfterMs: number;

  constructor(message: string, retryAfterMs: number, details: ErrorDetails = {}) {
    super('throttled', message, details);
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * The queue of this lock is full. Reduce the load: one more waiter would wait too long.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof QueueFullError) return response(429, error.retryAfterMs); }
 * ```
 */
export class QueueFullError extends HoldfastError {
  override readonly name = 'QueueFullError';
  readonly retryAfterMs: number;

  constructor(message: string, retryAfterMs: number, details: ErrorDetails = {}) {
    super('queue-full', message, details);
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * The request is not valid. This is a programming error: a retry does not help.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof InvalidRequestError) console.error(error.errors); }
 * ```
 */
export class InvalidRequestError extends HoldfastError {
  override readonly name = 'InvalidRequestError';
  readonly errors: readonly FieldError[];

  constructor(message: string, errors: readonly FieldError[] = [], details: ErrorDetails = {}) {
    super('invalid-request', message, details);
    this.errors = errors;
  }
}

/**
 * At every try of `update`, another writer came first. The record has too many writers: protect it with a lock.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof TooManyRetriesError) console.warn(`${error.tries} tries`); }
 * ```
 */
export class TooManyRetriesError extends HoldfastError {
  override readonly name = 'TooManyRetriesError';
  readonly tries: number;

  constructor(message: string, tries: number, details: ErrorDetails = {}) {
    super('too-many-retries', message, details);
    this.tries = tries;
  }
}

/**
 * The job has failed. Because of `onFailure: 'close'`, it is not done again.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof OnceFailedError) console.warn(error.failure.message); }
 * ```
 */
export class OnceFailedError extends HoldfastError {
  override readonly name = 'OnceFailedError';
  /** The error of the work, and when that run began. */
  readonly failure: { readonly name: string; readonly message: string; readonly startedAt: string };

  constructor(message: string, failure: OnceFailedError['failure'], details: ErrorDetails = {}) {
    super('once-failed', message, details);
    this.failure = failure;
  }
}

/**
 * The client, session or election was closed during this call.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof ClosedError) return; }
 * ```
 */
export class ClosedError extends HoldfastError {
  override readonly name = 'ClosedError';

  constructor(message: string, details: ErrorDetails = {}) {
    super('closed', message, details);
  }
}
