import type { Facts, LockCommand, Release, Renew } from '../lock/commands.ts';
import type { Behind, Holder, LockKey, LockState, Waiter } from '../lock/state.ts';
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
  fromLockItem,
  isWhole,
  listingPartition,
  lockItemKey,
  lockKeyOf,
  lockWords,
  partitionOf,
  toLockItem,
} from './lock-item.ts';
import {
  type Arrival,
  appendWaiter,
  attendPlace,
  grantIfFree,
  leavePlace,
  moveUpPages,
  openPage,
  releaseAndHandOff,
  releasePart,
  renewAllIfLive,
  renewPartIfLive,
} from './lock-writes.ts';
import type { MovedPages } from './pages.ts';

/** The outcome of a write. A refusal has the state that refused it, so that no read is needed. */
export type Written =
  | { readonly applied: true; readonly state: LockState }
  | {
      readonly applied: false;
      readonly state: LockState;
      /** The request was sent more than once, so the first try may have written the state that refused the last one. */
      readonly perhapsMine: boolean;
    };

export type Refused = Written & { readonly applied: false };

/**
 * What can be written to a lock: a change that `decide` or the queue asks for. Every kind but `replace` commutes with the changes of
 * others, so it does not depend on the revision.
 */
export type LockWrite =
  /** Appends to the front of a lock that is not free and has no pages. */
  | ({ readonly kind: 'arrive' } & Arrival)
  /** Sets until when the waiter at this place is present. Refused if it is at another place now, or waits in another way. */
  | { readonly kind: 'attend'; readonly index: number; readonly waiter: Waiter; readonly now: EpochMs }
  /**
   * Removes the waiter at this place. Not for the first waiter: after it leaves it may be another's turn, which `decide` must find
   * out. Refused if the waiter is at another place now.
   */
  | {
      readonly kind: 'leave';
      readonly index: number;
      readonly waiter: Waiter;
      readonly isRemembered: boolean;
      readonly now: EpochMs;
    }
  /** Opens a new last page after the one that was seen. Only if there are pages, or the front has no place for this waiter. */
  | ({ readonly kind: 'open-page'; readonly seen: Behind | undefined } & Arrival)
  /** Moves closed pages up into the front. Refused if `from` is no longer the first page. */
  | { readonly kind: 'move-up'; readonly pages: MovedPages; readonly now: EpochMs }
  /** Replaces the state whose revision is `next.rev - 1`: a compare-and-swap. */
  | { readonly kind: 'replace'; readonly next: LockState };

/** One of several writes that are done together or not at all. */
export interface LockSwap {
  readonly key: LockKey;
  readonly next: LockState;
  /** Set if the next state is only a renewal. Then only the lease is written. */
  readonly renewal?: { readonly command: Renew; readonly facts: Facts } | undefined;
}

/** One page of a listing. */
export interface ListedLocks {
  readonly locks: readonly { readonly name: string; readonly state: LockState }[];
  /** The last name that was read, if there may be more after it. */
  readonly after?: string;
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
 * Keeps one item per lock. It decides nothing: it does what `decide` would, in fewer requests if it can, and otherwise writes the
 * state that `decide` made. If the outcome is unknown, it throws `StoreError`, and never answers "held" instead.
 */
export class LockStore extends TableStore {
  readonly #retentionMs: number;

  constructor({ retentionMs = retentionMsDefault, ...access }: LockStoreOptions) {
    super(access);
    if (retentionMs < retentionMsMin)
      throw new RangeError(`retentionMs must be at least two days (${retentionMsMin}), got ${retentionMs}.`);
    this.#retentionMs = retentionMs;
  }

  /** Strongly consistent. A lock that was never used is `unusedLock`. */
  async read(key: LockKey): Promise<LockState> {
    return fromLockItem(await this.table.get(lockItemKey(key)));
  }

  /** An eventually consistent read, for half of the price. The state was stored at some time, but others may have written before this read. */
  async peek(key: LockKey): Promise<LockState> {
    return fromLockItem(await this.table.get(lockItemKey(key), { consistent: false }));
  }

  /** Each read is strongly consistent, but they are not a snapshot of one instant. In the order of the keys. */
  async readMany(keys: readonly LockKey[]): Promise<LockState[]> {
    return (await this.table.getMany(keys.map(lockItemKey))).map(fromLockItem);
  }

