/** Calls of a notifier to AWS: how long they may take, and what their outcome means. */
import { attemptsOf, isThrottling } from '../../table/failures.ts';
import type { Delivered } from '../ports.ts';

/** Every call of a notifier ends in bounded time. A call that hangs would delay every record behind it in the stream. */
export const boundedRequests = {
  // Two tries of at most two seconds. If both fail, the stream delivers the record again.
  maxAttempts: 2,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 2_000, throwOnRequestTimeout: true },
};

/** Names of throttling that DynamoDB does not use: of API Gateway, Step Functions and KMS. */
const throttlings = new Set(['TooManyRequestsException', 'KmsThrottlingException', 'ThrottledException']);

/** The request came too late, or its clock or credentials were out of date. The same delivery may succeed a moment later. */
const passing = new Set(['RequestTimeout', 'RequestTimeTooSkewed', 'RequestExpired', 'ExpiredTokenException']);

/**
 * Whether AWS will refuse every repetition: every 4xx except throttling, such as a task that is over, a missing
 * permission or a disabled key. A repetition would only delay the deliveries behind this one.
 */
export function isFinalRefusal(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { $metadata, $retryable } = error as {
    $metadata?: { httpStatusCode?: number };
    $retryable?: { throttling?: boolean };
  };
  const status = $metadata?.httpStatusCode ?? 0;
  if (status < 400 || status >= 500 || status === 408 || status === 429) return false;
  if ($retryable?.throttling === true || isThrottling(error.name) || throttlings.has(error.name)) return false;
  return !passing.has(error.name);
}

/** The outcome of a delivery. Throws if a repetition may succeed. */
export async function outcomeOf(sending: Promise<unknown>): Promise<Delivered> {
  try {
    await sending;
    return 'sent';
  } catch (error) {
    // A task that got its answer is over, and a client may close its connection after its answer. So a second try may find
    // nobody although the first one arrived.
    if (isFinalRefusal(error) && attemptsOf(error) === 1) return 'gone';
    throw error;
  }
}
