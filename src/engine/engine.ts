/**
 * A DynamoDB in memory: the part of it that Holdfast uses, with its conditions, indexes, transactions, units and
 * stream. Everything is lost when the process ends, unless a journal keeps it (journal.ts).
 */

import { BoundedMap } from '../tools/collections.ts';
import type { StreamState } from './change-stream.ts';
import { EngineError, invalid } from './errors.ts';
import { checkUpdate, updated } from './evaluation.ts';
import { readUpdate } from './expressions.ts';
import { findItems } from './query.ts';
import {
  type BatchGet,
  type BatchWrite,
  checkAliases,
  type Get,
  isAllowed,
  type Keyed,
  type Put,
  type Query,
  scopeOf,
  type TransactItem,
  type Transaction,
  type UpdateRequest,
  type Write,
} from './requests.ts';
import { noSuchTable, Table } from './table.ts';
import { describeTable, shapeOf, type TableDefinition } from './table-definition.ts';
import { doubled, readUnits, totalOf, type Units, writeUnits } from './units.ts';
import { checkValue, type Item, sameItem } from './values.ts';

/** The units that a request used, for callers that count them. */
export interface Usage {
  readonly operation: string;
  readonly table: string;
  /** The key of the item, or of the partition for a query. */
  readonly key: Item;
  readonly units: Units;
}

export interface EngineOptions {
  readonly now?: () => number;
  readonly region?: string;
  readonly onUsage?: (usage: Usage) => void;
}

/** One step of the engine's history, as the journal keeps it. */
export type Entry =
  /** A request about a table, with the time at which it was made. */
  | { readonly at: number; readonly request: string; readonly input: unknown }
  /** The writes of one request. All of them were made together. */
  | { readonly at: number; readonly writes: readonly Written[]; readonly token?: string }
  /** An item that a snapshot found. It leaves no record in the stream. */
  | { readonly table: string; readonly item: Item }
  | { readonly table: string; readonly stream: StreamState };

/** An item as it is now, or the key of an item that is gone. */
interface Written {
  readonly table: string;
  readonly put?: Item;
  readonly remove?: Item;
  readonly byTtl?: true;
}

type Answer = Record<string, unknown>;
type Reported = { readonly ReturnConsumedCapacity?: string };

/** DynamoDB's own limits. */
const batchReadMax = 100;
const batchWriteMax = 25;
const transactionMax = 100;
/** DynamoDB recognizes a transaction by its token for ten minutes. Fewer transactions than this come in that time. */
const tokensKeptMax = 10_000;

/** A write that is decided but not yet made. */
interface Decided {
  readonly operation: string;
  readonly table: Table;
  readonly before: Item | undefined;
  readonly after: Item | undefined;
  readonly isAllowed: boolean;
}

export class MemoryEngine {
  readonly #now: () => number;
  readonly #region: string;
  readonly #onUsage: (usage: Usage) => void;
  readonly #tables = new Map<string, Table>();
  readonly #tokens = new BoundedMap<string, true>(tokensKeptMax);
  #written: Written[] = [];
  /** Called after each request that changed something. */
  onEntry: (entry: Entry) => void = () => {};

  constructor({ now = Date.now, region = 'us-east-1', onUsage = () => {} }: EngineOptions = {}) {
    this.#now = now;
    this.#region = region;
    this.#onUsage = onUsage;
  }

