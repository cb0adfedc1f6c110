import { type ProblemCode, problemTypes } from '../contract/problems.ts';
import { StoreError, type StoreErrorCode } from '../table/store-error.ts';

/** An answer that is not a success. Operations throw it, and the handler turns it into RFC 9457. */
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
    const { code, status, message: detail, fields } = this;
    return { type: `urn:holdfast:problem:${code}`, title: problemTypes[code].title, status, detail, code, ...fields };
  }
}

/** Says which field of a request is wrong, and why. */
export const invalidField = (field: string, message: string): Problem =>
  new Problem('invalid-request', `${field} ${message}.`, { errors: [{ field, message }] });

/** After a throttle or a conflict, a short pause is enough. A store that can't be reached needs longer. */
const storeProblems: Record<Exclude<StoreErrorCode, 'refused'>, { code: ProblemCode; retryAfterMs: number }> = {
  unavailable: { code: 'unavailable', retryAfterMs: 1_000 },
  throttled: { code: 'throttled', retryAfterMs: 500 },
  conflict: { code: 'throttled', retryAfterMs: 100 },
  'too-large': { code: 'queue-full', retryAfterMs: 1_000 },
  // While a newer release is being deployed, the next try may reach the new release.
  unreadable: { code: 'unavailable', retryAfterMs: 5_000 },
};

/** What a caller is told about an error. An unexpected error reveals nothing. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof StoreError) {
    if (error.code === 'refused') {
      const errors = [{ field: 'request', message: 'contains something that the store does not take' }];
      return new Problem(
        'invalid-request',
        `${error.message} A repetition does not help.`,
        { errors },
        { cause: error },
      );
    }
    const { code, retryAfterMs } = storeProblems[error.code];
    return new Problem(code, `${error.message} Repeat the same request.`, { retryAfterMs }, { cause: error });
  }
  const detail = 'The service failed. The log has the cause under this request id.';
  return new Problem('internal', detail, {}, { cause: error });
}
