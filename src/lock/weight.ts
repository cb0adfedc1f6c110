import { lockLimits } from './limits.ts';
import type { Waiter } from './state.ts';

const utf8 = new TextEncoder();

/** About what a waiter adds to the lock's item, in bytes. Its JSON is longer than DynamoDB's own form, so this errs on the safe side. */
export function weightOf({ aliveUntil: _, ...lasting }: Waiter): number {
  // How long it counts as present changes while it waits; its weight must not.
  return utf8.encode(JSON.stringify(lasting)).length;
}

export const queueWeight = (queue: readonly Waiter[]): number =>
  queue.reduce((sum, waiter) => sum + weightOf(waiter), 0);

/** A queue is bounded in number, and in bytes, since entries differ a lot. */
export const hasPlace = (queue: readonly Waiter[], waiter: Waiter): boolean =>
  queue.length < lockLimits.queueLengthMax && queueWeight(queue) + weightOf(waiter) <= lockLimits.queueBytesMax;
