/**
 * DynamoDB with the behavior that the real service may have, between a store and an engine on this machine. Local
 * engines never throttle, never show an older version, and never leave a batch half done. This proxy does, on request
 * and at random from a seed.
 */
import { Agent, type IncomingHttpHeaders, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Chance } from '../../world/chance.ts';
import { patientServer } from '../patient-server.ts';
import { Capacity, type Used } from './capacity.ts';
import { type Fault, type FaultMatch, Faults, type Rates } from './faults.ts';
import { itemBytes, itemBytesMax, readUnits, type WireItem, writeUnits } from './item-size.ts';
import {
  type Answer,
  cancelledByConflict,
  cancelledBySize,
  conflict,
  inProgress,
  internalError,
  streamThrottled,
  type Throttled,
  throttled,
  tooLarge,
} from './refusals.ts';
import {
  type Input,
  indexFilter,
  indexView,
  isPlainWrite,
  isRead,
  isWrite,
  itemIdOf,
  keyOf,
  type Touched,
  touchedBy,
} from './requests.ts';
import { HarshStream } from './stream.ts';
import { Versions } from './versions.ts';

export interface HarshOptions {
  readonly seed?: number;
  /** How often each fault happens at random. A missing fault never happens. */
  readonly rates?: Rates;
  /** True if an item accepts at most 1,000 write units and 3,000 read units a second. */
  readonly capacity?: boolean;
  readonly staleMsMax?: number;
  readonly indexLagMsMax?: number;
  /** Milliseconds of the clock that decides how old a version is, and how many units are left. */
  readonly now?: () => number;
}

/** The header that names the operation, such as `DynamoDB_20120810.GetItem`. */
interface Asked {
  readonly service: string;
  readonly operation: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A page of a query ends at one megabyte. With so few items, every list is longer than a page. */
const shortQueryMax = 3;

export class HarshDynamoDB {
  readonly #engine: string;
  readonly #server: Server;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });
  readonly #chance: Chance;
  readonly #faults: Faults;
  readonly #now: () => number;
  readonly #versions: Versions;
  readonly #capacity: Capacity | undefined;
  readonly #streams = new Map<string, HarshStream>();
  /** Writes to one item run one after the other, as in the real service, so that each version is known. */
  readonly #turns = new Map<string, Promise<unknown>>();
  /** The tokens of all transactions so far. True if a repeat was already told that the first one is in progress. */
  readonly #tokens = new Map<string, boolean>();
  readonly #staleMsMax: number;
  readonly #indexLagMsMax: number;

