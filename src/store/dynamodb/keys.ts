import type { LockKey } from '../lock-store.ts';
import { listingShards } from './table.ts';

export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

export const lockItemKey = ({ namespace, name }: LockKey): ItemKey => ({ pk: `${namespace}/lock/${name}`, sk: 'lock' });

/** The lock that an item key belongs to; undefined for items of another kind. */
export function lockKeyOf({ pk, sk }: ItemKey): LockKey | undefined {
  if (sk !== 'lock') return undefined;
  const [namespace, kind, name] = pk.split('/');
  if (namespace === undefined || kind !== 'lock' || name === undefined) return undefined;
  return { namespace, name };
}

export const listingPartition = (namespace: string, shard: number): string => `${namespace}/locks/${shard}`;

export const shardOf = (name: string, shards: number): number => {
  // FNV-1a: spreads similar names well, is four lines, and must never change: an item stays in the shard it was put in.
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index++) hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  return (hash >>> 0) % shards;
};

export const listingKeyOf = ({ namespace, name }: LockKey) => ({
  lp: listingPartition(namespace, shardOf(name, listingShards)),
  ln: name,
});
