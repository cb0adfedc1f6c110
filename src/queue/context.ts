import type { LockKey, LockState } from '../lock/state.ts';
import { StoreError } from '../table/store-error.ts';
import type { Clock } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { Serializer } from '../tools/serializer.ts';
import type { LockCache } from './lock-cache.ts';
import type { LockStore } from './lock-store.ts';
import type { PageHints } from './page-hints.ts';
import type { PageStore } from './page-store.ts';
import type { QueueSizes } from './pages.ts';

/** What the queue works with. */
export interface QueueContext {
  readonly store: LockStore;
  readonly pages: PageStore;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: () => number;
  readonly sizes: QueueSizes;
  readonly cache: LockCache;
  readonly hints: PageHints;
  /** Serializes the work of this process on one lock, where requests at the same time would refuse each other. */
  readonly turns: Serializer;
  /** Whether only this process serves. Then it learns of every write. */
  readonly alone: boolean;
}

/**
 * How the next step of a command goes on: it is decided again at once, on this state, or after a pause and a new read. `isProgress`:
 * something was written for the command, or others only were before it in line, so this is not a lost race.
 */
export type NotYet =
  | {
      readonly kind: 'again';
      readonly state: LockState;
      readonly perhapsMine?: boolean;
      readonly isProgress?: boolean;
    }
  | { readonly kind: 'pause'; readonly ms: number };

export const again = (state: LockState, perhapsMine = false): NotYet => ({ kind: 'again', state, perhapsMine });

/**
 * Reads the lock and remembers it. The store's client repeats a throttled read itself. All requests of a process share those
 * repeats, so a crowd on one lock must leave some for other locks.
 */
export async function readAndLearn({ store, cache }: QueueContext, key: LockKey): Promise<LockState> {
  const state = await store.read(key);
  cache.learn(key, state);
  return state;
}

/** Undefined if the store throttled the request. Then nothing was written. */
export const unlessThrottled = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((error: unknown) => {
    if (error instanceof StoreError && error.code === 'throttled') return undefined;
    throw error;
  });
