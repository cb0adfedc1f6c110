/**
 * A DynamoDB in memory: the part of it that Holdfast uses, with its conditions, indexes, transactions, units and
 * stream. Everything is lost when the process ends, unless a journal keeps it (journal.ts).
 *
 * Requests, answers and stored items share their parts. So a caller must not change what it sent or got: see `Value`.
 */
import { BoundedMap } from '../tools/collections.ts';
import { type Change, type StreamLimits, type StreamState, streamLimitsDefault } from './change-stream.ts';
import { EngineError, invalid, refusal } from './errors.ts';
import { findItems } from './query.ts';
import type {
  BatchGet,
  BatchWrite,
  Get,
  Keyed,
  Put,
  Query,
  TransactItem,
  Transaction,
  UpdateRequest,
  Write,
} from './requests.ts';
import { noSuchTable, Table } from './table.ts';
import { describeTable, shapeOf, type TableDefinition } from './table-definition.ts';
import { doubled, readUnits, totalOf, type Units, writeUnits } from './units.ts';
import { type Item, sameItem } from './values.ts';
import { type Decided, type Prepared, prepareCheck, prepareDelete, preparePut, prepareUpdate } from './writes.ts';

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
  /**
   * Called for each change that DynamoDB would write to a stream, in order and in the same step as the write: after the
   * whole request is done, and before its caller has the answer.
   */
  readonly onChange?: (change: Change) => void;
  readonly streamLimits?: Partial<StreamLimits>;
}

/** One step of the engine's history, as the journal keeps it. */
export type Entry =
  /** A request about a table, with the time at which it was made. */
  | { readonly at: number; readonly request: string; readonly input: unknown }
  /** The changes of one request. All of them were made together. Their old images are not kept. */
  | { readonly changes: readonly Kept[]; readonly token?: string }
  /** An item that a snapshot found. It leaves no record in the stream. */
  | { readonly table: string; readonly item: Item }
  | { readonly table: string; readonly stream: StreamState };

type Kept = Omit<Change, 'before'>;

export type Answer = Readonly<Record<string, unknown>>;
type Reported = { readonly ReturnConsumedCapacity?: string };

/** DynamoDB's own limits. */
const batchReadMax = 100;
const batchWriteMax = 25;
const transactionMax = 100;
/** DynamoDB recognizes a transaction by its token for ten minutes. Fewer transactions than this come in that time. */
const tokensKeptMax = 10_000;

export class MemoryEngine {
  readonly #now: () => number;
  readonly #region: string;
  readonly #onUsage: ((usage: Usage) => void) | undefined;
  readonly #onChange: ((change: Change) => void) | undefined;
  readonly #streamLimits: StreamLimits;
  readonly #tables = new Map<string, Table>();
  readonly #tokens = new BoundedMap<string, true>(tokensKeptMax);

  /** The number of the latest change. */
  #changes = 0;
  /** Changes of this step that nobody was told of yet. */
  #untold: Change[] = [];
  /** Called after each request that changed something. */
  onEntry: ((entry: Entry) => void) | undefined;

  constructor({ now = Date.now, region = 'us-east-1', onUsage, onChange, streamLimits }: EngineOptions = {}) {
    this.#now = now;
    this.#region = region;
    this.#onUsage = onUsage;
    this.#onChange = onChange;
    this.#streamLimits = { ...streamLimitsDefault, ...streamLimits };
  }

  /** Runs one request to its end, with nothing in between. Throws an `EngineError`. */
  call(operation: string, input: unknown): Answer {
    const operate = this.#operations.get(operation);
    if (operate === undefined)
      throw new EngineError('UnknownOperationException', `There is no operation ${operation} here.`);
    const answer = operate(input as never);
    if (tableRequests.has(operation)) this.onEntry?.({ at: this.#now(), request: operation, input });
    this.#tell((input as Partial<Transaction> | undefined)?.ClientRequestToken);
    return answer;
  }

  /** Does again what an entry says, without telling anybody. */
  restore(entry: Entry): void {
    if ('item' in entry) this.#tableNamed(entry.table).replace(undefined, entry.item);
    else if ('stream' in entry) this.#restoreStream(this.#tableNamed(entry.table), entry.stream);
    else if ('request' in entry) this.#restoreRequest(entry);
    else {
      for (const change of entry.changes) this.#restoreChange(change);
      if (entry.token !== undefined) this.#tokens.set(entry.token, true);
    }
  }

  #restoreRequest({ at, request, input }: Extract<Entry, { request: string }>): void {
    // A table's stream is named by the time of its creation, and readers remember that name.
    if (request === 'CreateTable') this.#createTable(input as TableDefinition, at);
    else this.#operations.get(request)?.(input as never);
  }

  #restoreStream(table: Table, state: StreamState): void {
    table.stream?.restore(state);
    this.#changes = Math.max(this.#changes, state.latest);
  }

