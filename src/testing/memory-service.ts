import type { Service } from '../http/service.ts';
import { type LockState, unusedLock, type Waiter } from '../lock/state.ts';
import { eventsOfChange } from '../notify/change-events.ts';
import { systemLockContext } from '../service/system.ts';
import type { HistoryEntry } from '../store/history-store.ts';
import { type LockKey, lockIdOf, type Written } from '../store/lock-store.ts';
import { MemoryHistory } from '../store/memory/history-store.ts';
import { MemoryLockStore } from '../store/memory/lock-store.ts';
import { MemoryRecordStore } from '../store/memory/record-store.ts';
import { MemorySessionStore } from '../store/memory/session-store.ts';
import type { SessionKey } from '../store/session-store.ts';
import { epochMs } from '../time/clock.ts';
import type { VirtualTime } from './virtual-time.ts';

/** A memory store that reports each change, as the stream does for a table. */
class ReportingLockStore extends MemoryLockStore {
  readonly #latest = new Map<string, { readonly key: LockKey; readonly state: LockState }>();
  readonly #tell: (key: LockKey, before: LockState, after: LockState) => void;

  constructor(tell: (key: LockKey, before: LockState, after: LockState) => void) {
    super();
    this.#tell = tell;
  }

  override enqueue(key: LockKey, waiter: Waiter, limit: number): Promise<Written> {
    return this.#told(key, () => super.enqueue(key, waiter, limit));
  }

  override swap(key: LockKey, next: LockState): Promise<Written> {
    return this.#told(key, () => super.swap(key, next));
  }

  override async swapAll(swaps: Parameters<MemoryLockStore['swapAll']>[0]): Promise<boolean> {
    const [before, applied] = await Promise.all([this.readMany(swaps.map(({ key }) => key)), super.swapAll(swaps)]);
    if (!applied) return false;
    for (const [index, { key, next }] of swaps.entries()) this.#note(key, before[index] ?? unusedLock, next);
    return true;
  }

  /** The locks that a session holds. A table has an index for this. */
  heldUnder({ namespace, sessionId }: SessionKey): string[] {
    return [...this.#latest.values()]
      .filter(
        ({ key, state }) =>
          key.namespace === namespace && state.holders.some((holder) => holder.sessionId === sessionId),
      )
      .map(({ key }) => key.name);
  }

  /** Both calls begin before either is awaited, so nothing can change between the read and the write. */
  async #told(key: LockKey, write: () => Promise<Written>): Promise<Written> {
    const [before, written] = await Promise.all([this.read(key), write()]);
    if (written.applied) this.#note(key, before, written.state);
    return written;
  }

  #note(key: LockKey, before: LockState, after: LockState): void {
    this.#latest.set(lockIdOf(key), { key, state: after });
    this.#tell(key, before, after);
  }
}

export interface MemoryService {
  readonly service: Service;
  /** Ends the leases on a lock as if their time, grace and lock delay were over. */
  expire(key: LockKey): Promise<void>;
}

/** The whole service in memory and in virtual time. */
export function memoryService(
  time: VirtualTime,
  random: () => number,
  onNews: (entry: HistoryEntry) => void,
): MemoryService {
  const history = new MemoryHistory({ clock: time });
  const store = new ReportingLockStore((key, before, after) => {
    const { entries } = eventsOfChange({ key, before, after });
    void history.append(entries);
    for (const entry of entries) onNews(entry);
  });
  const sessionStore = new MemorySessionStore((key) => store.heldUnder(key));
  let ids = 0;
  const newId = (kind: string) => () => `${kind}-${String(ids++).padStart(16, '0')}`;
  const locks: Service['locks'] = {
    // The real settings. Only time and randomness are the twin's own.
    ...systemLockContext({ store, sessionStore, alone: true, clock: time, timers: time, random }),
    newLeaseId: newId('lease'),
    newSessionId: newId('session'),
  };
  const service: Service = {
    locks,
    records: { store: new MemoryRecordStore(), clock: time, newWriteId: newId('write') },
    history,
    probe: () => Promise.resolve(),
    engine: 'memory',
    version: 'twin',
  };
  const expire = async (key: LockKey) => {
    const state = await store.read(key);
    const holders = state.holders.map((holder) => ({
      ...holder,
      expiresAt: epochMs(time.now() - locks.graceMs - (holder.lockDelayMs ?? 0)),
    }));
    const written = await store.swap(key, { ...state, rev: state.rev + 1, changedAt: time.now(), holders });
    locks.memory.learn(key, written.state);
  };
  return { service, expire };
}