  private constructor(engine: string, options: HarshOptions) {
    const { seed = 1, rates = {}, capacity = false, staleMsMax = 1_000, indexLagMsMax = 3_000 } = options;
    const { now = () => performance.now() } = options;
    this.#now = now;
    this.#versions = new Versions(now);
    this.#engine = engine;
    this.#chance = new Chance(seed);
    this.#faults = new Faults(this.#chance.branch(), rates);
    this.#capacity = capacity ? new Capacity(now) : undefined;
    this.#staleMsMax = staleMsMax;
    this.#indexLagMsMax = indexLagMsMax;
    this.#server = patientServer((incoming, outgoing) => {
      void incoming.toArray().then(
        (chunks) => {
          const [service = '', operation = ''] = String(incoming.headers['x-amz-target'] ?? '').split('.');
          const body = Buffer.concat(chunks).toString();
          return this.#serve({ service, operation, headers: incoming.headers, body }, outgoing);
        },
        // The client gave up before it had sent everything.
        () => outgoing.destroy(),
      );
    });
  }

  static async start(engine: string, options: HarshOptions = {}): Promise<HarshDynamoDB> {
    const harsh = new HarshDynamoDB(engine, options);
    await new Promise<void>((resolve) => {
      harsh.#server.listen(0, '127.0.0.1', resolve);
    });
    return harsh;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How often each fault has happened. */
  get counts(): ReadonlyMap<Fault, number> {
    return this.#faults.counts;
  }

  /** How many requests were throttled because the units of an item were used up. */
  get throttledByUnits(): number {
    return this.#capacity?.throttled ?? 0;
  }

  /** The next matching request gets this fault. */
  order(fault: Fault, match?: FaultMatch): void {
    this.#faults.order(fault, match);
  }

  forgetOrders(): void {
    this.#faults.forgetOrders();
  }

  /** If true, only ordered faults happen. If false, random ones happen again. */
  calm(isCalm: boolean): void {
    this.#faults.calm = isCalm;
  }

  /** The units that one item has used so far. */
  unitsOf(table: string, key: { readonly pk: string; readonly sk: string }): Used {
    const itemId = itemIdOf(table, { pk: { S: key.pk }, sk: { S: key.sk } });
    return this.#capacity?.usedBy(itemId) ?? { write: 0, read: 0, throttled: 0 };
  }

  /** Closes every open shard of a stream. New shards follow. */
  splitShards(streamArn: string): void {
    this.#streams.get(streamArn)?.splitAll();
  }

  async stop(): Promise<void> {
    this.#agent.destroy();
    this.#server.closeAllConnections();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  async #serve(asked: Asked, outgoing: ServerResponse): Promise<void> {
    try {
      const answer = await this.#answer(asked);
      await this.#send(asked, answer, outgoing);
    } catch {
      // The engine can't be reached, so the proxy can't be either.
      outgoing.destroy();
    }
  }

  async #answer(asked: Asked): Promise<Answer> {
    const { service, operation, body } = asked;
    const input = body === '' ? {} : JSON.parse(body);
    if (service.startsWith('DynamoDBStreams')) return this.#streamed(asked, input);
    if (!isWrite(operation) && !isRead(operation)) return this.#ask(asked, input);
    return this.#refusalOf(asked, input) ?? (isWrite(operation) ? this.#write(asked, input) : this.#read(asked, input));
  }

  #streamed(asked: Asked, input: Input): Promise<Answer> {
    const { service, headers } = asked;
    if (asked.operation === 'ListStreams') return this.#ask(asked, input);
    if (this.#faults.happens('throttle', asked.operation, asked.body)) return Promise.resolve(streamThrottled);
    if (this.#faults.happens('error-before', asked.operation, asked.body)) return Promise.resolve(internalError);
    const arn: string = input.StreamArn ?? this.#arnOf(input.ShardIterator);
    const known = this.#streams.get(arn);
    const stream =
      known ??
      new HarshStream(
        arn,
        (operation, body) => this.#ask({ service, operation, headers }, body),
        this.#faults,
        this.#chance.branch(),
        () => performance.now(),
      );
    this.#streams.set(arn, stream);
    return this.#withArn(arn, stream.answer(asked.operation, { ...input, ShardIterator: bare(input.ShardIterator) }));
  }

  /** Remembers which stream an iterator belongs to. */
  async #withArn(arn: string, answering: Promise<Answer>): Promise<Answer> {
    const { status, body } = await answering;
    const named = Object.entries(body).map(([name, value]) =>
      name.endsWith('ShardIterator') ? [name, `${Buffer.from(arn).toString('base64url')}.${value}`] : [name, value],
    );
    return { status, body: Object.fromEntries(named) };
  }

  #arnOf(iterator: string): string {
    return Buffer.from(iterator.split('.')[0] ?? '', 'base64url').toString();
  }

  /** Refusals that happen before the request is executed. */
  #refusalOf({ operation, body }: Asked, input: Input): Answer | undefined {
    if (this.#faults.happens('throttle', operation, body)) return this.#throttled(operation, input, { byKey: false });
    if (this.#faults.happens('error-before', operation, body)) return internalError;
    if (operation === 'TransactWriteItems') return this.#cancellationOf(body, input);
    if (isPlainWrite(operation) && this.#faults.happens('conflict', operation, body)) return conflict;
    return undefined;
  }

  #cancellationOf(body: string, { TransactItems, ClientRequestToken: token }: Input): Answer | undefined {
    const operation = 'TransactWriteItems';
    const isTold = this.#tokens.get(token);
    this.#tokens.set(token, isTold ?? false);
    // A transaction lasts milliseconds. When it is repeated once more, it is done.
    if (isTold === false && this.#faults.happens('in-progress', operation, body)) {
      this.#tokens.set(token, true);
      return inProgress;
    }
    if (!this.#faults.happens('conflict', operation, body)) return undefined;
    return cancelledByConflict(TransactItems.length, this.#chance.between(0, TransactItems.length - 1));
  }

  #throttled(operation: string, input: Input, { byKey }: Pick<Throttled, 'byKey'>): Answer {
    const kind = isWrite(operation) ? 'write' : 'read';
    return throttled({ kind, byKey, index: input.IndexName, items: input.TransactItems?.length }, this.#chance);
  }

  async #read(asked: Asked, input: Input): Promise<Answer> {
    if (asked.operation === 'GetItem') return this.#get(asked, input);
    if (asked.operation === 'BatchGetItem') return this.#getBatch(asked, input);
    return this.#query(asked, input);
  }

  async #get(asked: Asked, input: Input): Promise<Answer> {
    const itemId = itemIdOf(input.TableName, input.Key);
    if (this.#isUsedUp('read', itemId, 1)) return this.#throttled(asked.operation, input, { byKey: true });
    const answer = await this.#ask(asked, input);
    const consistent = input.ConsistentRead === true;
    this.#capacity?.use('read', itemId, readUnits(bytesOf(answer.body.Item), consistent));
    if (consistent || !this.#faults.happens('stale-read', asked.operation, asked.body)) return answer;
    const Item = this.#versions.at(itemId, this.#staleInstant(), answer.body.Item);
    return { status: answer.status, body: Item === undefined ? {} : { Item } };
  }

  async #getBatch(asked: Asked, input: Input): Promise<Answer> {
    const [[table, request]] = Object.entries(input.RequestItems as Record<string, Input>) as [[string, Input]];
    const keys: WireItem[] = request.Keys;
    const isPartial = keys.length > 1 && this.#faults.happens('unprocessed', asked.operation, asked.body);
    // The service does at least one of them, or refuses the whole batch.
    const [wanted, late] = isPartial ? this.#parted(keys) : [keys, []];
    const busy = wanted.filter((key) => this.#isUsedUp('read', itemIdOf(table, key), 1));
    const done = wanted.filter((key) => !busy.includes(key));
    if (done.length === 0) return this.#throttled(asked.operation, input, { byKey: true });
    const left = [...busy, ...late];
    const answer = await this.#ask(asked, { RequestItems: { [table]: { ...request, Keys: done } } });
    if (answer.status !== 200) return answer;
    let found: WireItem[] = answer.body.Responses?.[table] ?? [];
    const consistent = request.ConsistentRead === true;
    const sizes = new Map(found.map((item) => [itemIdOf(table, item), itemBytes(item)]));
    for (const itemId of done.map((key) => itemIdOf(table, key)))
      this.#capacity?.use('read', itemId, readUnits(sizes.get(itemId) ?? 0, consistent));
    if (!consistent && this.#faults.happens('stale-read', asked.operation, asked.body)) {
      const instant = this.#staleInstant();
      const now = new Map(found.map((item) => [itemIdOf(table, item), item]));
      const then = (key: WireItem) => this.#versions.at(itemIdOf(table, key), instant, now.get(itemIdOf(table, key)));
      found = done.map(then).filter((item) => item !== undefined);
    }
    const unread = left.length === 0 ? {} : { [table]: { ...request, Keys: left } };
    // In random order, because the service promises none.
    return { status: 200, body: { Responses: { [table]: found.toReversed() }, UnprocessedKeys: unread } };
  }

  async #query(asked: Asked, input: Input): Promise<Answer> {
    const isShort = this.#faults.happens('short-query', asked.operation, asked.body);
    const Limit = Math.min(input.Limit ?? Number.POSITIVE_INFINITY, this.#chance.between(1, shortQueryMax));
    const answer = await this.#ask(asked, isShort ? { ...input, Limit } : input);
    if (answer.status !== 200) return answer;
    const items: WireItem[] = answer.body.Items ?? [];
    const table: string = input.TableName;
    // The units of an index are its own.
    if (input.IndexName === undefined) {
      const ids = items.map((item) => itemIdOf(table, item));
      if (ids.some((itemId) => this.#isUsedUp('read', itemId, 1)))
        return this.#throttled(asked.operation, input, { byKey: true });
      // A query is billed for all that it reads together.
      const units = readUnits(
        items.reduce((sum, item) => sum + itemBytes(item), 0),
        input.ConsistentRead === true,
      );
      for (const itemId of ids) this.#capacity?.use('read', itemId, units / ids.length);
    }
    if (input.ConsistentRead === true) return answer;
    if (input.IndexName !== undefined)
      return this.#faults.happens('index-lag', asked.operation, asked.body) ? this.#lagging(input, answer) : answer;
    if (!this.#faults.happens('stale-read', asked.operation, asked.body)) return answer;
    const instant = this.#staleInstant();
    const Items = this.#asOf(instant, table, items);
    return { status: 200, body: { ...answer.body, Items } };
  }

  /**
   * What the index had a while ago. From a list of several pages, entries are only left out: a later query shows them.
   */
  #lagging(input: Input, answer: Answer): Answer {
    const matches = indexFilter(input);
    if (matches === undefined) return answer;
    const instant = this.#now() - this.#chance.between(1, this.#indexLagMsMax);
    const table: string = input.TableName;
    const now: WireItem[] = answer.body.Items ?? [];
    const ids = new Set(now.map((item) => itemIdOf(table, item)));
    const before = [...this.#versions.all(`${table} `, instant)].filter(matches);
    const isOnePage = input.ExclusiveStartKey === undefined && answer.body.LastEvaluatedKey === undefined;
    const gone = isOnePage ? before.filter((item) => !ids.has(itemIdOf(table, item))) : [];
    const still = this.#asOf(instant, table, now).filter(matches);
    const Items = indexView(input, [...still, ...gone]).slice(0, input.Limit ?? Number.POSITIVE_INFINITY);
    const isCut = still.length + gone.length > Items.length;
    return isCut ? answer : { status: 200, body: { ...answer.body, Items, Count: Items.length } };
  }

  /** The same items as they were then, without those that did not exist yet. */
  #asOf(instant: number, table: string, items: readonly WireItem[]): WireItem[] {
    return items
      .map((item) => this.#versions.at(itemIdOf(table, item), instant, item))
      .filter((item) => item !== undefined);
  }

  async #write(asked: Asked, input: Input): Promise<Answer> {
    const touched = touchedBy(asked.operation, input);
    const ids = touched.map(({ table, key }) => itemIdOf(table, key)).sort();
    return this.#inTurn(ids, async () => {
      for (const item of touched) await this.#learn(asked, item);
      if (touched.some(({ next }) => typeof next === 'object' && itemBytes(next) > itemBytesMax)) return tooLarge;
      if (asked.operation === 'BatchWriteItem') return this.#putBatch(asked, input);
      const factor = asked.operation === 'TransactWriteItems' ? 2 : 1;
      if (touched.some((item) => this.#isUsedUp('write', idOf(item), factor * this.#unitsOf(item))))
        return this.#throttled(asked.operation, input, { byKey: true });
      const answer = await this.#put(asked, input, touched);
      for (const item of touched) this.#capacity?.use('write', idOf(item), factor * this.#unitsOf(item));
      return answer;
    });
  }

  async #put(asked: Asked, input: Input, touched: readonly Touched[]): Promise<Answer> {
    const { operation, body } = asked;
    const asksNew = operation === 'UpdateItem';
    const answer = await this.#ask(asked, asksNew ? { ...input, ReturnValues: 'ALL_NEW' } : input);
    if (answer.status === 200) {
      const told = asksNew ? (answer.body.Attributes as WireItem) : undefined;
      const after = await Promise.all(touched.map((item) => this.#after(asked, item, told)));
      const large = after.findIndex((item) => bytesOf(item) > itemBytesMax);
      if (large >= 0) {
        for (const item of touched) await this.#restore(asked, item);
        return touched.length === 1 ? tooLarge : cancelledBySize(touched.length, large);
      }
      for (const [index, item] of touched.entries())
        if (item.next !== 'unchanged') this.#versions.remember(idOf(item), after[index]);
    }
    if (this.#faults.happens('error-after', operation, body)) return internalError;
    if (!asksNew || answer.status !== 200 || input.ReturnValues === 'ALL_NEW') return answer;
    return { status: 200, body: {} };
  }

  async #putBatch(asked: Asked, input: Input): Promise<Answer> {
    const [[table, requests]] = Object.entries(input.RequestItems as Record<string, Input[]>) as [[string, Input[]]];
    const isPartial = requests.length > 1 && this.#faults.happens('unprocessed', asked.operation, asked.body);
    const [wanted, late] = isPartial ? this.#parted(requests) : [requests, []];
    const touchedIn = (these: readonly Input[]) => touchedBy(asked.operation, { RequestItems: { [table]: these } });
    const isBusy = (request: Input) =>
      touchedIn([request]).some((item) => this.#isUsedUp('write', idOf(item), this.#unitsOf(item)));
    const busy = wanted.filter(isBusy);
    const done = wanted.filter((request) => !busy.includes(request));
    if (done.length === 0) return this.#throttled(asked.operation, input, { byKey: true });
    const answer = await this.#ask(asked, { RequestItems: { [table]: done } });
    if (answer.status !== 200) return answer;
    for (const item of touchedIn(done)) {
      this.#capacity?.use('write', idOf(item), this.#unitsOf(item));
      this.#versions.remember(idOf(item), await this.#after(asked, item, undefined));
    }
    const left = [...busy, ...late];
    if (this.#faults.happens('error-after', asked.operation, asked.body)) return internalError;
    return { status: 200, body: { UnprocessedItems: left.length === 0 ? {} : { [table]: left } } };
  }

  /** Reads the item before the first write that passes through here. */
  async #learn(asked: Asked, { table, key }: Touched): Promise<void> {
    const itemId = itemIdOf(table, key);
    if (!this.#versions.knows(itemId)) this.#versions.remember(itemId, await this.#look(asked, table, key));
  }

  /** The item after the write. `told` is what the engine said about it. */
  async #after(asked: Asked, { table, key, next }: Touched, told: WireItem | undefined): Promise<WireItem | undefined> {
    if (next === 'absent') return undefined;
    if (next === 'unchanged') return this.#versions.latest(itemIdOf(table, key));
    return next === 'unknown' ? (told ?? this.#look(asked, table, key)) : next;
  }

  async #look(asked: Asked, TableName: string, key: WireItem): Promise<WireItem | undefined> {
    const input = { TableName, Key: keyOf(key), ConsistentRead: true };
    return (await this.#ask({ ...asked, operation: 'GetItem' }, input)).body.Item;
  }

  /** If the engine accepted a write that DynamoDB would refuse, this undoes it. */
  async #restore(asked: Asked, { table, key }: Touched): Promise<void> {
    const before = this.#versions.latest(itemIdOf(table, key));
    const [operation, what] =
      before === undefined ? ['DeleteItem', { Key: keyOf(key) }] : ['PutItem', { Item: before }];
    await this.#ask({ ...asked, operation: operation as string }, { TableName: table, ...(what as object) });
  }

  /** What a write to this item costs. The larger item counts, before or after it. */
  #unitsOf(item: Touched): number {
    const { next } = item;
    const after = typeof next === 'object' ? itemBytes(next) : 0;
    return writeUnits(Math.max(after, bytesOf(this.#versions.latest(idOf(item)))));
  }

  #isUsedUp(kind: 'read' | 'write', itemId: string, units: number): boolean {
    return this.#capacity !== undefined && !this.#capacity.allows(kind, itemId, units);
  }

  #staleInstant(): number {
    return this.#now() - this.#chance.between(1, this.#staleMsMax);
  }

  #parted<T>(all: readonly T[]): [T[], T[]] {
    const cut = this.#chance.between(1, all.length - 1);
    return [all.slice(0, cut), all.slice(cut)];
  }

  /** Waits for all earlier writes to these items. */
  async #inTurn<T>(ids: readonly string[], work: () => Promise<T>): Promise<T> {
    const before = ids.map((itemId) => this.#turns.get(itemId));
    const done = Promise.allSettled(before).then(work);
    for (const itemId of ids) this.#turns.set(itemId, done);
    try {
      return await done;
    } finally {
      for (const itemId of ids) if (this.#turns.get(itemId) === done) this.#turns.delete(itemId);
    }
  }

  #ask(
    { service, operation, headers }: Pick<Asked, 'service' | 'operation' | 'headers'>,
    input: object,
  ): Promise<Answer> {
    const body = JSON.stringify(input);
    const { host: _host, connection: _connection, ...rest } = headers;
    const sent = request(this.#engine, {
      method: 'POST',
      agent: this.#agent,
      headers: { ...rest, 'x-amz-target': `${service}.${operation}`, 'content-length': Buffer.byteLength(body) },
    });
    return new Promise((resolve, reject) => {
      sent.once('error', reject);
      sent.once('response', (response) => {
        response.toArray().then((chunks) => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: response.statusCode ?? 500, body: text === '' ? {} : JSON.parse(text) });
        }, reject);
      });
      sent.end(body);
    });
  }

  async #send({ operation, body }: Asked, answer: Answer, outgoing: ServerResponse): Promise<void> {
    const bytes = Buffer.from(JSON.stringify(answer.body));
    const isCut = this.#faults.happens('cut-after', operation, body);
    if (isCut && this.#chance.happens(0.5)) {
      outgoing.destroy();
      return;
    }
    outgoing.writeHead(answer.status, {
      'content-type': 'application/x-amz-json-1.0',
      'content-length': String(bytes.length),
      'x-amzn-requestid': `HARSH${this.#chance.between(0, 1e9)}`,
    });
    if (isCut) {
      outgoing.write(bytes.subarray(0, this.#chance.between(0, bytes.length - 1)), () => outgoing.destroy());
      return;
    }
    if (!this.#faults.happens('split-answer', operation, body)) {
      outgoing.end(bytes);
      return;
    }
    outgoing.socket?.setNoDelay(true);
    for (const piece of piecesOf(bytes, this.#chance)) {
      outgoing.write(piece);
      // Without a pause, the pieces would arrive as one.
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    outgoing.end();
  }
}

/** A few pieces. One cut is inside the first character of more than one byte, if there is one. */
function piecesOf(bytes: Buffer, chance: Chance): Buffer[] {
  const wide = bytes.findIndex((byte) => byte >= 0xc0);
  const cuts = [wide < 0 ? 1 : wide + 1, chance.between(0, bytes.length), chance.between(0, bytes.length)];
  const edges = [0, ...cuts.sort((one, other) => one - other), bytes.length];
  return edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
}

const idOf = ({ table, key }: Touched): string => itemIdOf(table, key);
const bytesOf = (item: WireItem | undefined): number => (item === undefined ? 0 : itemBytes(item));
const bare = (iterator: string | undefined): string | undefined => iterator?.split('.')[1];