  #restoreChange(kept: Kept): void {
    const table = this.#tableNamed(kept.table);
    const before = table.get(kept.keys);
    const { after } = kept;
    table.replace(before, after);
    table.stream?.add({ ...kept, before, after });
    this.#changes = kept.number;
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
      for (const item of table.expired(this.#now() / 1000)) this.#replace(table, item, undefined, true);
    }
    this.#tell();
  }

  /** A map, because an object would have inherited names, such as `toString`. */
  readonly #operations = new Map<string, (input: never) => Answer>(
    Object.entries({
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
      PutItem: (input: Put & Reported) => this.#write(this.#prepare({ Put: input }), input),
      UpdateItem: (input: UpdateRequest & Reported) => this.#write(this.#prepare({ Update: input }), input),
      DeleteItem: (input: Keyed & Reported) => this.#write(this.#prepare({ Delete: input }), input),
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
    }),
  );

  #tableNamed(name: string): Table {
    const table = this.#tables.get(name);
    if (table === undefined) throw noSuchTable();
    return table;
  }

  #streamed(arn: string) {
    for (const { stream, shape } of this.#tables.values()) if (stream?.arn === arn) return { stream, shape };
    throw new EngineError('ResourceNotFoundException', `Requested resource not found: Stream: ${arn} not found`);
  }

  #createTable(input: TableDefinition, createdAt = this.#now()): Answer {
    const shape = shapeOf(input);
    if (this.#tables.has(shape.name))
      throw new EngineError('ResourceInUseException', 'Cannot create preexisting table');
    const table = new Table(shape, {
      createdAt,
      region: this.#region,
      limits: this.#streamLimits,
    });
    this.#tables.set(shape.name, table);
    return { TableDescription: describeTable(table) };
  }

  #get(input: Get & Reported): Answer {
    const table = this.#tableNamed(input.TableName);
    table.checkKey(input.Key);
    const item = table.get(input.Key);
    const units = this.#used('GetItem', table, input, () => ({
      key: input.Key,
      units: readUnits([item], input.ConsistentRead === true),
    }));
    return { ...(item && { Item: item }), ...units };
  }

  #find(operation: 'Query' | 'Scan', input: Query & Reported): Answer {
    const table = this.#tableNamed(input.TableName);
    const { items, looked, lastKey, partition } = findItems(table, input);
    const units = this.#used(operation, table, input, () => ({
      key: partition,
      units: readUnits(looked, input.ConsistentRead === true),
    }));
    return {
      Items: items,
      Count: items.length,
      ScannedCount: looked.length,
      ...(lastKey && { LastEvaluatedKey: lastKey }),
      ...units,
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
        this.#used('BatchGetItem', table, {}, () => ({ key, units: readUnits([item], ConsistentRead === true) }));
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
          ? this.#prepare({ Delete: { TableName, Key: DeleteRequest?.Key ?? {} } })
          : this.#prepare({ Put: { TableName, Item: PutRequest.Item } }),
      ),
    );
    if (requests.length > batchWriteMax) throw invalid('Too many items requested for the BatchWriteItem call');
    if (!areDistinct(requests)) throw invalid('Provided list of item keys contains duplicates');
    const decided = requests.map((prepared) => prepared.decide());
    for (const one of decided) this.#make(one);
    return { UnprocessedItems: {} };
  }

  #transact({ TransactItems, ClientRequestToken: token }: Transaction): Answer {
    if (TransactItems.length > transactionMax) throw invalid('Member must have length less than or equal to 100');
    if (token !== undefined && this.#tokens.has(token)) return {};
    const prepared = TransactItems.map((item) => this.#prepare(item));
    if (!areDistinct(prepared)) throw invalid('Transaction request cannot include multiple operations on one item');
    const decided = prepared.map(decideOrError);
    if (decided.some((one) => one instanceof EngineError || !one.isAllowed)) {
      for (const one of decided)
        if (!(one instanceof EngineError)) this.#useWrite({ ...one, after: one.before }, {}, doubled);
      throw cancelled(decided, TransactItems);
    }
    for (const one of decided as readonly Decided[]) this.#make(one, {}, doubled);
    if (token !== undefined) this.#tokens.set(token, true);
    return {};
  }

  #prepare({ Put, Update, Delete, ConditionCheck }: TransactItem): Prepared {
    if (Put !== undefined) return preparePut(this.#tableNamed(Put.TableName), Put);
    if (Update !== undefined) return prepareUpdate(this.#tableNamed(Update.TableName), Update);
    if (Delete !== undefined) return prepareDelete(this.#tableNamed(Delete.TableName), Delete);
    if (ConditionCheck === undefined) throw invalid('A transaction has an item without an operation.');
    return prepareCheck(this.#tableNamed(ConditionCheck.TableName), ConditionCheck);
  }

  #write(prepared: Prepared, input: Write & Reported): Answer {
    const decided = prepared.decide();
    const { before, after } = decided;
    if (!decided.isAllowed) {
      this.#useWrite({ ...decided, after: before }, {});
      throw refusal('ConditionalCheckFailedException', refusedMessage, shownBy(input, before));
    }
    const units = this.#make(decided, input);
    const Attributes = input.ReturnValues === 'ALL_NEW' ? after : input.ReturnValues === 'ALL_OLD' ? before : undefined;
    return { ...(Attributes && { Attributes }), ...units };
  }

  /** Makes a write that is decided. */
  #make(decided: Decided, reported: Reported = {}, times?: typeof doubled): Answer | undefined {
    const { table, before, after } = decided;
    const units = this.#useWrite(decided, reported, times);
    if (decided.operation !== 'ConditionCheck') this.#replace(table, before, after, false);
    return units;
  }

  /** As in DynamoDB, a write that changes nothing is no change. */
  #replace(table: Table, before: Item | undefined, after: Item | undefined, byTtl: boolean): void {
    if (before === undefined ? after === undefined : after !== undefined && sameItem(before, after)) return;
    table.replace(before, after);
    if (table.stream === undefined && this.#onChange === undefined && this.onEntry === undefined) return;
    this.#changes += 1;
    const keys = table.keysOf((after ?? before) as Item);
    const changedAt = this.#now();
    const change = { table: table.shape.name, keys, before, after, byTtl, number: this.#changes, changedAt };
    table.stream?.add(change);
    if (this.#onChange !== undefined || this.onEntry !== undefined) this.#untold.push(change);
  }

  #tell(token?: string): void {
    if (this.#untold.length === 0) return;
    // The listener may call the engine, which then tells of its own changes.
    const told = this.#untold;
    this.#untold = [];
    this.onEntry?.({
      changes: told.map(({ before: _, ...kept }) => kept),
      ...(token === undefined ? {} : { token }),
    });
    for (const change of told) this.#onChange?.(change);
  }

  #useWrite(decided: Decided, reported: Reported, times = (units: Units) => units): Answer | undefined {
    return this.#used(decided.operation, decided.table, reported, () => ({
      key: decided.table.keysOf(decided.key),
      units: times(writeUnits(decided.table, decided.before, decided.after)),
    }));
  }

  /** Measures what a request used, if anybody wants to know. */
  #used(
    operation: string,
    table: Table,
    { ReturnConsumedCapacity: which = 'NONE' }: Reported,
    measure: () => Pick<Usage, 'key' | 'units'>,
  ): Answer | undefined {
    if (this.#onUsage === undefined && which === 'NONE') return undefined;
    const { key, units } = measure();
    this.#onUsage?.({ operation, table: table.shape.name, key, units });
    if (which === 'NONE') return undefined;
    return { ConsumedCapacity: { TableName: table.shape.name, CapacityUnits: totalOf(units) } };
  }
}

