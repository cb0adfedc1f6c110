import type { Facts, LockCommand, Renew } from '../lock/commands.ts';
import type { Absence, Attendance, LeftHow, Page, QueueSizes } from '../lock/pages.ts';
import type { LockState, PageSpan, Waiter } from '../lock/state.ts';
import type { EpochMs } from '../time/clock.ts';

export interface LockKey {
  readonly namespace: string;
  readonly name: string;
}

/** One text for a lock. A namespace has no slash, so no two locks have the same. */
export const lockIdOf = ({ namespace, name }: LockKey): string => `${namespace}/${name}`;

/** What became of a write. A refusal carries the state that refused it, so that nothing has to be read again. */
export type Written =
  | { readonly applied: true; readonly state: LockState }
  | {
      readonly applied: false;
      readonly state: LockState;
      /** The request was sent more than once, so the state that refused the last try may be what the first try wrote. */
      readonly perhapsMine: boolean;
    };

/** What became of a write to a page. A refusal carries the page that refused it. */
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
  /** The last name that was looked at, where there may be more behind it. */
  readonly after?: string;
}

/** One write among several that happen together or not at all. */
export interface LockSwap {
  readonly key: LockKey;
  readonly next: LockState;
  /** Given if the next state is a renewal and nothing else, so that a store may write that alone. */
  readonly renewal?: { readonly command: Renew; readonly facts: Facts; readonly inPart: boolean } | undefined;
}

/** A waiter that comes to wait. */
export interface Arrival {
  readonly waiter: Waiter;
  readonly limit: number;
  readonly sizes: QueueSizes;
}

/**
 * Keeps one item per lock, and one per page of its queue. An adapter decides nothing: it applies what `decide` would, in fewer requests where it can,
 * and otherwise writes what `decide` made. It throws `StoreError` when it can't tell, and never answers "held" instead.
 */
export interface LockStore {
  /** Strongly consistent. A lock that was never used is `unusedLock`. */
  read(key: LockKey): Promise<LockState>;

  /** Strongly consistent, each for itself: not a snapshot across locks. In the order asked. */
  readMany(keys: readonly LockKey[]): Promise<LockState[]>;

  /**
   * Tries the command's common case in one write, without reading first. Refused if the case is another, or where
   * the adapter has no such write for it; then the state in force comes back for `decide`.
   */
  attempt(key: LockKey, command: LockCommand, facts: Facts, known?: LockState): Promise<Written>;

  /** Appends to the front of a lock that still can't be had and has no pages. It commutes with every other arrival, so arrivals never conflict. */
  enqueue(key: LockKey, arrival: Arrival): Promise<Written>;

  /** Says until when the waiter at this place is present. Refused if it stands elsewhere by now, or waits in another way. */
  attend(key: LockKey, index: number, waiter: Waiter, now: EpochMs): Promise<Written>;

  /**
   * Takes the waiter at this place out of the queue, and remembers that it gave its place back, or, where it may come again, nothing. Not for the first in line:
   * its leaving may be somebody's turn, which is for `decide`. Refused if it stands elsewhere by now. It commutes with arrivals and
   * with others that leave.
   */
  leave(key: LockKey, index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Promise<Written>;

  /** Replaces the state whose revision is `next.rev - 1`. */
  swap(key: LockKey, next: LockState): Promise<Written>;

  /** Names a new last page after the one that was seen. Only if there are pages, or this waiter finds no place in the front. */
  openPage(key: LockKey, arrival: Arrival, seen: PageSpan | undefined): Promise<Written>;

  /** Strongly consistent, each for itself. A page that nobody joined yet is empty. In the order asked. */
  readPages(pages: readonly PageKey[]): Promise<Page[]>;

  /** Appends to a page, which it makes if it isn't there. Refused if the page is closed or full, or if the lease waits in it or gave its place in it back. */
  appendToPage(
    page: PageKey,
    joining: { readonly waiter: Waiter; readonly fence: number },
    sizes: QueueSizes,
  ): Promise<PageWritten>;

  /** Says until when a waiter in the page is present, and how it waits. Refused if it isn't in the page, or the page is closed. */
  attendInPage(page: PageKey, attendance: Attendance): Promise<PageWritten>;

  /** Says that a waiter in the page is absent. Refused likewise, and if it is absent earlier or parked on another connection. */
  stepAwayInPage(page: PageKey, absence: Absence): Promise<PageWritten>;

  /** Takes a waiter out of the page, and remembers that it left. Refused if it isn't in the page, or the page is closed. */
  leavePage(page: PageKey, leaseId: string, how: LeftHow, now: EpochMs): Promise<PageWritten>;

  /** Closes the page, which it makes if it isn't there. Repeating it changes nothing. */
  closePage(page: PageKey, now: EpochMs): Promise<Page>;

  /** Swaps many in one step, all or nothing. False if somebody wrote to one of them in between. */
  swapAll(swaps: readonly LockSwap[]): Promise<boolean>;

  /** Locks by name, in order, complete over pages. */
  list(
    namespace: string,
    page: { readonly prefix: string; readonly after?: string; readonly limit: number },
  ): Promise<LockPage>;
}
