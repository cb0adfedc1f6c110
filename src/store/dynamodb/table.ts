/**
 * The one definition of the table: the stack deploys it and the local service creates it from here.
 *
 * Every kind of item lives in one table. Keys start with the namespace, so an IAM policy can scope
 * a caller by leading key, and a name can't contain `/`, so keys can't collide.
 */
export const tableShape = {
  partitionKey: 'pk',
  sortKey: 'sk',
  /** Epoch seconds. It only cleans up. Expiry is decided by an item's own times, because TTL may delete days late. */
  ttlAttribute: 'ttl',
  /** The notifier derives events from the difference between the old and the new image. */
  streamView: 'NEW_AND_OLD_IMAGES',
  indexes: {
    /** Lists locks by name. It has only attributes that are set once, so updates of a busy lock never write to it. */
    listing: { name: 'listing', partitionKey: 'lp', sortKey: 'ln', sortKeyType: 'S' },
    /** Sparse: locks with waiters. The reaper's schedule finds here what a lost timer missed. */
    awaited: { name: 'awaited', partitionKey: 'ap', sortKey: 'as', sortKeyType: 'N' },
    /** Sparse: the locks of a session, so that they are swept right after its end. */
    bySession: { name: 'by-session', partitionKey: 'sp', sortKey: 'pk', sortKeyType: 'S' },
  },
} as const;

/** The prefix of the sort keys of watchers. */
export const watcherSortPrefix = 'watcher/';

export const defaultTableName = 'holdfast';

/**
 * Spreads the listing of one namespace over partitions. A partition takes 1,000 writes a second, so 8 take 8,000 new
 * locks.
 */
export const listingShards = 8;
/** The reaper reads all shards each minute, so there are few. */
export const awaitedShards = 4;
