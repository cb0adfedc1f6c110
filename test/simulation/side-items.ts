import { lockIdOf } from '../../src/lock/state.ts';
import type { HistoryStore } from '../../src/store/history.ts';
import { MemoryHistory } from '../../src/store/memory/history-store.ts';
import type { DeliveryStore, TimerNotes } from '../../src/store/notices.ts';
import type { SocketStore } from '../../src/store/sockets.ts';
import type { Watcher, WatcherStore } from '../../src/store/watchers.ts';
import { type EpochMs, epochMs } from '../../src/time/clock.ts';
import { MemoryDeliveries, MemorySockets, MemoryWatchers } from '../support/memory-stores.ts';

/** The other items of the table: notes of the notifier, and what it shows to others. */
export class SideItems {
  readonly deliveries: DeliveryStore;
  readonly history: HistoryStore;
  readonly watchers: WatcherStore;
  readonly sockets: SocketStore;
  readonly timerNotes: TimerNotes;

  constructor(now: () => number, noted: (name: string, fence: number) => void, connected: (watcher: Watcher) => void) {
    const watchers = new MemoryWatchers();
    this.watchers = {
      add: (watcher) => {
        connected(watcher);
        return watchers.add(watcher);
      },
      welcome: (watcher) => watchers.welcome(watcher),
      welcomed: (namespace) => watchers.welcomed(namespace),
      remove: (connectionId) => watchers.remove(connectionId),
    };
    this.sockets = new MemorySockets((connectionId) => watchers.find(connectionId));
    this.history = new MemoryHistory({ clock: { now: () => epochMs(now()) } });
    const deliveries = new MemoryDeliveries();
    this.deliveries = {
      begin: (key, fence) => deliveries.begin(key, fence),
      read: (key, fence) => deliveries.read(key, fence),
      markDelivered: (key, fence) => {
        noted(key.name, fence);
        return deliveries.markDelivered(key, fence);
      },
    };
    const notes = new Map<string, EpochMs>();
    this.timerNotes = {
      read: async (key) => notes.get(lockIdOf(key)),
      write: async (key, firesAt) => void notes.set(lockIdOf(key), firesAt),
    };
  }
}
