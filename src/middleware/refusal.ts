import { isHoldfastError } from '../client/index.ts';

/** How a refused lock looks to whoever called the function. */
export interface RefusalOptions {
  /** The status for HTTP callers, 409 by default; 423 (Locked) says it more narrowly. */
  readonly refusedStatus?: 409 | 423 | undefined;
}

interface SqsLike {
  readonly Records: readonly { readonly messageId: string; readonly eventSource?: string }[];
}

/** Codes that mean: not now, and nothing is wrong. The rest are errors of their own. */
const refusals = new Set(['lock-held', 'wait-timeout', 'queue-full', 'throttled', 'unavailable', 'deadlock']);

const isHttp = (event: unknown): boolean => {
  const { requestContext, httpMethod } = (event ?? {}) as { requestContext?: { http?: unknown }; httpMethod?: unknown };
  return requestContext?.http !== undefined || typeof httpMethod === 'string';
};

export const isSqs = (event: unknown): event is SqsLike => {
  const { Records } = (event ?? {}) as { Records?: readonly { eventSource?: string }[] };
  return Array.isArray(Records) && Records.length > 0 && Records.every(({ eventSource }) => eventSource === 'aws:sqs');
};

/**
 * The answer to an event whose lock was refused: for SQS every message again later, for HTTP a problem with the time to come back.
 * Undefined where the error should be thrown: other sources repeat an invocation that failed.
 */
export function answerRefusal(event: unknown, error: unknown, { refusedStatus = 409 }: RefusalOptions): unknown {
  if (!isHoldfastError(error) || !refusals.has(error.code)) return undefined;
  if (isSqs(event)) return failBatch(event.Records);
  if (!isHttp(event)) return undefined;
  const status = error.code === 'unavailable' ? 503 : refusedStatus;
  const { retryAfterMs = 0 } = error as { retryAfterMs?: number };
  return {
    statusCode: status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))),
    },
    // No owner, no fence: who holds a lock inside is none of an outside caller's business.
    body: JSON.stringify({
      type: `urn:holdfast:problem:${error.code}`,
      title: status === 503 ? 'The lock service can not be reached' : 'Somebody else is at work on this',
      status,
      code: error.code,
      retryAfterMs,
    }),
  };
}

/** What SQS understands as: deliver these again. Needs `ReportBatchItemFailures` on the event source. */
export const failBatch = (records: readonly { readonly messageId: string }[]) => ({
  batchItemFailures: records.map(({ messageId }) => ({ itemIdentifier: messageId })),
});
