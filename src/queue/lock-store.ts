import type { Facts, LockCommand, Release, Renew } from '../lock/commands.ts';
import type { LockKey, LockState, PageSpan, Waiter } from '../lock/state.ts';
import { condition, text, type Update } from '../table/attributes.ts';
import {
  type ConditionalPut,
  type ItemWritten,
  type KeyedUpdate,
  type TableAccess,
  TableStore,
} from '../table/item-table.ts';
import { listingShards, tableShape } from '../table/shape.ts';
import type { EpochMs } from '../time/clock.ts';
import {
  exclusiveSlot,
  fromLockItem,
  listingPartition,
  lockItemKey,
  lockWords,
  revisionOfLayout1,
  slotOf,
  toLockItem,
} from './lock-item.ts';
import {
  appendWaiter,
  attendPlace,
  grantIfFree,
  leavePlace,
  moveUpPages,
  openPage,
  releaseAndHandOff,
  releasePart,
  renewIfLive,
} from './lock-writes.ts';
import { appendTo, attendIn, close, fromPageItem, leave, pageItemKey, stepAwayIn } from './page-item.ts';
import type { Absence, Attendance, LeftHow, MovedPages, Page, QueueSizes } from './pages.ts';

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

/** The item of an idle lock is collected after this time. Its fence still rises afterwards: see `grant` in the rules. */
export const retentionMsDefault = 30 * 86_400_000;
/**
 * A lease and a wait last a day at most. After twice that, TTL can't collect an item that a hand-off has just granted.
 */
export const retentionMsMin = 2 * 86_400_000;

export interface LockStoreOptions extends TableAccess {
  readonly retentionMs?: number | undefined;
}

/**
 * Keeps one item per lock, and one per page of its queue. It decides nothing: it does what `decide` would, in fewer requests
 * if it can, and otherwise writes the state that `decide` made. If the outcome is unknown, it throws `StoreError`, and never
 * answers "held" instead.
 */
export class LockStore extends TableStore {
  readonly #retentionMs: number;

  constructor({ retentionMs = retentionMsDefault, ...access }: LockStoreOptions) {
    super(access);
    if (retentionMs < retentionMsMin)
      throw new RangeError(`retentionMs must be at least two days (${retentionMsMin}), got ${retentionMs}.`);
    this.#retentionMs = retentionMs;
  }

  async read(key: LockKey): Promise<LockState> {
    return fromLockItem(await this.table.get(lockItemKey(key)));
  }

  async look(key: LockKey): Promise<LockState> {
    return fromLockItem(await this.table.get(lockItemKey(key), { consistent: false }));
  }

  async readMany(keys: readonly LockKey[]): Promise<LockState[]> {
    return (await this.table.getMany(keys.map(lockItemKey))).map(fromLockItem);
  }

  async attempt(key: LockKey, command: LockCommand, facts: Facts, known?: LockState): Promise<Written> {
    switch (command.kind) {
      case 'acquire':
        return this.#update(key, grantIfFree(key, command, facts, this.#retentionMs));
      case 'release':
      case 'renew':
        return this.#attemptInSlot(key, command, facts, known);
      default:
        return { applied: false, state: await this.read(key), perhapsMine: false };
    }
  }

  enqueue(key: LockKey, arrival: Arrival): Promise<Written> {
    return this.#update(key, appendWaiter(key, arrival));
  }

  attend(key: LockKey, index: number, waiter: Waiter, now: EpochMs): Promise<Written> {
    return this.#update(key, attendPlace(index, waiter, now));
  }

