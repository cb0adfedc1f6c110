import { StoreError, type StoreErrorCode } from '../store/store-error.ts';

/** Every code that a caller can meet, with its status and title. The one table from code to HTTP. */
export const problemTypes = {
  'invalid-request': { status: 400, title: 'The request is not valid' },
  unauthorized: { status: 401, title: 'The caller is not known' },
  forbidden: { status: 403, title: 'The caller may not do this' },
  'not-found': { status: 404, title: 'There is nothing here' },
  'method-not-allowed': { status: 405, title: 'The method does not fit this path' },
  'lock-held': { status: 409, title: 'The lock is held' },
  'wait-timeout': { status: 409, title: 'The wait is over and the lock was not granted' },
  'lease-lost': { status: 409, title: 'The lease is not in force' },
  'limit-mismatch': { status: 409, title: 'The lock is in use with another limit' },
  deadlock: { status: 409, title: 'Waiting would never end' },
  'stale-fence': { status: 409, title: 'The fence is older than the highest seen' },
  'session-lost': { status: 410, title: 'The session is over' },
  'version-mismatch': { status: 412, title: 'The record has another version' },
  'too-large': { status: 413, title: 'The body is too large' },
  'unsupported-media-type': { status: 415, title: 'The body is not JSON' },
  'precondition-required': { status: 428, title: 'A precondition is required' },
  'queue-full': { status: 429, title: 'Too many are waiting' },
  throttled: { status: 429, title: 'Too many requests' },
  internal: { status: 500, title: 'Something that should not happen did' },
  unavailable: { status: 503, title: 'The store can not be reached' },
} as const;

export type ProblemCode = keyof typeof problemTypes;

/** An answer that is not a success. Thrown by operations, turned into RFC 9457 by the handler. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ProblemCode,
    detail: string,
    fields: Readonly<Record<string, unknown>> = {},
    more: { headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(detail, { cause: more.cause });
    this.name = 'Problem';
    this.code = code;
    this.fields = fields;
    this.headers = more.headers ?? {};
  }

  get status(): number {
    return problemTypes[this.code].status;
  }

  toJSON(): Record<string, unknown> {
    const { status, title } = problemTypes[this.code];
    return {
      type: `urn:holdfast:problem:${this.code}`,
      title,
      status,
      detail: this.message,
      code: this.code,
      ...this.fields,
    };
  }
}

/** A store that asks for patience is asked again after a moment; one that is away needs longer. */
const storeProblems: Record<StoreErrorCode, { code: ProblemCode; retryAfterMs: number }> = {
  unavailable: { code: 'unavailable', retryAfterMs: 1_000 },
  throttled: { code: 'throttled', retryAfterMs: 500 },
  conflict: { code: 'throttled', retryAfterMs: 100 },
  'too-large': { code: 'queue-full', retryAfterMs: 1_000 },
};

/** What a caller is told of an error. What it does not expect to see, it learns nothing of. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof StoreError) {
    const { code, retryAfterMs } = storeProblems[error.code];
    return new Problem(code, `${error.message} Repeat the same request.`, { retryAfterMs }, { cause: error });
  }
  return new Problem(
    'internal',
    'The service failed. The log has the cause under this request id.',
    {},
    { cause: error },
  );
}