/** Requests that change tables, and not items. */
const tableRequests: ReadonlySet<string> = new Set(['CreateTable', 'DeleteTable', 'UpdateTimeToLive']);

const refusedMessage = 'The conditional request failed';

/** The item that a refused write shows, if its caller asked for it. */
const shownBy = (write: Write | undefined, before: Item | undefined): Answer =>
  write?.ReturnValuesOnConditionCheckFailure === 'ALL_OLD' && before ? { Item: before } : {};

/** True if no two writes are about the same item. */
const areDistinct = (writes: readonly Prepared[]): boolean =>
  new Set(writes.map(({ table, key }) => `${table.shape.name} ${table.idOf(key)}`)).size === writes.length;

/** In a transaction, a write that is wrong for its item is a reason to cancel. */
function decideOrError(prepared: Prepared): Decided | EngineError {
  try {
    return prepared.decide();
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
}

function cancelled(decided: readonly (Decided | EngineError)[], items: readonly TransactItem[]): EngineError {
  const CancellationReasons = decided.map((one, index) => reasonOf(one, items[index] as TransactItem));
  const codes = CancellationReasons.map(({ Code }) => Code).join(', ');
  return refusal(
    'TransactionCanceledException',
    `Transaction cancelled, please refer cancellation reasons for specific reasons [${codes}]`,
    { CancellationReasons },
  );
}

function reasonOf(one: Decided | EngineError, item: TransactItem): Answer {
  if (one instanceof EngineError) return { Code: 'ValidationError', Message: one.message };
  if (one.isAllowed) return { Code: 'None' };
  const write = item.Put ?? item.Update ?? item.Delete ?? item.ConditionCheck;
  return { Code: 'ConditionalCheckFailed', Message: refusedMessage, ...shownBy(write, one.before) };
}
