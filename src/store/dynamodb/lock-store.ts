import { setTimeout as pause } from 'node:timers/promises';
import {
  BatchGetCommand,
  type DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  QueryCommand,
  UpdateCommand,
} from '@aws-sdk/lib-dynamodb';
import type { Facts, LockCommand, Release, Renew } from '../../lock/commands.ts';
import type { LockState, Waiter } from '../../lock/state.ts';
import { jitteredMs } from '../jitter.ts';
import type { LockKey, LockPage, LockStore, Written } from '../lock-store.ts';
import { StoreError } from '../store-error.ts';
import { attemptsOf, isConditionFailure, refusedItem, toStoreError } from './failures.ts';
import { listingPartition, lockItemKey } from './keys.ts';
import { exclusiveSlot, fromLockItem, type LockItem, slotOf, toLockItem } from './lock-item.ts';
import {
  appendWaiter,
  type ConditionalUpdate,
  grantIfFree,
  releaseAndHandOff,
  releasePart,
  renewIfLive,
} from './lock-writes.ts';
import { listingShards, tableShape } from './table.ts';

/** An idle lock's item is collected after this long. Its fence survives: see `grant` in the rules. */
export const retentionMsDefault = 30 * 86_400_000;

/** Leases whose slot a process remembers: enough for a busy container, a few hundred kilobytes. */
const partsRememberedMax = 10_000;
/** A transaction on the same item lasts milliseconds; five jittered tries outlast it. */
const conflictTriesMax = 5;

export interface DynamoDBLockStoreOptions {
  readonly client: DynamoDBDocumentClient;
  readonly tableName: string;
  readonly retentionMs?: number;
  readonly random?: () => number;
}

export class DynamoDBLockStore implements LockStore {
  readonly #client: DynamoDBDocumentClient;
  readonly #tableName: string;
  readonly #retentionMs: number;
  readonly #random: () => number;
  /** Leases that this process saw holding a part of a lock, so that their renewals and releases go to the right slot at once. */
  readonly #parts = new Set<string>();

  constructor({ client, tableName, retentionMs, random }: DynamoDBLockStoreOptions) {
    this.#client = client;
    this.#tableName = tableName;
    this.#retentionMs = retentionMs ?? retentionMsDefault;
    this.#random = random ?? Math.random;
  }

  async read(key: LockKey): Promise<LockState> {
    const input = { TableName: this.#tableName, Key: lockItemKey(key), ConsistentRead: true };
    const { Item } = await this.#send(() => this.#client.send(new GetCommand(input)));
    return fromLockItem(Item);
  }

  async attempt(key: LockKey, command: LockCommand, facts: Facts): Promise<Written> {
    switch (command.kind) {
      case 'acquire': {
        const written = await this.#update(key, grantIfFree(key, command, facts, this.#retentionMs));
        if (written.applied && command.permits < command.limit) this.#rememberPart(key, command);
        return written;
      }
      case 'renew':
      case 'release':
        return this.#attemptInSlot(key, command, facts);
      default:
        return { applied: false, state: await this.read(key), perhapsMine: false };
    }
  }

  enqueue(key: LockKey, waiter: Waiter, limit: number): Promise<Written> {
    return this.#update(key, appendWaiter(key, waiter, limit, waiter.queuedAt));
  }

  swap(key: LockKey, next: LockState): Promise<Written> {
    return this.#write(
      () =>
        this.#client.send(
          new PutCommand({
            TableName: this.#tableName,
            Item: toLockItem(key, next, this.#retentionMs),
            // Nobody wrote since the state was read, so what was decided on it still holds.
            ...(next.rev === 1
              ? { ConditionExpression: 'attribute_not_exists(#pk)', ExpressionAttributeNames: { '#pk': 'pk' } }
              : {
                  ConditionExpression: '#rev = :rev',
                  ExpressionAttributeNames: { '#rev': 'rev' },
                  ExpressionAttributeValues: { ':rev': next.rev - 1 },
                }),
            ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
          }),
        ),
      () => next,
    );
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
    const states = await this.#readMany(names.map((name) => ({ namespace, name })));
    const last = names.at(-1);
    return {
      // The index may still name a lock whose item was collected a moment ago.
      locks: names.flatMap((name, index) => {
        const state = states[index];
        return state === undefined ? [] : [{ name, state }];
      }),
      // Each shard was asked for `limit` names, so fewer in all means that every shard is exhausted.
      ...(merged.length >= limit && last !== undefined ? { after: last } : {}),
    };
  }

