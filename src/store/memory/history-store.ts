import { type LockKey, lockIdOf } from '../../lock/state.ts';
import { type Clock, systemClock } from '../../time/clock.ts';
import { listed, readPlaces } from '../history-rules.ts';
import {
  type HistoryEntry,
  type HistoryPage,
  type HistoryPageAsked,
  type HistoryStore,
  historyKeptMs,
} from '../history-store.ts';

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

  page(key: LockKey, { limit, before: cursor, standing }: HistoryPageAsked): Promise<HistoryPage> {
    const { before, open } = readPlaces(cursor);
    const entries = this.#entries.get(lockIdOf(key)) ?? new Map<string, HistoryEntry>();
    const found = [...entries.values()]
      .filter(({ place }) => before === undefined || place < before)
      .sort((one, other) => (one.place < other.place ? 1 : -1))
      .slice(0, limit);
    const holds = open.map((place) => entries.get(place)).filter((entry) => entry !== undefined);
    const keptSince = this.#clock.now() - historyKeptMs;
    return Promise.resolve(listed({ limit, before, found, open: holds, standing, keptSince }));
  }
}
