/** Calls of a notifier end in bounded time: a stream that hangs on one service would hold up every hand-over behind it. */
export const boundedRequests = {
  // Two tries of at most two seconds; what fails then comes again with its record.
  maxAttempts: 2,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 2_000, throwOnRequestTimeout: true },
};
