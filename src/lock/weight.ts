import { lockLimits } from './limits.ts';
import type { Claim, LockState, Waiter } from './state.ts';

const utf8 = new TextEncoder();

/** About what a waiter adds to the lock's item, in bytes. Its JSON is longer than DynamoDB's own form, so this errs on the safe side. */
export function weightOf({ aliveUntil: _, ...lasting }: Waiter): number {
  // How long it counts as present changes while it waits; its weight must not.
  return utf8.encode(JSON.stringify(lasting)).length;
}

export const queueWeight = (queue: readonly Waiter[]): number =>
  queue.reduce((sum, waiter) => sum + weightOf(waiter), 0);

/** The front is bounded in number, and in bytes, since entries differ a lot. An empty one takes whatever comes. */
export const hasPlace = (front: readonly Waiter[], waiter: Waiter, lengthMax: number): boolean =>
  front.length === 0 || (front.length < lengthMax && queueWeight(front) + weightOf(waiter) <= lockLimits.frontBytesMax);

/** Numbers, and the names of what a holder is made of. */
const holderBytes = 64;

const weighed = new WeakMap<Claim, number>();

/** About what the holder of a part adds to the item. It counts nothing that a renewal changes. */
export function holderWeight(claim: Claim): number {
  // A release that serves hundreds of readers weighs the same ones over and over.
  const known = weighed.get(claim);
  if (known !== undefined) return known;
  const { leaseId, owner, sessionId = '', metadata, notify } = claim;
  const texts = [owner, sessionId, ...[metadata, notify].map((part) => JSON.stringify(part ?? ''))];
  // The lease names two attributes of the item.
  const weight = holderBytes + texts.reduce((sum, text) => sum + utf8.encode(text).length, 2 * leaseId.length);
  weighed.set(claim, weight);
  return weight;
}

/** Of those that hold a part: a holder of the whole lock is alone, and always fits. */
export const holdersWeight = ({ holders, limit }: Pick<LockState, 'holders' | 'limit'>): number =>
  holders.reduce((sum, holder) => sum + (holder.permits < limit ? holderWeight(holder) : 0), 0);