  async #attemptInSlot(key: LockKey, command: Renew | Release, facts: Facts): Promise<Written> {
    const inPart = this.#parts.has(partId(key, command));
    const first = await this.#update(key, this.#slotWrite(command, inPart, facts));
    if (command.kind === 'release' || !first.applied) this.#parts.delete(partId(key, command));
    if (first.applied || inPart) return first;
    // Most locks are held whole, so that slot was tried first. The refusal tells where this lease really sits.
    const holder = first.state.holders.find(({ leaseId }) => leaseId === command.leaseId);
    if (holder === undefined || slotOf(holder, first.state.limit) === exclusiveSlot) return first;
    if (command.kind === 'renew') this.#rememberPart(key, command);
    const second = await this.#update(key, this.#slotWrite(command, true, facts));
    return second.applied ? second : { ...second, perhapsMine: second.perhapsMine || first.perhapsMine };
  }

  #slotWrite(command: Renew | Release, inPart: boolean, facts: Facts): ConditionalUpdate {
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

  #update(key: LockKey, expressions: ConditionalUpdate): Promise<Written> {
    return this.#write(
      () =>
        this.#client.send(
          new UpdateCommand({
            TableName: this.#tableName,
            Key: lockItemKey(key),
            ...expressions,
            ReturnValues: 'ALL_NEW',
            ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
          }),
        ),
      ({ Attributes }) => fromLockItem(Attributes),
    );
  }

  async #write<T>(send: () => Promise<T>, stateAfter: (output: T) => LockState): Promise<Written> {
    try {
      return { applied: true, state: stateAfter(await this.#send(send)) };
    } catch (error) {
      if (!isConditionFailure(error)) throw error;
      return { applied: false, state: fromLockItem(refusedItem(error)), perhapsMine: attemptsOf(error) > 1 };
    }
  }

  /** Sends, and sends again where a transaction was in the way. A refused condition is passed on; all else is a StoreError. */
  async #send<T>(send: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await send();
      } catch (error) {
        if (isConditionFailure(error)) throw error;
        const failure = toStoreError(error);
        if (failure.code !== 'conflict' || attempt + 1 >= conflictTriesMax) throw failure;
        await pause(jitteredMs(attempt, 5, 100, this.#random));
      }
    }
  }

  async #namesInShard(namespace: string, shard: number, range: NameRange, limit: number): Promise<string[]> {
    const { listing } = tableShape.indexes;
    const names: string[] = [];
    let start: Record<string, unknown> | undefined;
    do {
      const input = {
        TableName: this.#tableName,
        IndexName: listing.name,
        KeyConditionExpression: '#lp = :lp AND #ln BETWEEN :from AND :to',
        ExpressionAttributeNames: { '#lp': listing.partitionKey, '#ln': listing.sortKey },
        ExpressionAttributeValues: { ':lp': listingPartition(namespace, shard), ':from': range.from, ':to': range.to },
        Limit: limit,
        ...(start === undefined ? {} : { ExclusiveStartKey: start }),
      };
      const page = await this.#send(() => this.#client.send(new QueryCommand(input)));
      names.push(...(page.Items ?? []).map((item) => item.ln as string));
      start = page.LastEvaluatedKey;
    } while (start !== undefined && names.length < limit);
    return names.slice(0, limit);
  }

  async #readMany(keys: readonly LockKey[]): Promise<(LockState | undefined)[]> {
    const found = new Map<string, LockItem>();
    let wanted: Record<string, unknown>[] = keys.map(lockItemKey).map(({ pk, sk }) => ({ pk, sk }));
    for (let attempt = 0; wanted.length > 0; attempt++) {
      // DynamoDB reads at most 100 items, or 16 MB, at once, and hands back what it did not get to.
      const batch = wanted.slice(0, 100);
      const request = { [this.#tableName]: { Keys: batch, ConsistentRead: true } };
      const output = await this.#send(() => this.#client.send(new BatchGetCommand({ RequestItems: request })));
      for (const item of output.Responses?.[this.#tableName] ?? []) found.set(item.pk as string, item);
      const unread = output.UnprocessedKeys?.[this.#tableName]?.Keys ?? [];
      if (unread.length === batch.length && attempt >= conflictTriesMax)
        throw new StoreError('throttled', 'The store asked for less traffic.');
      if (unread.length > 0) await pause(jitteredMs(attempt, 10, 200, this.#random));
      wanted = [...unread, ...wanted.slice(100)];
    }
    return keys.map((key) => {
      const item = found.get(lockItemKey(key).pk);
      return item === undefined ? undefined : fromLockItem(item);
    });
  }
}

/** One lease may hold several locks, each in its own way. */
const partId = ({ namespace, name }: LockKey, { leaseId }: { readonly leaseId: string }): string =>
  `${namespace}/${name}/${leaseId}`;

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
