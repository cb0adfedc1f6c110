import { type Clock, systemClock } from '../../time/clock.ts';
import { type HistoryEntry, type HistoryPage, type HistoryStore, historyKeptMs } from '../history-store.ts';
import { type LockKey, lockIdOf } from '../lock-store.ts';

/** History in memory, for simulation and for users' own tests. */
export class MemoryHistory implements HistoryStore {
  readonly #entries = new Map<string, Map<string, HistoryEntry>>();
  readonly #clock: Clock;

  constructor({ clock }: { clock?: Clock } = {}) {
    this.#clock = clock ?? systemClock;
  }

  append(entries: readonly HistoryEntry[]): Promise<readonly HistoryEntry[]> {
    for (const entry of entries) {
      const places = this.#entries.get(lockIdOf(entry.key)) ?? new Map<string, HistoryEntry>();
      places.set(entry.place, entry);
      this.#entries.set(lockIdOf(entry.key), places);
    }
    return Promise.resolve([]);
  }

  page(key: LockKey, { limit, before }: { limit: number; before?: string | undefined }): Promise<HistoryPage> {
    const keptSince = this.#clock.now() - historyKeptMs;
    const kept = [...(this.#entries.get(lockIdOf(key))?.values() ?? [])]
      .filter(({ place, event }) => (before === undefined || place < before) && event.at > keptSince)
      .sort((one, other) => (one.place < other.place ? 1 : -1))
      .slice(0, limit);
    const last = kept.at(-1);
    return Promise.resolve({
      events: kept.map(({ event }) => event),
      ...(kept.length === limit && last !== undefined ? { before: last.place } : {}),
    });
  }
}
