import type { Service } from '../http/service.ts';
import { type LockKey, type LockState, lockIdOf } from '../lock/state.ts';
import { type ChangeEvents, eventsOfChange, eventsOfPage } from '../notify/change-events.ts';
import { systemLockContext } from '../service/context.ts';
import type { HistoryEntry } from '../store/history-store.ts';
import { MemoryHistory } from '../store/memory/history-store.ts';
import { MemoryLockStore } from '../store/memory/lock-store.ts';
import { MemoryRecordStore } from '../store/memory/record-store.ts';
import { MemorySessionStore } from '../store/memory/session-store.ts';
import { epochMs } from '../time/clock.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface MemoryService {
  readonly service: Service;
  /** Ends the leases on a lock as if their time, grace and lock delay were over. */
  expire(key: LockKey): Promise<void>;
}

/** The whole service in memory and in virtual time. */
export function memoryService(
  time: VirtualTime,
  random: () => number,
  onEntry: (entry: HistoryEntry) => void,
): MemoryService {
  const history = new MemoryHistory({ clock: time });
  const latest = new Map<string, { readonly key: LockKey; readonly state: LockState }>();
  const report = ({ entries, kept }: ChangeEvents) => {
    void history.append(kept);
    for (const entry of entries) onEntry(entry);
  };
  // It reports each change, as the stream does for a table.
  const store = new MemoryLockStore({
    lockWritten: (key, before, after) => {
      latest.set(lockIdOf(key), { key, state: after });
      report(eventsOfChange({ key, before, after }));
    },
    pageWritten: ({ lock }, before, after) => report(eventsOfPage({ key: lock, before, after, at: time.now() })),
  });
  // The locks that a session holds. A table has an index for this.
  const sessionStore = new MemorySessionStore(({ namespace, sessionId }) =>
    [...latest.values()]
      .filter(({ key, state }) => {
        return key.namespace === namespace && state.holders.some((holder) => holder.sessionId === sessionId);
      })
      .map(({ key }) => key.name),
  );
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
