/** Every bound of the lock rules, with its reason. Nothing waits for ever and nothing grows for ever. */
export const lockLimits = {
  /** Under a second, the skew between two hosts and one slow round trip would eat the lease. */
  leaseMsMin: 1_000,
  /** A day. A holder that needs longer renews, or uses a session. */
  leaseMsMax: 86_400_000,
  /** Long enough for a cold start, a retry and the work of a typical handler; short enough that a crash is healed soon. */
  leaseMsDefault: 30_000,

  /** Fifteen minutes is the longest that a Lambda function can poll. */
  waitMsMax: 900_000,
  /** A parked waiter need not run, so it may wait for as long as a lease may last. */
  parkedWaitMsMax: 86_400_000,

  /** Largest semaphore that a caller may ask for. */
  limitMax: 1_000,
  /** Consul's bound for the same idea: long enough for a paused holder's writes in flight to land or die. */
  lockDelayMsMax: 60_000,

  /** How long a polling waiter may stay away, between two polls or after a cut connection, and keep its place. */
  waiterAbsenceMs: 5_000,
  /** Clock skew tolerated between two hosts. AWS keeps its hosts within a few milliseconds; 250 leaves room for a bad day. */
  graceMs: 250,

  /** With more waiters than this, the last ones would wait too long. The caller should reduce its load. */
  queueLengthMax: 10_000,
  /** Waiters that join the lock's own item. A page may move up while a few are left: with ordinary claims it stays under 2 KiB, two write units. */
  frontLengthMax: 10,
  /** A front of large claims takes fewer. What has to be in the item always fits far below DynamoDB's 400 KiB. */
  frontBytesMax: 16 * 1024,
  /** Waiters in a page: with ordinary claims it stays under 1 KiB, one write unit. */
  pageLengthMax: 8,
  /** Holders of parts: 1,000 ordinary ones. If claims are large, fewer hold at the same time, and a release always fits. */
  holdersBytesMax: 200 * 1024,
  /** Endings that a lock remembers, to answer repeats: one retry's worth on a busy lock, and the item stays under 1 KiB. */
  endedRemembered: 8,

  ownerLengthMax: 128,
  metadataBytesMax: 1_024,
  reasonLengthMax: 256,
} as const;