  /** Runs one request to its end, with nothing in between. Throws an `EngineError`. */
  call(operation: string, input: unknown): Answer {
    // A name such as toString, which every object inherits, is no operation.
    const operate = Object.hasOwn(this.#operations, operation) ? this.#operations[operation] : undefined;
    if (operate === undefined)
      throw new EngineError('UnknownOperationException', `There is no operation ${operation} here.`);
    const answer = operate(input as never);
    if (tableRequests.has(operation)) this.onEntry({ at: this.#now(), request: operation, input });
    this.#noteWrites();
    return answer;
  }

  #noteWrites(token?: string): void {
    if (this.#written.length === 0) return;
    this.onEntry({ at: this.#now(), writes: this.#written, ...(token === undefined ? {} : { token }) });
    this.#written = [];
  }

  /** Does again what an entry says, without telling `onEntry`. */
  restore(entry: Entry): void {
    if ('item' in entry) this.#tableNamed(entry.table).replace(undefined, entry.item);
    else if ('stream' in entry) this.#tableNamed(entry.table).stream?.restore(entry.stream);
    else if ('request' in entry) this.#restoreRequest(entry);
    else {
      for (const write of entry.writes) this.#restoreWrite(write, entry.at);
      if (entry.token !== undefined) this.#tokens.set(entry.token, true);
    }
  }

  #restoreRequest({ at, request, input }: Extract<Entry, { request: string }>): void {
    // A table's stream is named by the time of its creation, and readers remember that name.
    if (request === 'CreateTable') this.#createTable(input as TableDefinition, at);
    else this.#operations[request]?.(input as never);
  }

  #restoreWrite({ table: name, put, remove, byTtl }: Written, at: number): void {
    const table = this.#tableNamed(name);
    const before = table.get((put ?? remove) as Item);
    table.replace(before, put);
    table.stream?.add({ before, after: put, keys: table.keysOf((put ?? remove) as Item), byTtl: byTtl === true }, at);
  }

  /** Entries that make an empty engine equal to this one. */
  *snapshot(): Generator<Entry> {
    for (const table of this.#tables.values()) {
      const { name, definition } = table.shape;
      yield { at: table.createdAt, request: 'CreateTable', input: definition };
      if (table.ttlAttribute !== undefined) {
        const TimeToLiveSpecification = { AttributeName: table.ttlAttribute, Enabled: true };
        yield { at: table.createdAt, request: 'UpdateTimeToLive', input: { TableName: name, TimeToLiveSpecification } };
      }
      for (const item of table.all()) yield { table: name, item };
      if (table.stream !== undefined) yield { table: name, stream: table.stream.state() };
    }
  }

  get itemCount(): number {
    return [...this.#tables.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Deletes items whose time to live is over. DynamoDB does so within days. */
  collectExpired(): void {
    for (const table of this.#tables.values()) {
      for (const item of table.expired(this.#now() / 1000)) {
        table.replace(item, undefined);
        table.stream?.add({ before: item, after: undefined, keys: table.keysOf(item), byTtl: true }, this.#now());
        this.#written.push({ table: table.shape.name, remove: table.keysOf(item), byTtl: true });
      }
    }
    this.#noteWrites();
  }

  readonly #operations: Record<string, (input: never) => Answer> = {
    CreateTable: (input: TableDefinition) => this.#createTable(input),
    DescribeTable: ({ TableName }: { TableName: string }) => ({ Table: describeTable(this.#tableNamed(TableName)) }),
    DeleteTable: ({ TableName }: { TableName: string }) => {
      const TableDescription = describeTable(this.#tableNamed(TableName), 'DELETING');
      this.#tables.delete(TableName);
      return { TableDescription };
    },
    ListTables: () => ({ TableNames: [...this.#tables.keys()].sort() }),
    UpdateTimeToLive: (input: {
      TableName: string;
      TimeToLiveSpecification: { AttributeName: string; Enabled: boolean };
    }) => {
      const { AttributeName, Enabled } = input.TimeToLiveSpecification;
      this.#tableNamed(input.TableName).ttlAttribute = Enabled ? AttributeName : undefined;
      return { TimeToLiveSpecification: input.TimeToLiveSpecification };
    },
    DescribeTimeToLive: ({ TableName }: { TableName: string }) => {
      const AttributeName = this.#tableNamed(TableName).ttlAttribute;
      return {
        TimeToLiveDescription:
          AttributeName === undefined
            ? { TimeToLiveStatus: 'DISABLED' }
            : { TimeToLiveStatus: 'ENABLED', AttributeName },
      };
    },
    GetItem: (input: Get & Reported) => this.#get(input),
    PutItem: (input: Put & Reported) => this.#write('PutItem', this.#decidePut(input), input),
    UpdateItem: (input: UpdateRequest & Reported) => this.#write('UpdateItem', this.#decideUpdate(input), input),
    DeleteItem: (input: Keyed & Reported) => this.#write('DeleteItem', this.#decideDelete(input), input),
    Query: (input: Query & Reported) => this.#find('Query', input),
    Scan: (input: Query & Reported) => this.#find('Scan', input),
    BatchGetItem: (input: BatchGet) => this.#batchGet(input),
    BatchWriteItem: (input: BatchWrite) => this.#batchWrite(input),
    TransactWriteItems: (input: Transaction) => this.#transact(input),
    ListStreams: () => ({
      Streams: [...this.#tables.values()].flatMap(({ stream, shape }) =>
        stream === undefined ? [] : [{ StreamArn: stream.arn, StreamLabel: stream.label, TableName: shape.name }],
      ),
    }),
    DescribeStream: ({ StreamArn }: { StreamArn: string }) => {
      const { stream, shape } = this.#streamed(StreamArn);
      return { StreamDescription: stream.describe(shape.name) };
    },
    GetShardIterator: (input: { StreamArn: string; ShardIteratorType: string; SequenceNumber?: string }) => {
      const { stream } = this.#streamed(input.StreamArn);
      const position = stream.positionOf(input.ShardIteratorType, input.SequenceNumber);
      return { ShardIterator: `${input.StreamArn}|${position}` };
    },
    GetRecords: ({ ShardIterator, Limit }: { ShardIterator: string; Limit?: number }) => {
      const [arn = '', position] = ShardIterator.split('|');
      const page = this.#streamed(arn).stream.read(Number(position), Limit);
      return { Records: page.records, NextShardIterator: `${arn}|${page.position}` };
    },
  };

  #tableNamed(name: string): Table {
    const table = this.#tables.get(name);
    if (table === undefined) throw noSuchTable();
    return table;
  }

  #streamed(arn: string) {
    for (const { stream, shape } of this.#tables.values()) if (stream?.arn === arn) return { stream, shape };
    throw new EngineError('ResourceNotFoundException', `Requested resource not found: Stream: ${arn} not found`);
  }

  #createTable(input: TableDefinition, now = this.#now()): Answer {
    const shape = shapeOf(input);
    if (this.#tables.has(shape.name))
      throw new EngineError('ResourceInUseException', 'Cannot create preexisting table');
    const table = new Table(shape, { now, region: this.#region });
    this.#tables.set(shape.name, table);
    return { TableDescription: describeTable(table) };
  }

  #get(input: Get & Reported): Answer {
    const table = this.#tableNamed(input.TableName);
    table.checkKey(input.Key);
    checkAliases(input);
    const item = table.get(input.Key);
    const units = readUnits([item], input.ConsistentRead === true);
    this.#onUsage({ operation: 'GetItem', table: table.shape.name, key: input.Key, units });
    return { ...(item && { Item: item }), ...consumed(input, table, units) };
  }

  #find(operation: 'Query' | 'Scan', input: Query & Reported): Answer {
    const table = this.#tableNamed(input.TableName);
    checkAliases(input);
    const { items, looked, lastKey, partition } = findItems(table, input);
    const units = readUnits(looked, input.ConsistentRead === true);
    this.#onUsage({ operation, table: table.shape.name, key: partition, units });
    return {
      Items: items,
      Count: items.length,
      ScannedCount: looked.length,
      ...(lastKey && { LastEvaluatedKey: lastKey }),
      ...consumed(input, table, units),
    };
  }

  #batchGet({ RequestItems }: BatchGet): Answer {
    const Responses: Record<string, Item[]> = {};
    const count = Object.values(RequestItems).reduce((sum, { Keys }) => sum + Keys.length, 0);
    if (count > batchReadMax) throw invalid('Too many items requested for the BatchGetItem call');
    for (const [name, { Keys, ConsistentRead }] of Object.entries(RequestItems)) {
      const table = this.#tableNamed(name);
      if (Keys.some((key, index) => Keys.slice(0, index).some((earlier) => sameItem(earlier, key))))
        throw invalid('Provided list of item keys contains duplicates');
      const found = Keys.map((key) => {
        table.checkKey(key);
        const item = table.get(key);
        const units = readUnits([item], ConsistentRead === true);
        this.#onUsage({ operation: 'BatchGetItem', table: name, key, units });
        return item;
      });
      Responses[name] = found.filter((item) => item !== undefined);
    }
    return { Responses, UnprocessedKeys: {} };
  }

  #batchWrite({ RequestItems }: BatchWrite): Answer {
    const requests = Object.entries(RequestItems).flatMap(([TableName, list]) =>
      list.map(({ PutRequest, DeleteRequest }) =>
        PutRequest === undefined
          ? this.#decideDelete({ TableName, Key: DeleteRequest?.Key ?? {} })
          : this.#decidePut({ TableName, Item: PutRequest.Item }),
      ),
    );
    if (requests.length > batchWriteMax) throw invalid('Too many items requested for the BatchWriteItem call');
    if (!areDistinct(requests)) throw invalid('Provided list of item keys contains duplicates');
    for (const decided of requests) this.#make(decided, writeUnits(decided.table, decided.before, decided.after));
    return { UnprocessedItems: {} };
  }

  #transact({ TransactItems, ClientRequestToken: token }: Transaction): Answer {
    if (TransactItems.length > transactionMax) throw invalid('Member must have length less than or equal to 100');
    if (token !== undefined && this.#tokens.has(token)) return {};
    const decided = TransactItems.map((item) => this.#decideOne(item));
    if (!areDistinct(decided)) throw invalid('Transaction request cannot include multiple operations on one item');
    if (decided.some((one) => !one.isAllowed)) {
      for (const one of decided) this.#use(one, doubled(writeUnits(one.table, one.before, one.before)));
      const CancellationReasons = decided.map((one, index) => reasonOf(one, TransactItems[index] as TransactItem));
      const codes = CancellationReasons.map(({ Code }) => Code).join(', ');
      throw new EngineError(
        'TransactionCanceledException',
        `Transaction cancelled, please refer cancellation reasons for specific reasons [${codes}]`,
        { CancellationReasons },
      );
    }
    for (const one of decided) this.#make(one, doubled(writeUnits(one.table, one.before, one.after)));
    if (token !== undefined) this.#tokens.set(token, true);
    this.#noteWrites(token);
    return {};
  }

  #decideOne({ Put, Update, Delete, ConditionCheck }: TransactItem): Decided {
    if (Put !== undefined) return this.#decidePut(Put);
    if (Update !== undefined) return this.#decideUpdate(Update);
    if (Delete !== undefined) return this.#decideDelete(Delete);
    if (ConditionCheck === undefined) throw invalid('A transaction has an item without an operation.');
    const { table, before, isAllowed } = this.#decideDelete(ConditionCheck);
    return { operation: 'ConditionCheck', table, before, after: before, isAllowed };
  }

  #decidePut(input: Put): Decided {
    const table = this.#tableNamed(input.TableName);
    checkAliases(input);
    Object.values(input.Item).forEach(checkValue);
    table.checkItem(input.Item);
    const before = table.get(input.Item);
    return { operation: 'PutItem', table, before, after: input.Item, isAllowed: isAllowed(input, before) };
  }

  #decideUpdate(input: UpdateRequest): Decided {
    const table = this.#tableNamed(input.TableName);
    checkAliases(input);
    table.checkKey(input.Key);
    const update = readUpdate(input.UpdateExpression ?? '');
    checkUpdate(update, input.ExpressionAttributeNames ?? {}, table.keyNames);
    const before = table.get(input.Key);
    if (!isAllowed(input, before)) return { operation: 'UpdateItem', table, before, after: before, isAllowed: false };
    const after = updated(update, scopeOf(input, before ?? input.Key));
    table.checkItem(after);
    return { operation: 'UpdateItem', table, before, after, isAllowed: true };
  }

  #decideDelete(input: Keyed): Decided {
    const table = this.#tableNamed(input.TableName);
    checkAliases(input);
    table.checkKey(input.Key);
    const before = table.get(input.Key);
    return { operation: 'DeleteItem', table, before, after: undefined, isAllowed: isAllowed(input, before) };
  }

  #write(operation: string, decided: Decided, input: Write & Reported): Answer {
    const { table, before, after } = decided;
    if (!decided.isAllowed) {
      this.#use({ ...decided, operation }, writeUnits(table, before, before));
      throw new EngineError('ConditionalCheckFailedException', refusedMessage, shownBy(input, before));
    }
    const units = writeUnits(table, before, after);
    this.#make(decided, units);
    const Attributes = { ALL_OLD: before, ALL_NEW: after }[input.ReturnValues ?? ''];
    return { ...(Attributes && { Attributes }), ...consumed(input, table, units) };
  }

  #make(decided: Decided, units: Units): void {
    const { table, before, after } = decided;
    this.#use(decided, units);
    if (decided.operation === 'ConditionCheck' || (before === undefined && after === undefined)) return;
    table.replace(before, after);
    const { name } = table.shape;
    this.#written.push(after === undefined ? { table: name, remove: keyOf(decided) } : { table: name, put: after });
    table.stream?.add({ before, after, keys: table.keysOf((after ?? before) as Item) }, this.#now());
  }

  #use(decided: Decided, units: Units): void {
    this.#onUsage({ operation: decided.operation, table: decided.table.shape.name, key: keyOf(decided), units });
  }
}

/** Requests that change tables, and not items. */
const tableRequests: ReadonlySet<string> = new Set(['CreateTable', 'DeleteTable', 'UpdateTimeToLive']);

const refusedMessage = 'The conditional request failed';

/** The item that a refused write shows, if its caller asked for it. */
const shownBy = (write: Write | undefined, before: Item | undefined): Answer =>
  write?.ReturnValuesOnConditionCheckFailure === 'ALL_OLD' && before ? { Item: before } : {};

const keyOf = ({ table, before, after }: Decided): Item => {
  const item = after ?? before;
  return item === undefined ? {} : table.keysOf(item);
};

/** True if no two writes are about the same item. */
const areDistinct = (writes: readonly Decided[]): boolean =>
  new Set(writes.map((one) => `${one.table.shape.name} ${JSON.stringify(keyOf(one))}`)).size === writes.length;

function reasonOf({ isAllowed, before }: Decided, item: TransactItem): Answer {
  if (isAllowed) return { Code: 'None' };
  const write = item.Put ?? item.Update ?? item.Delete ?? item.ConditionCheck;
  return { Code: 'ConditionalCheckFailed', Message: refusedMessage, ...shownBy(write, before) };
}

const consumed = ({ ReturnConsumedCapacity: which }: Reported, table: Table, units: Units): Answer =>
  which === 'TOTAL' ? { ConsumedCapacity: { TableName: table.shape.name, CapacityUnits: totalOf(units) } } : {};
