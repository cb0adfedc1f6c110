import { attemptsOf, isThrottling } from '../../store/dynamodb/failures.ts';
import type { Delivered } from '../ports.ts';

/** Names of throttling beyond DynamoDB's own: of API Gateway, Step Functions and KMS. */
const throttlings = new Set(['TooManyRequestsException', 'KmsThrottlingException', 'ThrottledException']);

/** A request that arrived too late, or was signed by a wrong clock or with old credentials: the same delivery may pass a moment later. */
const passing = new Set(['RequestTimeout', 'RequestTimeTooSkewed', 'RequestExpired', 'ExpiredTokenException']);

/**
 * Whether AWS refused for good: every 4xx but throttling, such as a task that is over, a missing permission or a disabled key. Trying
 * again would only hold up the deliveries behind this one.
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

/** What became of a delivery. What may pass by itself is thrown. */
export async function outcomeOf(sending: Promise<unknown>): Promise<Delivered> {
  try {
    await sending;
    return 'sent';
  } catch (error) {
    // A task that got its answer is over, and a client may close its connection once it knows. So a repeated call may find nobody
    // although its first try arrived.
    if (isFinalRefusal(error) && attemptsOf(error) === 1) return 'gone';
    throw error;
  }
}
