import { createHash } from 'node:crypto';
import { type LockKey, lockIdOf, type PageKey } from '../lock-store.ts';
import type { SessionKey } from '../session-store.ts';
import { awaitedShards, listingShards } from './table.ts';

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

/**
 * A session as keys and indexes name it. Its id is a secret, and keys are shown in clear by CloudTrail's data events and by Contributor
 * Insights; 160 bits of a digest name it as well and open nothing.
 */
export const sessionDigest = (sessionId: string): string =>
  createHash('sha256').update(sessionId).digest('base64url').slice(0, 27);

export const sessionItemKey = ({ namespace, sessionId }: SessionKey): ItemKey => ({
  pk: `${namespace}/session/${sessionDigest(sessionId)}`,
  sk: 'session',
});

/** An item of its own for a part of a lock: the lock's item can be found by one session only, and a semaphore has many holders. */
export const sessionPartKey = ({ namespace, sessionId }: SessionKey, lock: string): ItemKey => ({
  pk: `${namespace}/lock/${lock}`,
  sk: `part/${sessionDigest(sessionId)}`,
});

/** A key of its own for each page, so that pages do not use up the write units of the lock's key. A name has no `#`. */
export const pageItemKey = ({ lock: { namespace, name }, number }: PageKey): ItemKey => ({
  pk: `${namespace}/page/${name}#${number}`,
  sk: pageSortKey,
});
export const pageSortKey = 'page';

/** The page that an item key belongs to; undefined for items of another kind. */
export function pageKeyOf({ pk, sk }: ItemKey): PageKey | undefined {
  const found = sk === pageSortKey ? /^([^/]+)\/page\/([^/#]+)#(\d+)$/.exec(pk) : null;
  const [, namespace, name, number] = found ?? [];
  if (namespace === undefined || name === undefined) return undefined;
  return { lock: { namespace, name }, number: Number(number) };
}

export const listingPartition = (namespace: string, shard: number): string => `${namespace}/locks/${shard}`;
export const awaitedPartition = (shard: number): string => `awaited/${shard}`;

export const shardOf = (name: string, shards: number): number => {
  // FNV-1a: spreads similar names well, is four lines, and must never change: an item stays in the shard it was put in.
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index++) hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  return (hash >>> 0) % shards;
};

export const listingKeyOf = ({ namespace, name }: LockKey) => ({
  listingPartition: listingPartition(namespace, shardOf(name, listingShards)),
  listingName: name,
});

export const awaitedPartitionOf = (key: LockKey): string => awaitedPartition(shardOf(lockIdOf(key), awaitedShards));
