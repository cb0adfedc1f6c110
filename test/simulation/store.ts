/**
 * One table that all hosts share, and each host's path to it. The table does one thing at a time and reports every write. The path
 * takes time, and loses, repeats, delays, throttles and refuses.
 */
import type { Facts, LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { emptyPage, moveUp, type Page, pageNumbers, type QueueSizes } from '../../src/lock/pages.ts';
import { hasPages, type LockKey, type LockState, permitsHeld, unusedLock } from '../../src/lock/state.ts';
import type { RecordCommand } from '../../src/record/commands.ts';
import type { RecordState } from '../../src/record/state.ts';
import type { SessionState, SessionWait } from '../../src/session/state.ts';
import type { LockStore, PageKey } from '../../src/store/lock-store.ts';
import { MemoryLockStore } from '../../src/store/memory/lock-store.ts';
import { MemoryRecordStore } from '../../src/store/memory/record-store.ts';
import { MemorySessionStore } from '../../src/store/memory/session-store.ts';
import type { AwaitedLocks } from '../../src/store/notifier-store.ts';
import type { RecordKey, RecordStore, RecordWritten } from '../../src/store/record-store.ts';
import type { SessionKey, SessionStore, SessionWritten } from '../../src/store/session-store.ts';
import type { Watcher } from '../../src/store/watcher-store.ts';
import { type EpochMs, epochMs } from '../../src/time/clock.ts';
import type { Cause } from './cause.ts';
import { SideItems } from './side-items.ts';

export interface LockWrite {
  readonly name: string;
  /** With the whole queue, including pages: the promises about a lock do not depend on pages. */
  readonly before: LockState;
  readonly after: LockState;
  /** The item that was written: the lock's own, or a page. */
  readonly stored:
    | { readonly kind: 'lock'; readonly before: LockState; readonly after: LockState }
    | { readonly kind: 'page'; readonly before: Page; readonly after: Page };
  /** True if a late copy of a request joined a page although its lease already has a place. The lease moves up once, and counts once above. */
  readonly isDoubled: boolean;
  readonly cause: Cause;
  /** The names written in the same step. A transaction has more than one. */
  readonly together: readonly string[];
}

export interface TableWatcher {
  lockWritten(write: LockWrite): void;
  lockCollected(name: string): void;
  sessionWritten(before: SessionState | undefined, after: SessionState): void;
  recordWritten(key: string, before: RecordState, after: RecordState): void;
  deliveryMarked(name: string, fence: number): void;
  connectionAdded(watcher: Watcher): void;
}

export interface TableOptions {
  readonly directWrites: boolean;
  readonly sizes: QueueSizes;
  readonly now: () => number;
}

/** An index follows its table a moment later. */
const indexLagMs = 500;
/** Enough for every state that a read without consistency may still show. */
const earlierStatesMax = 50;

/** The table itself: the memory stores, with a check at every write. */
export class Table {
  readonly locks: LockStore;
  readonly sessions: SessionStore;
  readonly records: RecordStore;
  readonly side: SideItems;
  readonly awaited: AwaitedLocks;
  readonly states = new Map<string, LockState>();
  readonly sessionStates = new Map<string, SessionState>();
  /** A lock whose item was deleted gets a new item. Each of these items has its own name here. */
  readonly #incarnations = new Map<string, number>();
  readonly #collectedSessions = new Set<string>();
  /** Locks with waiters at the last look, and since when. */
  readonly #awaited = new Map<string, number>();
  readonly #stored = new Map<string, LockState>();
  readonly #pages = new Map<string, Map<number, Page>>();
  /** The latest states of each lock, and since when. */
  readonly #versions = new Map<string, { readonly from: number; readonly state: LockState }[]>();
  readonly #watcher: TableWatcher;
  readonly #options: TableOptions;
  readonly #now: () => number;
  #cause: Cause | undefined;
  #together: readonly string[] | undefined;
  /** By the clock of the process that decided, if the written state does not have that time. */
  #decidedAt: number | undefined;

  constructor(watcher: TableWatcher, options: TableOptions) {
    const { directWrites, now } = options;
    this.#options = options;
    this.#watcher = watcher;
    this.#now = now;
    this.side = new SideItems(
      now,
      (name, fence) => watcher.deliveryMarked(name, fence),
      (connection) => watcher.connectionAdded(connection),
    );
    const locks = new MemoryLockStore({
      lockWritten: ({ name }, _before, after) => this.#lockWritten(name, after),
      pageWritten: ({ lock: { name } }, before, after) => this.#pageWritten(name, before, after),
    });
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

  /** Does one thing, with its cause. Nothing comes in between, because everything that it awaits is ready. */
  perform<T>(cause: Cause, work: () => Promise<T>): Promise<T> {
    this.#cause = cause;
    return work();
  }

  /** Deletes an item, as TTL does long after its end. */
  collectLock(name: string): void {
    this.#incarnations.set(name, (this.#incarnations.get(name) ?? 0) + 1);
    this.states.delete(name);
    this.#stored.delete(name);
    this.#versions.delete(name);
    this.#pages.delete(name);
    this.#watcher.lockCollected(name);
  }

  collectSession(sessionId: string): void {
    this.#collectedSessions.add(sessionId);
  }

  /** The lock as it was this long ago, as a read without consistency shows it. */
  earlier({ name }: LockKey, lagMs: number): LockState {
    const versions = this.#versions.get(name) ?? [];
    return versions.findLast(({ from }) => from <= this.#now() - lagMs)?.state ?? unusedLock;
  }

  #inside = ({ namespace, name }: LockKey): LockKey => ({
    namespace: `${namespace}~${this.#incarnations.get(name) ?? 0}`,
    name,
  });

  #lockWritten(name: string, after: LockState): void {
    const before = this.#wholeOf(name);
    const isDoubled = this.#isDoubled(name);
    const stored = { kind: 'lock', before: this.#stored.get(name) ?? unusedLock, after } as const;
    this.#stored.set(name, after);
    const versions = [...(this.#versions.get(name) ?? []), { from: this.#now(), state: after }];
    this.#versions.set(name, versions.slice(-earlierStatesMax));
    this.#wrote(name, before, { ...this.#wholeOf(name), changedAt: after.changedAt }, stored, isDoubled);
  }

  #pageWritten(name: string, before: Page, after: Page): void {
    const whole = this.#wholeOf(name);
    const isDoubled = this.#isDoubled(name);
    const pages = this.#pages.get(name) ?? new Map<number, Page>();
    this.#pages.set(name, pages.set(after.number, after));
    const changedAt = epochMs(after.closedAt ?? this.#decidedAt ?? this.#now());
    this.#decidedAt = undefined;
    this.#wrote(name, whole, { ...this.#wholeOf(name), changedAt }, { kind: 'page', before, after }, isDoubled);
  }

  /** The lock as it would be if all its pages moved up now. */
  #wholeOf(name: string): LockState {
    const state = this.#stored.get(name) ?? unusedLock;
    const pages = this.#pages.get(name);
    return pageNumbers(state).reduce((whole, number) => {
      const page = pages?.get(number) ?? emptyPage(number);
      return moveUp(whole, page.closedAt === null ? { ...page, closedAt: epochMs(0) } : page);
    }, state);
  }

  #isDoubled(name: string): boolean {
    const state = this.#stored.get(name) ?? unusedLock;
    const pages = pageNumbers(state).flatMap((number) => this.#pages.get(name)?.get(number)?.waiters ?? []);
    const leases = pages.map(({ leaseId }) => leaseId);
    const known = [...state.holders, ...state.queue, ...state.ended].map(({ leaseId }) => leaseId);
    return new Set(leases).size < leases.length || leases.some((leaseId) => known.includes(leaseId));
  }

  #wrote(name: string, before: LockState, after: LockState, stored: LockWrite['stored'], wasDoubled: boolean): void {
    this.states.set(name, after);
    if (after.queue.length > 0 && !this.#awaited.has(name)) this.#awaited.set(name, this.#now());
    const together = this.#together ?? [name];
    const isDoubled = wasDoubled || this.#isDoubled(name);
    this.#watcher.lockWritten({ name, before, after, stored, isDoubled, cause: this.#cause as Cause, together });
  }

  #watchedLocks(inner: MemoryLockStore, directWrites: boolean): LockStore {
    const { sizes } = this.#options;
    const page = ({ lock, number }: PageKey): PageKey => ({ lock: this.#inside(lock), number });
    return {
      read: (key) => inner.read(this.#inside(key)),
      look: (key) => inner.look(this.#inside(key)),
      readMany: (keys) => inner.readMany(keys.map(this.#inside)),
      attempt: async (key, command, facts) => {
        const state = await inner.read(this.#inside(key));
        const next = directWrites ? commonCase(state, command, facts) : undefined;
        if (next === undefined) return { applied: false, state, perhapsMine: false };
        return inner.swap(this.#inside(key), next);
      },
      enqueue: (key, arrival) => inner.enqueue(this.#inside(key), arrival),
      openPage: (key, arrival, seen) => inner.openPage(this.#inside(key), arrival, seen),
      moveUp: (key, pages, now) => inner.moveUp(this.#inside(key), pages, now),
      attend: (key, index, waiter, now) => inner.attend(this.#inside(key), index, waiter, now),
      leave: (key, index, waiter, isRemembered, now) =>
        inner.leave(this.#inside(key), index, waiter, isRemembered, now),
      readPages: (keys) => inner.readPages(keys.map(page)),
      appendToPage: (key, joining) => inner.appendToPage(page(key), joining, sizes),
      attendInPage: (key, attendance) => inner.attendInPage(page(key), attendance),
      stepAwayInPage: (key, absence) => inner.stepAwayInPage(page(key), absence),
      leavePage: (key, leaseId, how, now) => {
        this.#decidedAt = now;
        return inner.leavePage(page(key), leaseId, how);
      },
      closePage: (key, now) => inner.closePage(page(key), now),
      swap: (key, next) => inner.swap(this.#inside(key), next),
      swapAll: (swaps) => {
        this.#together = swaps.map(({ key }) => key.name);
        const swapped = inner.swapAll(swaps.map(({ key, next }) => ({ key: this.#inside(key), next })));
        this.#together = undefined;
        return swapped;
      },
      list: async (_namespace, { prefix, after, limit }) => {
        const names = [...this.states.keys()]
          .filter((name) => name.startsWith(prefix) && (after === undefined || name > after))
          .sort();
        const page = names.slice(0, limit);
        const last = page.at(-1);
        return {
          locks: page.map((name) => ({ name, state: this.#stored.get(name) ?? unusedLock })),
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
        if (before.queue.length > 0 || hasPages(before) || !this.#awaited.delete(key.name)) return;
        // It is a write like any other: a process that decided on the state before it must decide again.
        await inner.swap(this.#inside(key), { ...before, rev: before.rev + 1 });
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
 * What the DynamoDB adapter does in one write without reading: the cases of `lock-writes.ts`, which a contract test compares with
 * `decide`. It knows no sessions, and it decides by the time of sending and not of arrival.
 */
function commonCase(state: LockState, command: LockCommand, { now, graceMs }: Facts): LockState | undefined {
  const { next, answer } = decide(state, command, { now, graceMs });
  if (next === state) return undefined;
  switch (command.kind) {
    case 'acquire': {
      const isFresh =
        state.queue.length === 0 && !hasPages(state) && state.holders.every((holder) => next.holders.includes(holder));
      const fits = state.holders.length === 0 || state.limit === command.limit;
      return answer.kind === 'granted' && isFresh && fits ? next : undefined;
    }
    case 'renew':
      return answer.kind === 'granted' && state.changedAt <= now ? next : undefined;
    case 'release': {
      const own = state.holders.find(({ leaseId }) => leaseId === command.leaseId);
      if (own === undefined || (own.expiresAt !== null && own.expiresAt <= now)) return undefined;
      const [head] = state.queue;
      if (head === undefined) return hasPages(state) ? undefined : next;
      const whole = own.permits === state.limit && permitsHeld(state) === state.limit && head.permits === state.limit;
      return whole && head.presentUntil > now && head.sessionId === undefined ? next : undefined;
    }
    default:
      return undefined;
  }
}
