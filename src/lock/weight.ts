import { lockLimits } from './limits.ts';
import type { Claim, LockState, Waiter } from './state.ts';

const utf8 = new TextEncoder();

/** How many bytes a waiter adds to the lock's item, at most. Its JSON is longer than its form in DynamoDB. */
export function weightOf({ aliveUntil: _, ...lasting }: Waiter): number {
  // `aliveUntil` changes while it waits, but its weight must not.
  return utf8.encode(JSON.stringify(lasting)).length;
}

export const queueWeight = (queue: readonly Waiter[]): number =>
  queue.reduce((sum, waiter) => sum + weightOf(waiter), 0);

/** The front has a limit in waiters, and one in bytes, because waiters differ a lot in size. An empty front takes any waiter. */
export const hasPlace = (front: readonly Waiter[], waiter: Waiter, lengthMax: number): boolean =>
  front.length === 0 || (front.length < lengthMax && queueWeight(front) + weightOf(waiter) <= lockLimits.frontBytesMax);

/** The numbers of a holder, and the names of its attributes. */
const holderBytes = 64;

const weighed = new WeakMap<Claim, number>();

/** About what the holder of a part adds to the item. It counts nothing that a renewal changes. */
export function holderWeight(claim: Claim): number {
  // A release that grants to hundreds of readers needs the same weights again and again.
  const known = weighed.get(claim);
  if (known !== undefined) return known;
  const { leaseId, owner, sessionId = '', metadata, notify } = claim;
  const texts = [owner, sessionId, ...[metadata, notify].map((part) => JSON.stringify(part ?? ''))];
  // The leaseId is part of the names of two attributes.
  const weight = holderBytes + texts.reduce((sum, text) => sum + utf8.encode(text).length, 2 * leaseId.length);
  weighed.set(claim, weight);
  return weight;
}

/** The weight of all holders that have only some of the permits. A holder of all permits is alone and always fits. */
export const holdersWeight = ({ holders, limit }: Pick<LockState, 'holders' | 'limit'>): number =>
  holders.reduce((sum, holder) => sum + (holder.permits < limit ? holderWeight(holder) : 0), 0);
