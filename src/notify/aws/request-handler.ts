/** Every call of a notifier ends in bounded time. A call that hangs would hold up every record behind it in the stream. */
export const boundedRequests = {
  // Two tries of at most two seconds. What fails then is tried again with its record.
  maxAttempts: 2,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 2_000, throwOnRequestTimeout: true },
};
