import { lockLimits } from '../../lock/limits.ts';
import {
  type Absence,
  type Attendance,
  append,
  attendIn,
  close,
  emptyPage,
  type LeftHow,
  leaveIn,
  type MovedPages,
  type Page,
  type QueueSizes,
  stepAwayIn,
  withOneMore,
} from '../../lock/pages.ts';
import {
  type Ended,
  hasPages,
  hasPlace,
  isSameNotify,
  type LockKey,
  type LockState,
  lockIdOf,
  type PageSpan,
  permitsHeld,
  unusedLock,
  type Waiter,
} from '../../lock/state.ts';
import type { EpochMs } from '../../time/clock.ts';
import type { Arrival, LockPage, LockStore, LockSwap, PageKey, PageWritten, Written } from '../lock-store.ts';

/** Called in the same step in which something is written, like a table's stream. */
export interface MemoryWatcher {
  lockWritten?(key: LockKey, before: LockState, after: LockState): void;
  pageWritten?(key: PageKey, before: Page, after: Page): void;
}

/**
 * Locks in memory, for simulation and for users' own tests. It has no shortcuts: every command is refused at first, so `decide` and the
 * compare-and-swap run each time.
 */
export class MemoryLockStore implements LockStore {
  readonly #watcher: MemoryWatcher;
  readonly #locks = new Map<string, LockState>();
  readonly #pages = new Map<string, Page>();

  constructor(watcher: MemoryWatcher = {}) {
    this.#watcher = watcher;
  }

