/**
 * One table that all hosts share, and each host's way to it. The table does one thing at a time and tells of every write; the way
 * to it takes time, and loses, repeats, delays, throttles and refuses.
 */
import type { Facts, LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { type LockState, permitsHeld, unusedLock, type Waiter } from '../../src/lock/state.ts';
import type { RecordCommand } from '../../src/record/commands.ts';
import type { RecordState } from '../../src/record/state.ts';
import type { SessionState, SessionWait } from '../../src/session/state.ts';
import type { AwaitedLocks } from '../../src/store/awaited-locks.ts';
import type { LockKey, LockStore, Written } from '../../src/store/lock-store.ts';
import { MemoryLockStore } from '../../src/store/memory/lock-store.ts';
import { MemoryRecordStore } from '../../src/store/memory/record-store.ts';
import { MemorySessionStore } from '../../src/store/memory/session-store.ts';
import type { RecordKey, RecordStore, RecordWritten } from '../../src/store/record-store.ts';
import type { SessionKey, SessionStore, SessionWritten } from '../../src/store/session-store.ts';
import type { EpochMs } from '../../src/time/clock.ts';
import type { Cause } from './cause.ts';
import { SideItems } from './side-items.ts';

export interface LockWrite {
  readonly name: string;
  readonly before: LockState;
  readonly after: LockState;
  readonly cause: Cause;
  /** The names written in the same step: more than one for a transaction. */
  readonly together: readonly string[];
}

export interface TableWatcher {
  lockWritten(write: LockWrite): void;
  lockCollected(name: string): void;
  sessionWritten(before: SessionState | undefined, after: SessionState): void;
  recordWritten(key: string, before: RecordState, after: RecordState): void;
  deliveryMarked(name: string, fence: number): void;
}

/** An index follows its table a moment later. */
const indexLagMs = 500;

/** The table itself: the memory stores, watched. */
export class Table {
  readonly locks: LockStore;
  readonly sessions: SessionStore;
  readonly records: RecordStore;
  readonly side: SideItems;
  readonly awaited: AwaitedLocks;
  readonly states = new Map<string, LockState>();
  readonly sessionStates = new Map<string, SessionState>();
  /** Collected items come back as new ones: each incarnation of a lock is kept under a name of its own. */
  readonly #incarnations = new Map<string, number>();
  readonly #collectedSessions = new Set<string>();
  /** Locks that somebody waits for, or did when they were last looked at, and since when. */
  readonly #awaited = new Map<string, number>();
  readonly #watcher: TableWatcher;
  readonly #now: () => number;
  #cause: Cause | undefined;

  constructor(watcher: TableWatcher, { directWrites, now }: { directWrites: boolean; now: () => number }) {
    this.#watcher = watcher;
    this.#now = now;
    this.side = new SideItems(now, (name, fence) => watcher.deliveryMarked(name, fence));
    const locks = new MemoryLockStore();
    this.locks = this.#watchedLocks(locks, directWrites);
    this.awaited = this.#awaitedLocks(locks);
    this.sessions = this.#watchedSessions(
      new MemorySessionStore(({ sessionId }) =>
        [...this.states]
          .filter(([, { holders }]) => holders.some((holder) => holder.sessionId === sessionId))
          .map(([name]) => name),
      ),
    );
    this.records = this.#watchedRecords(new MemoryRecordStore());
  }

  /** Does one thing, on account of a cause. Nothing comes in between: everything that it awaits is ready. */
  perform<T>(cause: Cause, work: () => Promise<T>): Promise<T> {
    this.#cause = cause;
    return work();
  }

  /** What TTL does to an item long after its end. */
  collectLock(name: string): void {
    this.#incarnations.set(name, (this.#incarnations.get(name) ?? 0) + 1);
    this.states.delete(name);
    this.#watcher.lockCollected(name);
  }

  collectSession(sessionId: string): void {
    this.#collectedSessions.add(sessionId);
  }

  #inside = ({ namespace, name }: LockKey): LockKey => ({
    namespace: `${namespace}~${this.#incarnations.get(name) ?? 0}`,
    name,
  });

  #wrote(name: string, before: LockState, after: LockState, together: readonly string[] = [name]): void {
    this.states.set(name, after);
    if (after.queue.length > 0 && !this.#awaited.has(name)) this.#awaited.set(name, this.#now());
    this.#watcher.lockWritten({ name, before, after, cause: this.#cause as Cause, together });
  }

  #watchedLocks(inner: MemoryLockStore, directWrites: boolean): LockStore {
    const write = async (key: LockKey, work: (inside: LockKey) => Promise<Written>): Promise<Written> => {
      const before = await inner.read(this.#inside(key));
      const written = await work(this.#inside(key));
      if (written.applied) this.#wrote(key.name, before, written.state);
      return written;
    };
    return {
      read: (key) => inner.read(this.#inside(key)),
      readMany: (keys) => inner.readMany(keys.map(this.#inside)),
      attempt: async (key, command, facts) => {
        const state = await inner.read(this.#inside(key));
        const next = directWrites ? commonCase(state, command, facts) : undefined;
        if (next === undefined) return { applied: false, state, perhapsMine: false };
        return write(key, (inside) => inner.swap(inside, next));
      },
      enqueue: (key, waiter: Waiter, limit) => write(key, (inside) => inner.enqueue(inside, waiter, limit)),
      attend: (key, index, waiter, now) => write(key, (inside) => inner.attend(inside, index, waiter, now)),
      leave: (key, index, waiter, isRemembered, now) =>
        write(key, (inside) => inner.leave(inside, index, waiter, isRemembered, now)),
      swap: (key, next) => write(key, (inside) => inner.swap(inside, next)),
      swapAll: async (swaps) => {
        const before = await inner.readMany(swaps.map(({ key }) => this.#inside(key)));
        const applied = await inner.swapAll(swaps.map(({ key, next }) => ({ key: this.#inside(key), next })));
        const together = swaps.map(({ key }) => key.name);
        if (applied)
          for (const [index, { key, next }] of swaps.entries())
            this.#wrote(key.name, before[index] ?? unusedLock, next, together);
        return applied;
      },
      list: async (_namespace, { prefix, after, limit }) => {
        const names = [...this.states.keys()]
          .filter((name) => name.startsWith(prefix) && (after === undefined || name > after))
          .sort();
        const page = names.slice(0, limit);
        const last = page.at(-1);
        return {
          locks: page.map((name) => ({ name, state: this.states.get(name) ?? unusedLock })),
          ...(names.length > limit && last !== undefined ? { after: last } : {}),
        };
      },
    };
  }

  #awaitedLocks(inner: MemoryLockStore): AwaitedLocks {
    const listed = () => [...this.#awaited].filter(([, since]) => since + indexLagMs <= this.#now());
    return {
      async *list() {
        for (const [name] of listed()) yield { namespace: 'sim', name };
      },
      forget: async (key) => {
        const before = await inner.read(this.#inside(key));
        if (before.queue.length > 0 || !this.#awaited.delete(key.name)) return;
        // A write like every other: who decided on the state before it has to decide again.
        const written = await inner.swap(this.#inside(key), { ...before, rev: before.rev + 1 });
        if (written.applied) this.#wrote(key.name, before, written.state);
      },
    };
  }

  #watchedSessions(inner: MemorySessionStore): SessionStore {
    const read = async (namespace: string, ids: readonly string[]) =>
      (await inner.read(namespace, ids)).map((session) =>
        session === undefined || this.#collectedSessions.has(session.sessionId) ? undefined : session,
      );
    const write = async (key: SessionKey, work: () => Promise<SessionWritten>): Promise<SessionWritten> => {
      const [before] = await read(key.namespace, [key.sessionId]);
      const written = await work();
      if (written.applied) {
        this.sessionStates.set(key.sessionId, written.session);
        this.#watcher.sessionWritten(before, written.session);
      }
      return written;
    };
    return {
      create: (namespace, session) =>
        write({ namespace, sessionId: session.sessionId }, () => inner.create(namespace, session)),
      read,
      keepAlive: (key, now) => write(key, () => inner.keepAlive(key, now)),
      end: (key, now) => write(key, () => inner.end(key, now)),
      expire: (key, now, expiredBy) => write(key, () => inner.expire(key, now, expiredBy)),
      noteWait: (key, wait: SessionWait) => write(key, () => inner.noteWait(key, wait)),
      forgetWait: (key, wait) => inner.forgetWait(key, wait),
      notePart: (key, lock) => inner.notePart(key, lock),
      locksOf: (key) => inner.locksOf(key),
    };
  }

  #watchedRecords(inner: MemoryRecordStore): RecordStore {
    return {
      read: (key) => inner.read(key),
      attempt: async (key: RecordKey, command: RecordCommand, now: EpochMs): Promise<RecordWritten> => {
        const before = await inner.read(key);
        const written = await inner.attempt(key, command, now);
        if (written.applied) this.#watcher.recordWritten(key.key, before, written.state);
        return written;
      },
    };
  }
}

/**
 * What the DynamoDB adapter does in one write without reading: the cases of `lock-writes.ts`, which a contract test holds equal to
 * `decide`. It knows nothing of sessions, and it decides by the time at which it was sent, not at which it arrives.
 */
function commonCase(state: LockState, command: LockCommand, { now, graceMs }: Facts): LockState | undefined {
  const { next, answer } = decide(state, command, { now, graceMs });
  if (next === state) return undefined;
  switch (command.kind) {
    case 'acquire': {
      const isFresh = state.queue.length === 0 && state.holders.every((holder) => next.holders.includes(holder));
      const fits = state.holders.length === 0 || state.limit === command.limit;
      return answer.kind === 'granted' && isFresh && fits ? next : undefined;
    }
    case 'renew':
      return answer.kind === 'granted' && state.changedAt <= now ? next : undefined;
    case 'release': {
      const own = state.holders.find(({ leaseId }) => leaseId === command.leaseId);
      if (own === undefined) return undefined;
      const [head] = state.queue;
      if (head === undefined) return next;
      const whole = own.permits === state.limit && permitsHeld(state) === state.limit && head.permits === state.limit;
      return whole && head.aliveUntil > now && head.sessionId === undefined ? next : undefined;
    }
    default:
      return undefined;
  }
}