  leave(key: LockKey, index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Promise<Written> {
    return this.#update(key, leavePlace(index, waiter, isRemembered, now));
  }

  openPage(key: LockKey, arrival: Arrival, seen: PageSpan | undefined): Promise<Written> {
    return this.#update(key, openPage(key, arrival, seen));
  }

  moveUp(key: LockKey, pages: MovedPages, now: EpochMs): Promise<Written> {
    return this.#update(key, moveUpPages(pages, now));
  }

  async readPages(keys: readonly PageKey[]): Promise<Page[]> {
    const items = await this.table.getMany(keys.map(pageItemKey));
    return keys.map((key, index) => fromPageItem(key, items[index]));
  }

  appendToPage(
    key: PageKey,
    joining: { readonly waiter: Waiter; readonly fence: number },
    sizes: QueueSizes,
  ): Promise<PageWritten> {
    return this.#updatePage(key, appendTo(joining, sizes));
  }

  attendInPage(key: PageKey, attendance: Attendance): Promise<PageWritten> {
    return this.#updatePage(key, attendIn(attendance));
  }

  stepAwayInPage(key: PageKey, absence: Absence): Promise<PageWritten> {
    return this.#updatePage(key, stepAwayIn(absence));
  }

  leavePage(key: PageKey, leaseId: string, how: LeftHow, now: EpochMs): Promise<PageWritten> {
    return this.#updatePage(key, leave(leaseId, how, now));
  }

  async closePage(key: PageKey, now: EpochMs): Promise<Page> {
    return (await this.#updatePage(key, close(now))).page;
  }

  async swap(key: LockKey, next: LockState): Promise<Written> {
    return toWritten(await this.table.put(this.#swapOf(key, next)));
  }

  swapAll(swaps: readonly LockSwap[]): Promise<boolean> {
    return this.table.writeAll(swaps.map((swap) => this.#renewalOf(swap) ?? this.#swapOf(swap.key, swap.next)));
  }

  async list(
    namespace: string,
    { prefix, after, limit }: { prefix: string; after?: string; limit: number },
  ): Promise<LockPage> {
    const range = nameRange(prefix, after);
    const shards = Array.from({ length: listingShards }, (_, shard) =>
      this.#namesInShard(namespace, shard, range, limit),
    );
    const merged = (await Promise.all(shards)).flat().sort(byCodePoint);
    const names = merged.slice(0, limit);
    const states = await this.readMany(names.map((name) => ({ namespace, name })));
    const last = names.at(-1);
    return {
      // The index may still have a lock whose item was deleted a moment ago.
      locks: names
        .map((name, index) => ({ name, state: states[index] as LockState }))
        .filter(({ state }) => state.rev > 0),
      // Each shard was asked for `limit` names. If there are fewer in total, no shard has more.
      ...(merged.length >= limit && last !== undefined ? { after: last } : {}),
    };
  }

  async #attemptInSlot(
    key: LockKey,
    command: Renew | Release,
    facts: Facts,
    known: LockState | undefined,
  ): Promise<Written> {
    const inPart = known !== undefined && holdsPart(known, command);
    const first = await this.#update(key, this.#slotWrite(command, inPart, facts));
    // Most holders have the whole lock, so its slot is tried first. A refusal shows the slot of this lease.
    if (first.applied || inPart || !holdsPart(first.state, command)) return first;
    const second = await this.#update(key, this.#slotWrite(command, true, facts));
    return afterRefusal(first, second);
  }

  #slotWrite(command: Renew | Release, inPart: boolean, facts: Facts): Update {
    if (command.kind === 'renew')
      return renewIfLive(inPart ? command.leaseId : exclusiveSlot, command, facts, this.#retentionMs);
    return inPart
      ? releasePart(command, facts, this.#retentionMs)
      : releaseAndHandOff(command, facts, this.#retentionMs);
  }

  /** Safe because the revision is the one that was decided on, so nobody wrote in between. */
  #swapOf(key: LockKey, next: LockState): ConditionalPut {
    const Item = toLockItem(key, next, this.#retentionMs);
    if (next.rev === 1) return { Item, ...condition('attribute_not_exists(key)', lockWords) };
    const words = { ...lockWords, revisionBefore: revisionOfLayout1 };
    return { Item, ...condition('revision = :seen OR revisionBefore = :seen', words, { seen: next.rev - 1 }) };
  }

  /**
   * A renewal of several locks writes only the leases. The whole items of crowded locks would not fit in a transaction.
   */
  #renewalOf({ key, renewal }: LockSwap): KeyedUpdate | undefined {
    if (renewal === undefined) return undefined;
    const { command, facts, inPart } = renewal;
    return { key: lockItemKey(key), update: this.#slotWrite(command, inPart, facts) };
  }

  async #update(key: LockKey, update: Update): Promise<Written> {
    return toWritten(await this.table.update(lockItemKey(key), update));
  }

  async #updatePage(key: PageKey, update: Update): Promise<PageWritten> {
    const { item, ...outcome } = await this.table.update(pageItemKey(key), update);
    return { ...outcome, page: fromPageItem(key, item) };
  }

  async #namesInShard(namespace: string, shard: number, range: NameRange, limit: number): Promise<string[]> {
    const items = await this.table.query(
      {
        index: tableShape.indexes.listing.name,
        where: 'listingPartition = :partition AND listingName BETWEEN :from AND :to',
        words: lockWords,
        values: { partition: listingPartition(namespace, shard), ...range },
      },
      limit,
    );
    return items.map((item) => text(item, lockWords.listingName));
  }
}

/** The outcome of a second write after a refused first one. Each of the two may have been sent more than once. */
const afterRefusal = (first: Refused, second: Written): Written =>
  second.applied ? second : { ...second, perhapsMine: second.perhapsMine || first.perhapsMine };

/** Whether a lease was seen to hold a part of the lock. A part has its own slot. */
const holdsPart = ({ holders, limit }: LockState, { leaseId }: { readonly leaseId: string }): boolean =>
  holders.some((holder) => holder.leaseId === leaseId && slotOf(holder, limit) !== exclusiveSlot);

const toWritten = ({ item, ...outcome }: ItemWritten): Written => ({ ...outcome, state: fromLockItem(item) });

type NameRange = { readonly from: string; readonly to: string };

/** Names have only characters from `+` to `~`. So `!` sorts before all of them, and DEL after them. */
function nameRange(prefix: string, after: string | undefined): NameRange {
  const behind = after === undefined ? '!' : `${after}!`;
  return { from: behind > prefix ? behind : prefix, to: `${prefix}\u007f` };
}

/** DynamoDB sorts by UTF-8 bytes. Names are ASCII, so a plain comparison gives the same order. */
const byCodePoint = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);
