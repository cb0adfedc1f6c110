import type { Facts, LockCommand, Release, Renew } from '../../lock/commands.ts';
import type { LockState, Waiter } from '../../lock/state.ts';
import type { EpochMs } from '../../time/clock.ts';
import { type LockKey, type LockPage, type LockStore, lockIdOf, type Written } from '../lock-store.ts';
import { condition, type Update } from './expressions.ts';
import { type ConditionalPut, ItemTable, type ItemWritten, type TableAccess } from './item-table.ts';
import { listingPartition, lockItemKey } from './keys.ts';
import { exclusiveSlot, fromLockItem, slotOf, toLockItem } from './lock-item.ts';
import { lockWords } from './lock-words.ts';
import { grantIfFree, releaseAndHandOff, releasePart, renewIfLive } from './lock-writes.ts';
import { needsSwapToServe, type Place, placeOf } from './queue-item.ts';
import { appendWaiter, attendPlace, leavePlace } from './queue-writes.ts';
import { text } from './reading.ts';
import { SeenQueues } from './seen-queues.ts';
import { listingShards, tableShape } from './table.ts';

/** An idle lock's item is collected after this long. Its fence survives: see `grant` in the rules. */
export const retentionMsDefault = 30 * 86_400_000;
/** A lease and a wait last a day at most. Twice that, and TTL can't reach an item that a hand-off has just granted. */
export const retentionMsMin = 2 * 86_400_000;

/** Leases whose slot a process remembers: enough for a busy container, a few hundred kilobytes. */
const partsRememberedMax = 10_000;

export interface DynamoDBLockStoreOptions extends TableAccess {
  readonly retentionMs?: number;
}

export class DynamoDBLockStore implements LockStore {
  readonly #table: ItemTable;
  readonly #retentionMs: number;
  /** Leases that this process saw holding a part of a lock, so that their renewals and releases go to the right slot at once. */
  readonly #parts = new Set<string>();
  readonly #queues = new SeenQueues();

