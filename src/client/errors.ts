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
  | 'payload-mismatch'
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

/** The class of the errors with one code and one field of their own, which is the second argument. */
const errorWith =
  <Name extends string, Field extends string>(name: Name, code: ErrorCode, field: Field) =>
  <Value>() => {
    class ErrorWithField extends HoldfastError {
      override readonly name = name;

      constructor(message: string, value: Value, details?: ErrorDetails) {
        super(code, message, details);
        Object.assign(this, { [field]: value });
      }
    }
    return ErrorWithField as unknown as new (
      message: string,
      value: Value,
      details?: ErrorDetails,
    ) => HoldfastError & { readonly name: Name } & { readonly [Key in Field]: Value };
  };

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

interface Blocked {
  holders?: readonly HolderView[];
  queueDepth?: number;
  blockedBy?: readonly string[];
}

/** The lock was not granted, because others hold it or wait for it. */
abstract class BlockedError extends HoldfastError {
  readonly holders: readonly HolderView[];
  readonly queueDepth: number;
  /** If several locks were asked for: the ones that others hold. */
  readonly blockedBy: readonly string[];

  constructor(
    code: ErrorCode,
    message: string,
    { holders = [], queueDepth = 0, blockedBy = [] }: Blocked,
    details: ErrorDetails,
  ) {
    super(code, message, details);
    this.holders = holders;
    this.queueDepth = queueDepth;
    this.blockedBy = blockedBy;
  }
}

/**
 * Another caller holds the lock, and this call did not wait.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof LockHeldError) retryIn(error.retryAfterMs); }
 * ```
 */
export class LockHeldError extends BlockedError {
  override readonly name = 'LockHeldError';
  readonly retryAfterMs: number;

  constructor(message: string, fields: Blocked & { retryAfterMs?: number } = {}, details: ErrorDetails = {}) {
    super('lock-held', message, fields, details);
    this.retryAfterMs = fields.retryAfterMs ?? 0;
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
export class WaitTimeoutError extends BlockedError {
  override readonly name = 'WaitTimeoutError';
  readonly waitedMs: number;

  constructor(message: string, fields: Blocked & { waitedMs?: number } = {}, details: ErrorDetails = {}) {
    super('wait-timeout', message, fields, details);
    this.waitedMs = fields.waitedMs ?? 0;
  }
}

/** Why a lease is over. `unconfirmed`: the SDK could not renew it in time, so it may have ended on the service. */
export type LostReason = ContractLostReason | 'unconfirmed';

interface Revocation {
  readonly revokedBy?: string | undefined;
  readonly revokedReason?: string | undefined;
}

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
  /** If the reason is `revoked`: who revoked the lease, and why. */
  readonly revokedBy: string | undefined;
  readonly revokedReason: string | undefined;

  constructor(message: string, reason: LostReason, details: ErrorDetails = {}, revocation: Revocation = {}) {
    super('lease-lost', message, details);
    this.reason = reason;
    this.revokedBy = revocation.revokedBy;
    this.revokedReason = revocation.revokedReason;
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
export class DeadlockError extends errorWith('DeadlockError', 'deadlock', 'cycle')<readonly DeadlockStep[]>() {}

/**
 * A write was refused because its fence is below the `floor`, the highest fence that the record or the resource has seen: a later holder has
 * written. Records and guards throw the same class. The lock was lost, so stop the work that it protected. A retry with the same fence can
 * never succeed, because floors only rise.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof StaleFenceError) return; } // A later holder has written. Its data stays.
 * ```
 */
export class StaleFenceError extends errorWith('StaleFenceError', 'stale-fence', 'floor')<number>() {}

/**
 * The record has another version than the write expected. `version` is null if there is no such record.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof VersionMismatchError) console.warn(`now at ${error.version}`); }
 * ```
 */
export class VersionMismatchError extends errorWith('VersionMismatchError', 'version-mismatch', 'version')<
  number | null
>() {}

/**
 * The lock is in use with another limit. All callers of a semaphore must name the same limit.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof LimitMismatchError) console.warn(`in force: ${error.limit}`); }
 * ```
 */
export class LimitMismatchError extends errorWith('LimitMismatchError', 'limit-mismatch', 'limit')<number>() {}

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
 * The service or its store could not be reached within the time for this call. Unless `unsent` is true, nobody knows
 * whether the request took effect. After an acquire, the SDK has sent a release, in case the lock was granted.
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
  /** True if no try reached the service, because its address or its port does not exist. Then nothing took effect. */
  readonly unsent: boolean;

  constructor(
    message: string,
    fields: {
      retryAfterMs?: number;
      circuitOpen?: boolean;
      unsent?: boolean;
      code?: 'unavailable' | 'internal';
    } = {},
    details: ErrorDetails = {},
  ) {
    super(fields.code ?? 'unavailable', message, details);
    this.retryAfterMs = fields.retryAfterMs ?? 0;
    this.circuitOpen = fields.circuitOpen ?? false;
    this.unsent = fields.unsent ?? false;
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
export class ThrottledError extends errorWith('ThrottledError', 'throttled', 'retryAfterMs')<number>() {}

/**
 * The queue of this lock is full. Reduce the load: one more waiter would wait too long.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof QueueFullError) return response(429, error.retryAfterMs); }
 * ```
 */
export class QueueFullError extends errorWith('QueueFullError', 'queue-full', 'retryAfterMs')<number>() {}

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

/** Says which field is wrong, and why. */
export const invalidField = (field: string, message: string, subject = field): InvalidRequestError =>
  new InvalidRequestError(`${subject} ${message}.`, [{ field, message }]);

/**
 * At every try of `update`, another writer came first. The record has too many writers: protect it with a lock.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof TooManyRetriesError) console.warn(`${error.tries} tries`); }
 * ```
 */
export class TooManyRetriesError extends errorWith('TooManyRetriesError', 'too-many-retries', 'tries')<number>() {}

interface OnceFailure {
  readonly name: string;
  readonly message: string;
  /** When the run that failed began. */
  readonly startedAt: string;
}

/**
 * The job has failed. Because of `onFailure: 'close'`, it is not done again. `failure` is the error of the work.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof OnceFailedError) console.warn(error.failure.message); }
 * ```
 */
export class OnceFailedError extends errorWith('OnceFailedError', 'once-failed', 'failure')<OnceFailure>() {}

/**
 * The key of a job was used before, with another payload. The kept result is not the answer to this one.
 *
 * @example
 * ```ts
 * catch (error) { if (error instanceof PayloadMismatchError) return { statusCode: 422 }; }
 * ```
 */
export class PayloadMismatchError extends HoldfastError {
  override readonly name = 'PayloadMismatchError';

  constructor(message: string, details: ErrorDetails = {}) {
    super('payload-mismatch', message, details);
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