  read(key: LockKey): Promise<LockState> {
    return Promise.resolve(this.#stateOf(key));
  }

  look(key: LockKey): Promise<LockState> {
    return this.read(key);
  }

  readMany(keys: readonly LockKey[]): Promise<LockState[]> {
    return Promise.resolve(keys.map((key) => this.#stateOf(key)));
  }

  attempt(key: LockKey): Promise<Written> {
    return Promise.resolve(this.#refuse(key));
  }

  async enqueue(key: LockKey, { waiter, limit, sizes }: Arrival): Promise<Written> {
    const state = this.#stateOf(key);
    const known = [...state.queue, ...state.holders, ...state.ended].some(({ leaseId }) => leaseId === waiter.leaseId);
    const taken = state.queue.length > 0 || permitsHeld(state) + waiter.permits > limit;
    const hasRoom = !hasPages(state) && hasPlace(state.queue, waiter, sizes.front);
    if (known || !taken || state.limit !== limit || !hasRoom) return this.#refuse(key);
    return this.#change(key, waiter.queuedAt, { queue: [...state.queue, waiter] });
  }

  async openPage(key: LockKey, { waiter, limit, sizes }: Arrival, seen: PageSpan | undefined): Promise<Written> {
    const state = this.#stateOf(key);
    const isFull = hasPages(state) || !hasPlace(state.queue, waiter, sizes.front);
    if (state.limit !== limit || state.pages?.last !== seen?.last || !isFull) return this.#refuse(key);
    return this.#change(key, waiter.queuedAt, { pages: withOneMore(state.pages, waiter.queuedAt) });
  }

  async moveUp(key: LockKey, { from, to, waiters }: MovedPages, now: EpochMs): Promise<Written> {
    const { queue, pages } = this.#stateOf(key);
    if (pages?.first !== from) return this.#refuse(key);
    return this.#change(key, now, { queue: [...queue, ...waiters], pages: { ...pages, first: to } });
  }

  readPages(keys: readonly PageKey[]): Promise<Page[]> {
    return Promise.resolve(keys.map((key) => this.#pageOf(key)));
  }

  appendToPage(
    key: PageKey,
    joining: { readonly waiter: Waiter; readonly fence: number },
    sizes: QueueSizes,
  ): Promise<PageWritten> {
    return this.#writePage(key, (page) => append(page, joining, sizes));
  }

  attendInPage(key: PageKey, attendance: Attendance): Promise<PageWritten> {
    return this.#writePage(key, (page) => attendIn(page, attendance));
  }

  stepAwayInPage(key: PageKey, absence: Absence): Promise<PageWritten> {
    return this.#writePage(key, (page) => stepAwayIn(page, absence));
  }

  leavePage(key: PageKey, leaseId: string, how: LeftHow): Promise<PageWritten> {
    return this.#writePage(key, (page) => leaveIn(page, leaseId, how));
  }

  async closePage(key: PageKey, now: EpochMs): Promise<Page> {
    return (await this.#writePage(key, (page) => close(page, now))).page;
  }

  async attend(key: LockKey, index: number, waiter: Waiter, now: EpochMs): Promise<Written> {
    const { queue } = this.#stateOf(key);
    const place = queue[index];
    if (!isSameWait(place, waiter) || !isSameNotify(place.notify, waiter.notify)) return this.#refuse(key);
    return this.#change(key, now, { queue: queue.with(index, { ...place, presentUntil: waiter.presentUntil }) });
  }

  async leave(key: LockKey, index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Promise<Written> {
    const { queue, ended } = this.#stateOf(key);
    if (!isSameWait(queue[index], waiter)) return this.#refuse(key);
    const endings: Ended[] = isRemembered ? [{ leaseId: waiter.leaseId, how: 'released' }, ...ended] : [...ended];
    const remembered = endings.slice(0, lockLimits.endedRemembered);
    return this.#change(key, now, { queue: queue.toSpliced(index, 1), ended: remembered });
  }

  swap(key: LockKey, next: LockState): Promise<Written> {
    const unchanged = this.#stateOf(key).rev === next.rev - 1;
    return Promise.resolve(unchanged ? this.#apply(key, next) : this.#refuse(key));
  }

  swapAll(swaps: readonly LockSwap[]): Promise<boolean> {
    const unchanged = swaps.every(({ key, next }) => this.#stateOf(key).rev === next.rev - 1);
    if (unchanged) for (const { key, next } of swaps) this.#apply(key, next);
    return Promise.resolve(unchanged);
  }

  list(
    namespace: string,
    { prefix, after, limit }: { prefix: string; after?: string; limit: number },
  ): Promise<LockPage> {
    const start = `${namespace}/`;
    const names = [...this.#locks.keys()]
      .filter((id) => id.startsWith(`${start}${prefix}`))
      .map((id) => id.slice(start.length))
      .filter((name) => after === undefined || name > after)
      .sort();
    const page = names.slice(0, limit);
    const last = page.at(-1);
    return Promise.resolve({
      locks: page.map((name) => ({ name, state: this.#stateOf({ namespace, name }) })),
      ...(names.length > limit && last !== undefined ? { after: last } : {}),
    });
  }

  #pageOf(key: PageKey): Page {
    return this.#pages.get(pageId(key)) ?? emptyPage(key.number);
  }

  #writePage(key: PageKey, write: (page: Page) => Page | undefined): Promise<PageWritten> {
    const before = this.#pageOf(key);
    const page = write(before);
    if (page === undefined) return Promise.resolve({ applied: false, page: before, perhapsMine: false });
    this.#pages.set(pageId(key), page);
    if (page !== before) this.#watcher.pageWritten?.(key, before, page);
    return Promise.resolve({ applied: true, page });
  }

  #stateOf(key: LockKey): LockState {
    return this.#locks.get(lockIdOf(key)) ?? unusedLock;
  }

  #change(key: LockKey, now: EpochMs, changed: Partial<LockState>): Written {
    const state = this.#stateOf(key);
    return this.#apply(key, { ...state, ...changed, rev: state.rev + 1, changedAt: now });
  }

  #apply(key: LockKey, state: LockState): Written {
    const before = this.#stateOf(key);
    this.#locks.set(lockIdOf(key), state);
    this.#watcher.lockWritten?.(key, before, state);
    return { applied: true, state };
  }

  #refuse(key: LockKey): Written {
    return { applied: false, state: this.#stateOf(key), perhapsMine: false };
  }
}

/** A lease that left and joined again has another deadline. */
const isSameWait = (place: Waiter | undefined, { leaseId, deadlineAt }: Waiter): place is Waiter =>
  place?.leaseId === leaseId && place.deadlineAt === deadlineAt;

const pageId = ({ lock, number }: PageKey): string => `${lockIdOf(lock)}#${number}`;
