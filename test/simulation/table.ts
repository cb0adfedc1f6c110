/**
 * The table of a world: the built-in engine, with a look at every change in the same step. What is checked is decoded from the items
 * that were written, by the code that is deployed.
 */
import type { DynamoDBRecord } from 'aws-lambda';
import { type Change, recordOf } from '../../src/engine/change-stream.ts';
import { MemoryEngine } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/engine/errors.ts';
import { type LockState, unusedLock } from '../../src/lock/state.ts';
import { fromLockItem, lockKeyOf } from '../../src/queue/lock-item.ts';
import { changedAtOf, fromPageItem, pageKeyOf } from '../../src/queue/page-item.ts';
import { emptyPage, moveUp, type Page, pageNumbers } from '../../src/queue/pages.ts';
import { type RecordState, unwrittenRecord } from '../../src/record/state.ts';
import type { SessionState } from '../../src/session/state.ts';
import { fromRecordItems } from '../../src/store/records.ts';
import { fromSessionItem } from '../../src/store/session-item.ts';
import type { Item, ItemKey } from '../../src/table/attributes.ts';
import { fromStored, type StoredItem } from '../../src/table/json.ts';
import type { TableOperation, TablePort, TableRequests } from '../../src/table/port.ts';
import { defaultTableName, tableDefinition, tableShape } from '../../src/table/shape.ts';
import { epochMs } from '../../src/time/clock.ts';
import { type Cause, causeOfTimer } from './cause.ts';
import { inKnownLayout, isOfNewerLayout, type Release } from './release.ts';

export interface LockWrite {
  readonly name: string;
  /** With the whole queue, including pages: the promises about a lock do not depend on pages. */
  readonly before: LockState;
  readonly after: LockState;
  /** The item that was written: the lock's own, or a page. */
  readonly stored:
    | { readonly kind: 'lock'; readonly before: LockState; readonly after: LockState }
    | { readonly kind: 'page'; readonly before: Page; readonly after: Page };
  /** The item itself, in the layout that this release knows. */
  readonly item: Item;
  /** The lock's state in which leases have the names that the service knows. */
  readonly asKnown: LockState;
  /** True if only a newer release can read it. */
  readonly isOfNewerLayout: boolean;
  /** True if an expression made the item, and not the rules. */
  readonly byExpression: boolean;
  /** True if a late copy of a request joined a page although its lease already has a place. The lease moves up once, and counts once above. */
  readonly isDoubled: boolean;
  readonly cause: Cause;
  /** The names written in the same step. A transaction has more than one. */
  readonly together: readonly string[];
}

export interface TableWatcher {
  lockWritten(write: LockWrite): void;
  /** The table itself deleted the item of a lock, long after its end. */
  lockCollected(name: string, last: LockState): void;
  sessionWritten(before: SessionState | undefined, after: SessionState): void;
  recordWritten(key: string, before: RecordState, after: RecordState): void;
  deliveryMarked(name: string, fence: number): void;
  /** The item of a lock or a page can't be read. */
  unreadable(key: string, error: unknown, item: Item): void;
  /** DynamoDB would refuse this request, whatever the item is. */
  refusedAsInvalid(message: string, request: object, cause: Cause): void;
  /** A process wrote an item of a layout that its release does not know. */
  writtenUnknown(key: string, cause: Cause): void;
  /** Each change, as the stream shows it. It comes after what it means. */
  changed(record: DynamoDBRecord, write: LockWrite | undefined): void;
}

export interface WorldTableOptions {
  readonly now: () => number;
  /** How much later an index shows a change. */
  readonly indexLagMs: () => number;
  /** The lease with this name. The table has only names, and the checks are about leases. */
  readonly leaseNamed: (name: string) => string;
}

export type Performed = { readonly answer: object } | { readonly error: Error };

/** An older image of an item, and since when it was the latest. */
interface Version {
  readonly from: number;
  readonly item: StoredItem | undefined;
}

