import type { Shard } from '@aws-sdk/client-dynamodb-streams';

/** Where to read in a shard: after a given record, at its start, or at its end. */
export type Position = { readonly after: string } | 'TRIM_HORIZON' | 'LATEST';

export interface ListedShard {
  readonly id: string;
  readonly parentId: string | null;
}

export function toListedShard(shard: Shard): ListedShard | null {
  return shard.ShardId === undefined ? null : { id: shard.ShardId, parentId: shard.ParentShardId ?? null };
}

/**
 * The shards that may be read now. An item's changes move from a closed shard to its children, so a child waits until
 * its parent is read to the end. A parent that is no longer listed was trimmed, so nothing waits for it.
 */
export function startable(
  listed: readonly ListedShard[],
  drained: ReadonlySet<string>,
  begun: ReadonlySet<string>,
): ListedShard[] {
  const ids = new Set(listed.map((shard) => shard.id));
  const waits = (shard: ListedShard) =>
    shard.parentId !== null && ids.has(shard.parentId) && !drained.has(shard.parentId);
  return listed.filter((shard) => !drained.has(shard.id) && !begun.has(shard.id) && !waits(shard));
}

/**
 * Shards with children are closed. A pump that starts at the latest record has nothing to read in them. (The end of the
 * sequence range would show it too, but dynoxide gives one to its open shard.)
 */
export function closedShards(listed: readonly ListedShard[]): string[] {
  const parents = new Set(listed.map((shard) => shard.parentId));
  return listed.filter((shard) => parents.has(shard.id)).map((shard) => shard.id);
}
