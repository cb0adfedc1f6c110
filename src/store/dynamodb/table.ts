/**
 * The one definition of the table: the stack deploys it and the local service creates it from here.
 *
 * Every kind of item lives in one table. Keys start with the namespace, so an IAM policy can scope
 * a caller by leading key, and a name can't contain `/`, so keys can't collide.
 */
export const tableShape = {
  partitionKey: 'pk',
  sortKey: 'sk',
  /** Epoch seconds; only tidies up. Expiry is judged by an item's own times, since TTL deletion may lag by days. */
  ttlAttribute: 'ttl',
  /** The notifier derives events from the difference between the old and the new image. */
  streamView: 'NEW_AND_OLD_IMAGES',
  indexes: {
    /** Lists locks by name. Its attributes are set once and projected alone, so a hot lock's updates never touch it. */
    listing: { name: 'listing', partitionKey: 'lp', sortKey: 'ln', sortKeyType: 'S' },
    /** Sparse: locks that somebody waits for, so that the reaper's schedule finds what a lost timer missed. */
    awaited: { name: 'awaited', partitionKey: 'ap', sortKey: 'as', sortKeyType: 'N' },
    /** Sparse: the locks of a session, so that its end frees them promptly. */
    bySession: { name: 'by-session', partitionKey: 'sp', sortKey: 'pk', sortKeyType: 'S' },
  },
} as const;

/** Sort keys of the items that watchers are kept in. */
export const watcherSortPrefix = 'watcher/';

export const defaultTableName = 'holdfast';

/** Spreads the listing of one namespace over partitions: a partition takes 1,000 writes a second, so 8 take 8,000 new locks. */
export const listingShards = 8;
/** The reaper reads all shards each minute, so there are few. */
export const awaitedShards = 4;