  /**
   * Tries the common case of a command in one write, without a read. It is refused in every other case, and for every other
   * command. The refusal has the current state, for `decide`. `known` is the state that was seen last.
   */
  async attempt(key: LockKey, command: LockCommand, facts: Facts, known?: LockState): Promise<Written> {
    switch (command.kind) {
      case 'acquire': {
        const grant = grantIfFree(key, command, facts, { retentionMs: this.#retentionMs, usual: known?.usual });
        return this.#update(key, grant);
      }
      case 'release':
      case 'renew':
        return this.#attemptInSlot(key, command, facts, known);
      default:
        return { applied: false, state: await this.read(key), perhapsMine: false };
    }
  }

  async write(key: LockKey, write: LockWrite): Promise<Written> {
    switch (write.kind) {
      case 'arrive':
        return this.#update(key, appendWaiter(key, write));
      case 'attend':
        return this.#update(key, attendPlace(write.index, write.waiter, write.now));
      case 'leave':
        return this.#update(key, leavePlace(write.index, write.waiter, write.isRemembered, write.now));
      case 'open-page':
        return this.#update(key, openPage(key, write, write.seen));
      case 'move-up':
        return this.#update(key, moveUpPages(write.pages, write.now));
      case 'replace':
        return toWritten(await this.table.put(this.#swapOf(key, write.next)));
    }
  }

  /** Swaps many in one step, all or nothing. False if another process wrote to one of them in between. */
  writeAll(swaps: readonly LockSwap[]): Promise<boolean> {
    return this.table.writeAll(swaps.map((swap) => this.#renewalOf(swap) ?? this.#swapOf(swap.key, swap.next)));
  }

  /** Locks by name, in order. A caller that follows the pages of the listing gets all of them. */
  async list(
    namespace: string,
    { prefix, after, limit }: { prefix: string; after?: string; limit: number },
  ): Promise<ListedLocks> {
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
    const guess = known && partOf(known, command);
    const first = await this.#update(key, this.#slotWrite(command, guess, facts));
    // Most holders have the whole lock, so its slot is tried first. A refusal shows the slot of this lease.
    const seen = first.applied ? undefined : partOf(first.state, command);
    if (first.applied || guess !== undefined || seen === undefined) return first;
    return afterRefusal(first, await this.#update(key, this.#slotWrite(command, seen, facts)));
  }

  #slotWrite(command: Renew | Release, part: Holder | undefined, facts: Facts): Update {
    const retentionMs = this.#retentionMs;
    if (command.kind === 'release')
      return part === undefined
        ? releaseAndHandOff(command, facts, retentionMs)
        : releasePart(command, facts, retentionMs);
    return part === undefined
      ? renewAllIfLive(command, facts, retentionMs)
      : renewPartIfLive(command, facts, { retentionMs, isSame: part.leaseMs === command.leaseMs });
  }

  /** Safe because the revision is the one that was decided on, so nobody wrote in between. */
  #swapOf(key: LockKey, next: LockState): ConditionalPut {
    const Item = toLockItem(key, next, this.#retentionMs);
    if (next.rev === 1) return { Item, ...condition('attribute_not_exists(key)', lockWords) };
    return { Item, ...condition('revision = :seen', lockWords, { seen: next.rev - 1 }) };
  }

  /**
   * A renewal of several locks writes only the leases. The whole items of crowded locks would not fit in a transaction.
   */
  #renewalOf({ key, next, renewal }: LockSwap): KeyedUpdate | undefined {
    if (renewal === undefined) return undefined;
    const { command, facts } = renewal;
    return { key: lockItemKey(key), update: this.#slotWrite(command, partOf(next, command), facts) };
  }

  async #update(key: LockKey, update: Update): Promise<Written> {
    return toWritten(await this.table.update(lockItemKey(key), update));
  }

  async #namesInShard(namespace: string, shard: number, { from, to }: NameRange, limit: number): Promise<string[]> {
    const partitionOfName = (name: string) => partitionOf({ namespace, name });
    const items = await this.table.query(
      {
        index: tableShape.indexes.listing.name,
        where: 'listingPartition = :partition AND key BETWEEN :from AND :to',
        words: lockWords,
        values: {
          partition: listingPartition(namespace, shard),
          from: partitionOfName(from),
          to: partitionOfName(to),
        },
      },
      limit,
    );
    return items.flatMap((item) => lockKeyOf({ pk: text(item, 'pk'), sk: 'lock' })?.name ?? []);
  }
}

/** The outcome of a second write after a refused first one. Each of the two may have been sent more than once. */
const afterRefusal = (first: Refused, second: Written): Written =>
  second.applied ? second : { ...second, perhapsMine: second.perhapsMine || first.perhapsMine };

/** The holder, if it was seen to hold a part of the lock. A part has its own slot. */
const partOf = ({ holders, limit }: LockState, { leaseId }: { readonly leaseId: string }): Holder | undefined =>
  holders.find((holder) => holder.leaseId === leaseId && !isWhole(holder, limit));

const toWritten = ({ item, ...outcome }: ItemWritten): Written => ({ ...outcome, state: fromLockItem(item) });

type NameRange = { readonly from: string; readonly to: string };

/** Names have only characters from `+` to `~`. So `!` sorts before all of them, and DEL after them. */
function nameRange(prefix: string, after: string | undefined): NameRange {
  const behind = after === undefined ? '!' : `${after}!`;
  return { from: behind > prefix ? behind : prefix, to: `${prefix}\u007f` };
}

/** DynamoDB sorts by UTF-8 bytes. Names are ASCII, so a plain comparison gives the same order. */
const byCodePoint = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);
