import { isHoldfastError } from '../client/index.ts';
import type { HttpLike } from './key.ts';

/** What a caller of the function sees if the lock is refused. */
export interface RefusalOptions {
  /** The status for HTTP callers. 409 by default; 423 (Locked) is more specific. */
  readonly refusedStatus?: 409 | 423 | undefined;
}

interface SqsLike {
  readonly Records: readonly { readonly messageId: string; readonly eventSource?: string }[];
}

/** A caller that tries again at once would only be refused again. */
const retryAfterMsMin = 1_000;

/** Codes that mean "not now", with their titles: the same event may succeed later. All other codes are errors. */
const refusals: Readonly<Record<string, string>> = {
  'lock-held': 'The lock is held',
  'wait-timeout': 'The lock was not free in time',
  'queue-full': 'Too many requests wait for the lock',
  throttled: 'Too many requests',
  deadlock: 'Waiting for the lock would never end',
  unavailable: 'The lock service cannot be reached',
};

export const isHttp = (event: unknown): event is HttpLike => {
  const { requestContext, httpMethod } = (event ?? {}) as { requestContext?: { http?: unknown }; httpMethod?: unknown };
  return requestContext?.http !== undefined || typeof httpMethod === 'string';
};

const isSqs = (event: unknown): event is SqsLike => {
  const { Records } = (event ?? {}) as { Records?: readonly { eventSource?: string }[] };
  return Array.isArray(Records) && Records.length > 0 && Records.every(({ eventSource }) => eventSource === 'aws:sqs');
};

/**
 * The answer to an event whose lock was refused. SQS delivers every message again later. An HTTP caller gets a problem
 * with the time to try again. In all other cases it throws the error, because other sources repeat a failed invocation.
 */
export function answerRefusal(
  event: unknown,
  error: unknown,
  { refusedStatus = 409 }: RefusalOptions,
  /** The lock that was refused. Missing if the same request is already being worked on, which is no matter of a lock. */
  lock?: string,
): unknown {
  if (!isHoldfastError(error) || !(error.code in refusals)) throw error;
  if (isSqs(event)) return failBatch(event.Records);
  if (!isHttp(event)) throw error;
  const status = error.code === 'unavailable' ? 503 : refusedStatus;
  // The header has whole seconds, and the body must not say less than the header.
  const { retryAfterMs: askedMs = 0 } = error as { retryAfterMs?: number };
  const retryAfterMs = Math.max(retryAfterMsMin, askedMs);
  const retryAfter = { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) };
  return problem({ status, code: error.code, ...wordsOf(error.code, lock), retryAfterMs }, retryAfter);
}

/** The answer to an HTTP request whose key can't be used, or was used for another request. A repeat would not help. */
export function answerBadKey(event: unknown, error: unknown): unknown {
  if (!isHttp(event) || !isHoldfastError(error)) throw error;
  if (error.code === 'payload-mismatch') {
    return problem({ status: 422, code: error.code, title: 'The key was used before, for another request' });
  }
  return problem({ status: 400, code: error.code, title: 'The key of this request is missing' });
}

/** No owner, no fence and no key: a caller from outside must not learn who holds a lock. */
function problem(
  {
    code,
    ...fields
  }: { status: number; code: string; title: string; detail?: string; lock?: string; retryAfterMs?: number },
  headers: Readonly<Record<string, string>> = {},
): unknown {
  return {
    statusCode: fields.status,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store', ...headers },
    body: JSON.stringify({ type: `urn:holdfast:problem:${code}`, code, ...fields }),
  };
}

function wordsOf(code: string, lock: string | undefined) {
  const title = refusals[code] ?? 'The lock was refused';
  if (code === 'unavailable') return { title };
  if (lock === undefined) return { title: 'This request is already being worked on' };
  return { title, detail: `The lock ${lock} could not be taken for this request.`, lock };
}

/** Asks SQS to deliver these messages again. The event source needs `ReportBatchItemFailures`. */
export const failBatch = (records: readonly { readonly messageId: string }[]) => ({
  batchItemFailures: records.map(({ messageId }) => ({ itemIdentifier: messageId })),
});