  constructor({ retentionMs, ...access }: DynamoDBLockStoreOptions) {
    this.#table = new ItemTable(access);
    this.#retentionMs = retentionMs ?? retentionMsDefault;
    if (this.#retentionMs < retentionMsMin)
      throw new RangeError(`retentionMs must be at least two days (${retentionMsMin}), got ${this.#retentionMs}.`);
  }

  async read(key: LockKey): Promise<LockState> {
    return this.#queues.see(key, await this.#table.get(lockItemKey(key)));
  }

  async readMany(keys: readonly LockKey[]): Promise<LockState[]> {
    return (await this.#table.getMany(keys.map(lockItemKey))).map(fromLockItem);
  }

  async attempt(key: LockKey, command: LockCommand, facts: Facts): Promise<Written> {
    switch (command.kind) {
      case 'acquire': {
        const written = await this.#update(key, grantIfFree(key, command, facts, this.#retentionMs));
        if (written.applied && command.permits < command.limit) this.#rememberPart(key, command);
        return written;
      }
      case 'release':
        return this.#foreseeRefusal(key, command) ?? this.#attemptInSlot(key, command, facts);
      case 'renew':
        return this.#attemptInSlot(key, command, facts);
      default:
        return { applied: false, state: await this.read(key), perhapsMine: false };
    }
  }

  async enqueue(key: LockKey, waiter: Waiter, limit: number): Promise<Written> {
    const append = (to: 'front' | 'tail') =>
      this.#update(key, appendWaiter(key, waiter, limit, { to, now: waiter.queuedAt }));
    if (this.#queues.of(key) !== undefined) return append('tail');
    const first = await append('front');
    // Refused perhaps only because the front is full by now; then the refusal showed it.
    if (first.applied || this.#queues.of(key) === undefined) return first;
    const second = await append('tail');
    return afterRefusal(first, second);
  }

  attend(key: LockKey, index: number, waiter: Waiter, now: EpochMs): Promise<Written> {
    return this.#update(key, attendPlace(this.#placeOf(key, waiter, index), waiter, now));
  }

  leave(key: LockKey, index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Promise<Written> {
    return this.#update(key, leavePlace(this.#placeOf(key, waiter, index), waiter, isRemembered, now));
  }

  async swap(key: LockKey, next: LockState): Promise<Written> {
    return this.#toWritten(key, await this.#table.put(this.#swapOf(key, next)));
  }

  swapAll(swaps: readonly { readonly key: LockKey; readonly next: LockState }[]): Promise<boolean> {
    for (const { key } of swaps) this.#queues.forget(key);
    return this.#table.writeAll(swaps.map(({ key, next }) => this.#swapOf(key, next)));
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
      // The index may still name a lock whose item was collected a moment ago.
      locks: names
        .map((name, index) => ({ name, state: states[index] as LockState }))
        .filter(({ state }) => state.rev > 0),
      // Each shard was asked for `limit` names, so fewer in all means that every shard is exhausted.
      ...(merged.length >= limit && last !== undefined ? { after: last } : {}),
    };
  }

  async #attemptInSlot(key: LockKey, command: Renew | Release, facts: Facts): Promise<Written> {
    const inPart = this.#parts.has(partId(key, command));
    const first = await this.#update(key, this.#slotWrite(command, inPart, facts));
    if (command.kind === 'release' || !first.applied) this.#parts.delete(partId(key, command));
    if (first.applied || inPart) return first;
    // Most locks are held as a whole, so that slot was tried first. The refusal shows the slot of this lease.
    const holder = first.state.holders.find(({ leaseId }) => leaseId === command.leaseId);
    if (holder === undefined || slotOf(holder, first.state.limit) === exclusiveSlot) return first;
    if (command.kind === 'renew') this.#rememberPart(key, command);
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

  #rememberPart(key: LockKey, claim: { readonly leaseId: string }): void {
    this.#parts.add(partId(key, claim));
    if (this.#parts.size <= partsRememberedMax) return;
    const [oldest] = this.#parts;
    if (oldest !== undefined) this.#parts.delete(oldest);
  }

  /** Nobody wrote since the state was read, so what was decided on it still holds. */
  #swapOf(key: LockKey, next: LockState): ConditionalPut {
    const Item = toLockItem(key, next, this.#retentionMs);
    if (next.rev === 1) return { Item, ...condition('attribute_not_exists(key)', lockWords) };
    return { Item, ...condition('revision = :seen', lockWords, { seen: next.rev - 1 }) };
  }

  async #update(key: LockKey, expressions: Update): Promise<Written> {
    return this.#toWritten(key, await this.#table.update(lockItemKey(key), expressions));
  }

  #toWritten(key: LockKey, written: ItemWritten): Written {
    const state = this.#queues.see(key, written.item);
    return written.applied ? { applied: true, state } : { applied: false, state, perhapsMine: written.perhapsMine };
  }

  /** The place of a waiter: as it was seen, or its index in a short queue. If others wrote since, it is wrong. Then the write is refused and shows the item. */
  #placeOf(key: LockKey, { leaseId }: Waiter, index: number): Place {
    const seen = this.#queues.of(key);
    return (seen === undefined ? undefined : placeOf(seen.queue, leaseId)) ?? { front: index };
  }

  /**
   * Where the queue was last seen to lie so that the direct write would be refused, the refusal is told without sending it. Only of the
   * lease that was seen to hold: what is decided of it is always written, and so checked against what is stored.
   */
  #foreseeRefusal(key: LockKey, { leaseId }: Release): Written | undefined {
    const seen = this.#queues.of(key);
    if (seen === undefined || !needsSwapToServe(seen.queue)) return undefined;
    const { state } = seen;
    const holds = state.holders.some((holder) => holder.leaseId === leaseId && holder.leaseMs !== null);
    return holds ? { applied: false, state, perhapsMine: false } : undefined;
  }

  async #namesInShard(namespace: string, shard: number, range: NameRange, limit: number): Promise<string[]> {
    const items = await this.#table.query(
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

/** What a second write came to that followed a refused one: either of the two may have been sent more than once. */
const afterRefusal = (first: Written & { applied: false }, second: Written): Written =>
  second.applied ? second : { ...second, perhapsMine: second.perhapsMine || first.perhapsMine };

/** One lease may hold several locks, each in its own way. */
const partId = (key: LockKey, { leaseId }: { readonly leaseId: string }): string => `${lockIdOf(key)}/${leaseId}`;

interface NameRange {
  readonly from: string;
  readonly to: string;
}

/** Names hold characters from `+` to `~` only, so `!` sorts before all of them and DEL after. */
function nameRange(prefix: string, after: string | undefined): NameRange {
  const behind = after === undefined ? '!' : `${after}!`;
  return { from: behind > prefix ? behind : prefix, to: `${prefix}\u007f` };
}

/** DynamoDB sorts by UTF-8 bytes, and names are ASCII: plain comparison is the same order. */
const byCodePoint = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);
