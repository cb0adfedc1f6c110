/**
 * The only definition of the table. The stack deploys it, and the local service creates it from here.
 *
 * All kinds of items are in one table. Keys start with the namespace, so an IAM policy can limit a caller to
 * a namespace. A name can't contain `/`, so two keys are never equal.
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
    listing: { name: 'listing', partitionKey: 'lp', sortKey: 'pk', sortKeyType: 'S' },
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

interface KeyPart {
  AttributeName: string;
  KeyType: 'HASH' | 'RANGE';
}

const keySchema = (partitionKey: string, sortKey: string): KeyPart[] => [
  { AttributeName: partitionKey, KeyType: 'HASH' },
  { AttributeName: sortKey, KeyType: 'RANGE' },
];

/** What CreateTable takes. */
export function tableDefinition(tableName: string) {
  const indexes = Object.values(tableShape.indexes);
  // Each attribute is defined once, even if it is part of several keys.
  const attributeTypes = new Map<string, 'S' | 'N'>([
    [tableShape.partitionKey, 'S'],
    [tableShape.sortKey, 'S'],
  ]);
  for (const index of indexes) {
    attributeTypes.set(index.partitionKey, 'S');
    attributeTypes.set(index.sortKey, index.sortKeyType);
  }
  return {
    TableName: tableName,
    BillingMode: 'PAY_PER_REQUEST' as const,
    AttributeDefinitions: [...attributeTypes].map(([AttributeName, AttributeType]) => ({
      AttributeName,
      AttributeType,
    })),
    KeySchema: keySchema(tableShape.partitionKey, tableShape.sortKey),
    GlobalSecondaryIndexes: indexes.map((index) => ({
      IndexName: index.name,
      KeySchema: keySchema(index.partitionKey, index.sortKey),
      Projection: { ProjectionType: 'KEYS_ONLY' as const },
    })),
    StreamSpecification: { StreamEnabled: true, StreamViewType: tableShape.streamView },
  };
}

export type TableDefinition = ReturnType<typeof tableDefinition>;