/** Enough for every image that a read without consistency may still show. */
const versionsMax = 50;
/** The attributes that are keys of an index. */
const indexKeys = Object.values(tableShape.indexes).flatMap(({ partitionKey, sortKey }) => [partitionKey, sortKey]);
const textOf = (value: unknown): string => (value as { S: string }).S;
const idOf = (keys: StoredItem): string => `${textOf(keys.pk)} ${textOf(keys.sk)}`;

export class WorldTable {
  /** Each lock with its whole queue. */
  readonly states = new Map<string, LockState>();
  readonly sessionStates = new Map<string, SessionState>();
  readonly #engine: MemoryEngine;
  /** What the indexes show. They follow the table a moment later. */
  readonly #lagging: MemoryEngine;
  readonly #lag: () => number;
  readonly #leaseNamed: (name: string) => string;
  #unindexed: { readonly visibleAt: number; readonly change: Change }[] = [];
  readonly #watcher: TableWatcher;
  readonly #now: () => number;
  readonly #stored = new Map<string, LockState>();
  readonly #pages = new Map<string, Map<number, Page>>();
  readonly #records = new Map<string, RecordState>();
  /** The session of each session item, because its key has only a digest. */
  readonly #sessionIds = new Map<string, string>();
  readonly #versions = new Map<string, Version[]>();
  /** How much the table's own time is behind when it deletes items. */
  #collectionLagMs = 0;
  #cause: Cause | undefined;
  #release: Release = 'this';
  /** The request that is performed now. */
  #request: { readonly operation: string; readonly writes: readonly Transacted[] } = nothing;

