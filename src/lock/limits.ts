/** Every limit of the lock rules, with its reason. Nothing waits for ever and nothing grows for ever. */
export const lockLimits = {
  /** A shorter lease would be used up by the clock difference of two hosts and one slow round trip. */
  leaseMsMin: 1_000,
  /** A day. A holder that needs longer renews, or uses a session. */
  leaseMsMax: 86_400_000,
  /** Long enough for a cold start, a retry and the work of a typical handler. Short enough to free the lock soon after a crash. */
  leaseMsDefault: 30_000,

  /** Fifteen minutes is the longest that a Lambda function can poll. */
  waitMsMax: 900_000,
  /** A parked waiter does not run while it waits, so it may wait for as long as the longest lease. */
  parkedWaitMsMax: 86_400_000,

  /** The most permits that a semaphore may have. */
  limitMax: 1_000,
  /** The same limit as in Consul. In this time, the last writes of a holder that was paused either arrive or fail. */
  lockDelayMsMax: 60_000,

  /** How long a polling waiter may be absent, between two polls or after its connection broke, and keep its place. */
  waiterAbsenceMs: 5_000,
  /** How much the clocks of two hosts may differ. On AWS they differ by a few milliseconds. 250 allows for a bad day. */
  graceMs: 250,

  /** With more waiters than this, the last ones would wait too long. The caller should reduce its load. */
  queueLengthMax: 10_000,
  /** Waiters in the lock's own item. With ordinary claims, the item stays under 1 KiB, which is one write unit. */
  frontLengthMax: 10,
  /**
   * What the sessions, metadata and addresses of all holders of a semaphore may add to its item. If they are large, fewer hold at
   * the same time, and a release always fits: 1,000 holders without them take 190 KB at most, and the front 40 KB. DynamoDB's
   * limit is 400 KB.
   */
  holdersBytesMax: 150 * 1024,
  /**
   * Endings that a lock remembers, to answer repeated requests. On a busy lock, this many leases may end before a caller
   * repeats its request.
   */
  endedRemembered: 8,

  ownerLengthMax: 128,
  metadataBytesMax: 1_024,
  reasonLengthMax: 256,
} as const;
