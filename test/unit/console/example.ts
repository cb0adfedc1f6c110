/** Events and views of a lock, as the service would tell them, for the tests of the console. */
import type { LockSummary, LockView } from '../../../src/client/index.ts';
import type { EventType, Happening } from '../../../src/console/model/events.ts';

/** An instant that reads well in a failure. */
export const start = Date.UTC(2026, 10, 16, 12, 0, 0);

export const event = (
  type: EventType,
  owner: string,
  atMs: number,
  more: Partial<Omit<Happening, 'type' | 'owner' | 'at'>> = {},
): Happening => ({ lock: 'wallet:42', type, owner, at: start + atMs, fence: 1, ...more });

export const view = (more: Partial<LockView> = {}): LockView => ({
  lock: 'wallet:42',
  state: 'held',
  fence: 1,
  limit: 1,
  holders: [],
  queue: [],
  queueDepth: 0,
  ...more,
});

export const holder = (owner: string, fence: number, sinceMs: number, remainingMs: number | null = 30_000) => ({
  owner,
  fence,
  permits: 1,
  acquiredAt: new Date(start + sinceMs).toISOString(),
  remainingMs,
});

export const waiter = (owner: string, position: number, waitingMs: number) => ({
  owner,
  position,
  waitingMs,
  permits: 1,
});

export const summary = (lock: string, more: Partial<LockSummary> = {}): LockSummary => ({
  lock,
  state: 'free',
  fence: 1,
  limit: 1,
  holders: [],
  queueDepth: 0,
  longestWaitMs: 0,
  ...more,
});