  constructor(watcher: TableWatcher, { now, indexLagMs, leaseNamed }: WorldTableOptions) {
    this.#watcher = watcher;
    this.#now = now;
    this.#lag = indexLagMs;
    this.#leaseNamed = leaseNamed;
    this.#engine = new MemoryEngine({
      now: () => now() - this.#collectionLagMs,
      onChange: (change) => this.#changed(change),
      // Each change is taken when it is made.
      streamLimits: { recordsMax: 1 },
    });
    this.#lagging = new MemoryEngine({ now, streamLimits: { recordsMax: 1 } });
    for (const engine of [this.#engine, this.#lagging]) engine.call('CreateTable', tableDefinition(defaultTableName));
    this.#engine.call('UpdateTimeToLive', {
      TableName: defaultTableName,
      TimeToLiveSpecification: { AttributeName: tableShape.ttlAttribute, Enabled: true },
    });
  }

  /** Does one thing, with its cause. Nothing comes in between. */
  perform(cause: Cause, operation: TableOperation, request: object, release: Release): Performed {
    this.#cause = cause;
    this.#release = release;
    this.#request = { operation, writes: transactedIn(request) };
    const engine = 'IndexName' in request && request.IndexName !== undefined ? this.#indexes() : this.#engine;
    try {
      return { answer: engine.call(operation, request) };
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      if (error.name === 'ValidationException') this.#watcher.refusedAsInvalid(error.message, request, cause);
      return { error: Object.assign(error, error.more) };
    }
  }

  /** The item as it was this long ago, as a read without consistency shows it. */
  earlier(key: StoredItem, lagMs: number): StoredItem | undefined {
    return this.#versions.get(idOf(key))?.findLast(({ from }) => from <= this.#now() - lagMs)?.item;
  }

  /** Deletes items whose time to live was over this long ago. */
  collect(lagMs = 0): void {
    this.#cause = causeOfTimer('the table', this.#now());
    this.#request = nothing;
    this.#collectionLagMs = lagMs;
    this.#engine.collectExpired();
    this.#collectionLagMs = 0;
  }

  /** The session of a key, even if its item was deleted. */
  sessionOf(key: StoredItem): string | undefined {
    return this.#sessionIds.get(idOf(key));
  }

  /** The table without any path to it, for the world itself. */
  get port(): TablePort {
    const cause = causeOfTimer('the world', this.#now());
    return {
      call: async (operation, request) => {
        const performed = this.perform(cause, operation, request, 'newer');
        if ('error' in performed) throw performed.error;
        return performed.answer;
      },
    };
  }

  #indexes(): MemoryEngine {
    const due = this.#unindexed.findIndex(({ visibleAt }) => visibleAt > this.#now());
    const shown = due < 0 ? this.#unindexed.splice(0) : this.#unindexed.splice(0, due);
    for (const { change } of shown) {
      const { keys, after } = change;
      if (after === undefined) this.#lagging.call('DeleteItem', { TableName: defaultTableName, Key: keys });
      else {
        const names = indexKeys.filter((name) => after[name] !== undefined);
        const Item = { ...keys, ...Object.fromEntries(names.map((name) => [name, after[name]])) };
        this.#lagging.call('PutItem', { TableName: defaultTableName, Item });
      }
    }
    return this.#lagging;
  }

  #changed(change: Change): void {
    const { before, after, keys, byTtl } = change;
    if (this.#release === 'this' && !byTtl && isOfNewerLayout(before))
      this.#watcher.writtenUnknown(idOf(keys as StoredItem), this.#cause as Cause);
    if (indexKeys.some((name) => textIn(before, name) !== textIn(after, name))) {
      const visibleAt = Math.max(this.#now() + this.#lag(), this.#unindexed.at(-1)?.visibleAt ?? 0);
      this.#unindexed.push({ visibleAt, change });
    }
    const write = this.#meaningOf(change);
    this.#watcher.changed(recordOf(change, 'simulated') as DynamoDBRecord, write);
  }

  #meaningOf(change: Change): LockWrite | undefined {
    const keys = { pk: textOf(change.keys.pk), sk: textOf(change.keys.sk) };
    const lock = lockKeyOf(keys);
    if (lock !== undefined) return this.#lockChanged(lock.name, change);
    const page = pageKeyOf(keys);
    if (page !== undefined) return this.#pageChanged(page.lock.name, page.number, change);
    if (change.after === undefined) return undefined;
    const [, kind, name = ''] = keys.pk.split('/');
    if (keys.sk === 'session') this.#sessionChanged(idOf(change.keys as StoredItem), plain(change.after));
    else if (kind === 'record' && keys.sk === 'record') this.#recordChanged(name, plain(change.after));
    else if (kind === 'told' && change.after.told !== undefined && change.before?.told === undefined)
      this.#watcher.deliveryMarked(name, Number(keys.sk));
    return undefined;
  }

  #lockChanged(name: string, { keys, before: stored, after: written }: Change): LockWrite | undefined {
    const id = idOf(keys as StoredItem);
    const versions = this.#versions.get(id) ?? [{ from: 0, item: stored as StoredItem | undefined }];
    versions.push({ from: this.#now(), item: written as StoredItem | undefined });
    this.#versions.set(id, versions.slice(-versionsMax));
    if (written === undefined) {
      const last = this.#wholeOf(name);
      this.states.delete(name);
      this.#stored.delete(name);
      this.#watcher.lockCollected(name, last);
      return undefined;
    }
    const item = inKnownLayout(plain(written));
    const asKnown = this.#decoded(id, item, () => fromLockItem(item));
    if (asKnown === undefined) return undefined;
    const after = this.#named(asKnown);
    const before = this.#wholeOf(name);
    const isDoubled = this.#isDoubled(name);
    const change = { kind: 'lock', before: this.#stored.get(name) ?? unusedLock, after } as const;
    this.#stored.set(name, after);
    const whole = { ...this.#wholeOf(name), changedAt: after.changedAt };
    const layout = { item, asKnown, isOfNewerLayout: isOfNewerLayout(written) };
    return this.#wrote({ name, before, after: whole, stored: change, ...layout, isDoubled });
  }

  #pageChanged(name: string, number: number, { keys, after: written }: Change): LockWrite | undefined {
    const pages = this.#pages.get(name) ?? new Map<number, Page>();
    this.#pages.set(name, pages);
    if (written === undefined) {
      pages.delete(number);
      return undefined;
    }
    const item = inKnownLayout(plain(written));
    const page = this.#decoded(idOf(keys as StoredItem), item, () => fromPageItem({ number }, item));
    if (page === undefined) return undefined;
    const after = { ...page, waiters: page.waiters.map(this.#withLease), left: page.left.map(this.#withLease) };
    const whole = this.#wholeOf(name);
    const isDoubled = this.#isDoubled(name);
    const before = pages.get(number) ?? emptyPage(number);
    pages.set(number, after);
    // If a waiter only shows that it is present, the page has no new time.
    const isTimed = after.left.length !== before.left.length || after.waiters.length !== before.waiters.length;
    const changedAt = epochMs(after.closedAt ?? (isTimed ? changedAtOf(item) : this.#now()));
    const change = { kind: 'page', before, after } as const;
    const all = { ...this.#wholeOf(name), changedAt };
    const layout = { item, asKnown: all, isOfNewerLayout: isOfNewerLayout(written) };
    return this.#wrote({ name, before: whole, after: all, stored: change, ...layout, isDoubled });
  }

  readonly #withLease = <T extends { readonly leaseId: string }>(entry: T): T => ({
    ...entry,
    leaseId: this.#leaseNamed(entry.leaseId),
  });

  #named(state: LockState): LockState {
    const [holders, queue] = [state.holders.map(this.#withLease), state.queue.map(this.#withLease)];
    return { ...state, holders, queue, ended: state.ended.map(this.#withLease) };
  }

  #decoded<T>(id: string, item: Item, decode: () => T): T | undefined {
    try {
      return decode();
    } catch (error) {
      this.#watcher.unreadable(id, error, item);
      return undefined;
    }
  }

  #sessionChanged(id: string, item: Item): void {
    const after = fromSessionItem(item);
    const before = this.sessionStates.get(after.sessionId);
    this.#sessionIds.set(id, after.sessionId);
    this.sessionStates.set(after.sessionId, after);
    this.#watcher.sessionWritten(before, after);
  }

  #recordChanged(key: string, head: Item): void {
    const after = fromRecordItems(head, undefined) ?? unwrittenRecord;
    const before = this.#records.get(key) ?? unwrittenRecord;
    this.#records.set(key, after);
    this.#watcher.recordWritten(key, before, after);
  }

  /** The pages of a lock that were written, by number. */
  pagesOf(name: string): ReadonlyMap<number, Page> {
    return this.#pages.get(name) ?? new Map();
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

  #isByExpression({ pk, sk }: Item): boolean {
    const { operation, writes } = this.#request;
    return operation === 'UpdateItem' || writes.some(({ key, isUpdate }) => isUpdate && key.pk === pk && key.sk === sk);
  }

  #wrote(change: Omit<LockWrite, 'byExpression' | 'cause' | 'together'>): LockWrite {
    const { name, after, item, isDoubled } = change;
    this.states.set(name, after);
    const write: LockWrite = {
      ...change,
      byExpression: this.#isByExpression(item),
      isDoubled: isDoubled || this.#isDoubled(name),
      cause: this.#cause as Cause,
      together: [name, ...this.#request.writes.flatMap(({ key }) => lockKeyOf(key)?.name ?? [])],
    };
    this.#watcher.lockWritten(write);
    return write;
  }
}

const plain = (item: object): Item => fromStored(item as StoredItem);

const textIn = (item: object | undefined, name: string): string =>
  JSON.stringify((item as Record<string, unknown> | undefined)?.[name]) ?? '';

/** One write of a transaction. */
interface Transacted {
  readonly key: ItemKey;
  readonly isUpdate: boolean;
}

const nothing = { operation: '', writes: [] };

function transactedIn(request: object): readonly Transacted[] {
  const { TransactItems = [] } = request as Partial<TableRequests['TransactWriteItems']>;
  return TransactItems.map((one) => {
    const { pk, sk } = 'Put' in one ? one.Put.Item : one.Update.Key;
    return { key: { pk: textOf(pk), sk: textOf(sk) }, isUpdate: 'Update' in one };
  });
}
