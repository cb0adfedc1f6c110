import type { Facts, LockCommand, Renew } from '../lock/commands.ts';
import type { Absence, Attendance, LeftHow, MovedPages, Page, QueueSizes } from '../lock/pages.ts';
import type { LockKey, LockState, PageSpan, Waiter } from '../lock/state.ts';
import type { EpochMs } from '../time/clock.ts';

/** The outcome of a write. A refusal has the state that refused it, so that no read is needed. */
export type Written =
  | { readonly applied: true; readonly state: LockState }
  | {
      readonly applied: false;
      readonly state: LockState;
      /** The request was sent more than once, so the first try may have written the state that refused the last one. */
      readonly perhapsMine: boolean;
    };

/** The outcome of a write to a page. A refusal has the page that refused it. */
export type PageWritten =
  | { readonly applied: true; readonly page: Page }
  | { readonly applied: false; readonly page: Page; readonly perhapsMine: boolean };

/** One page of the queue of one lock. */
export interface PageKey {
  readonly lock: LockKey;
  readonly number: number;
}

export type Refused = Written & { readonly applied: false };

export interface LockPage {
  readonly locks: readonly { readonly name: string; readonly state: LockState }[];
  /** The last name that was read, if there may be more after it. */
  readonly after?: string;
}

/** One of several writes that are done together or not at all. */
export interface LockSwap {
  readonly key: LockKey;
  readonly next: LockState;
  /** Set if the next state is only a renewal, so that a store may write only the lease. */
  readonly renewal?: { readonly command: Renew; readonly facts: Facts; readonly inPart: boolean } | undefined;
}

/** A new waiter. */
export interface Arrival {
  readonly waiter: Waiter;
  readonly limit: number;
  readonly sizes: QueueSizes;
}

/**
 * Keeps one item per lock, and one per page of its queue. An adapter decides nothing. It does what `decide` would, in
 * fewer requests if it can, and otherwise writes the state that `decide` made. If the outcome is unknown, it throws
 * `StoreError`, and never answers "held" instead.
 */
export interface LockStore {
  /** Strongly consistent. A lock that was never used is `unusedLock`. */
  read(key: LockKey): Promise<LockState>;

  /** A read for half of the price. The state was stored at some time, but others may have written before this read. */
  look(key: LockKey): Promise<LockState>;

  /** Each read is strongly consistent, but they are no snapshot of one instant. In the order of the keys. */
  readMany(keys: readonly LockKey[]): Promise<LockState[]>;

  /**
   * Tries the common case of a command in one write, without a read. It is refused in every other case, and if the adapter
   * has no such write. The refusal has the current state, for `decide`.
   */
  attempt(key: LockKey, command: LockCommand, facts: Facts, known?: LockState): Promise<Written>;

  /** Appends to the front of a lock that is not free and has no pages. Arrivals commute, so they never conflict. */
  enqueue(key: LockKey, arrival: Arrival): Promise<Written>;

  /**
   * Sets until when the waiter at this place is present. Refused if it is at another place now, or waits in another
   * way.
   */
  attend(key: LockKey, index: number, waiter: Waiter, now: EpochMs): Promise<Written>;

  /**
   * Removes the waiter at this place from the queue. If `isRemembered`, the lock remembers that it left. Not for the first
   * waiter: after it leaves it may be another's turn, which `decide` must find out. Refused if the waiter is at another
   * place now. It commutes with arrivals and with other waiters that leave.
   */
  leave(key: LockKey, index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Promise<Written>;

  /** Replaces the state whose revision is `next.rev - 1`. */
  swap(key: LockKey, next: LockState): Promise<Written>;

  /**
   * Opens a new last page after the one that was seen. Only if there are pages, or the front has no place for this
   * waiter.
   */
  openPage(key: LockKey, arrival: Arrival, seen: PageSpan | undefined): Promise<Written>;

  /**
   * Moves closed pages up into the front. Refused if `from` is no longer the first page. It commutes with hand-offs and with
   * waiters that ask again or leave, so a busy lock does not hold it up.
   */
  moveUp(key: LockKey, pages: MovedPages, now: EpochMs): Promise<Written>;

  /** Each read is strongly consistent. A page that nobody joined yet is empty. In the order of the pages. */
  readPages(pages: readonly PageKey[]): Promise<Page[]>;

  /**
   * Appends to a page, and makes it if needed. Refused if the page is closed or full, or if the lease waits in it or
   * released its place in it.
   */
  appendToPage(
    page: PageKey,
    joining: { readonly waiter: Waiter; readonly fence: number },
    sizes: QueueSizes,
  ): Promise<PageWritten>;

  /**
   * Sets until when a waiter in the page is present, and how it waits. Refused if it isn't in the page, or the page is
   * closed.
   */
  attendInPage(page: PageKey, attendance: Attendance): Promise<PageWritten>;

  /**
   * Makes a waiter in the page absent. Refused in the same cases, and if its presence ends earlier or it is parked on
   * another connection.
   */
  stepAwayInPage(page: PageKey, absence: Absence): Promise<PageWritten>;

  /**
   * Removes a waiter from the page, which remembers that it left. Refused if it isn't in the page, or the page is
   * closed.
   */
  leavePage(page: PageKey, leaseId: string, how: LeftHow, now: EpochMs): Promise<PageWritten>;

  /** Closes the page, and makes it if needed. Repeating it changes nothing. */
  closePage(page: PageKey, now: EpochMs): Promise<Page>;

  /** Swaps many in one step, all or nothing. False if another process wrote to one of them in between. */
  swapAll(swaps: readonly LockSwap[]): Promise<boolean>;

  /** Locks by name, in order. A caller that follows the pages gets all of them. */
  list(
    namespace: string,
    page: { readonly prefix: string; readonly after?: string; readonly limit: number },
  ): Promise<LockPage>;
}
