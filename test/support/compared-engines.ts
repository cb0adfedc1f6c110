/** Asks the built-in engine and another one the same, and compares all that a caller can see. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { MemoryEngine } from '../../src/engine/engine.ts';
import type { EngineError } from '../../src/engine/errors.ts';
import { spelled } from '../../src/engine/numbers.ts';
import type { Item } from '../../src/engine/values.ts';
import { definition, inPartition, type Request, TableName } from './engine-cases.ts';

type Json = Readonly<Record<string, unknown>>;
type Call = (operation: string, input: Json) => Promise<Json>;

/** What a caller sees of one request. Messages are for people, and differ. */
type Outcome = { readonly answer: unknown; readonly units?: number | undefined } | { readonly refusal: unknown };

const streamOperations = new Set(['ListStreams', 'DescribeStream', 'GetShardIterator', 'GetRecords']);

/** A signature that no local engine checks. */
const authorization =
  'AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none';

/** DynamoDB's protocol without an SDK, which would check and change some requests before it sends them. */
export function callsTo(endpoint: string): Call {
  return async (operation, input) => {
    const service = streamOperations.has(operation) ? 'DynamoDBStreams' : 'DynamoDB';
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: {
        authorization,
        'x-amz-date': '20260101T000000Z',
        'content-type': 'application/x-amz-json-1.0',
        'x-amz-target': `${service}_20120810.${operation}`,
      },
      body: JSON.stringify(input),
    });
    const body = (await response.json()) as Json;
    if (response.ok) return body;
    const { __type: type, ...more } = body;
    throw Object.assign(new Error(String(body.message ?? body.Message)), {
      name: String(type).split('#').at(-1),
      more,
    });
  };
}

const sorted = (members: readonly unknown[]): unknown[] => members.map((member) => JSON.stringify(member)).sort();

/**
 * Members of an object, of a set and of a batch have no order. DynamoDB Local reports units that nobody asked for, and
 * keeps the spelling of numbers inside lists and maps (`1.0`), where DynamoDB has one spelling.
 */
const tidy = (answer: unknown): unknown =>
  JSON.parse(JSON.stringify(answer ?? null), (name, content) => {
    if (name === 'ConsumedCapacity') return undefined;
    if (name === 'N' && typeof content === 'string') return spelled(content);
    if (name === 'SS' || name === 'NS' || name === TableName) return sorted(content as unknown[]);
    if (typeof content !== 'object' || content === null || Array.isArray(content)) return content;
    return Object.fromEntries(Object.entries(content).sort(([one], [other]) => (one < other ? -1 : 1)));
  });

/** Items with the same sort key have no order in an index, so a page of them may have one or the other. */
function tidyIndex({ Items, LastEvaluatedKey, ...answer }: Json, { IndexName, Limit }: Json): unknown {
  const items = Items as Json[];
  const order = IndexName === 'by-g' ? items.map(({ h }) => tidy({ h })) : undefined;
  return {
    ...answer,
    order,
    isMore: LastEvaluatedKey !== undefined,
    ...(Limit === undefined && { items: sorted(items.map(tidy)) }),
  };
}

const singleWrites = new Set(['PutItem', 'UpdateItem', 'DeleteItem']);

async function outcomeOf(call: Call, { operation, input }: Request): Promise<Outcome> {
  try {
    const answer = await call(operation, {
      ...input,
      ...(singleWrites.has(operation) && { ReturnConsumedCapacity: 'TOTAL' }),
    });
    const units = (answer.ConsumedCapacity as { CapacityUnits?: number } | undefined)?.CapacityUnits;
    return {
      ...(singleWrites.has(operation) && { units }),
      answer: input.IndexName === undefined ? tidy(answer) : tidyIndex(answer, input),
    };
  } catch (error) {
    const { name, more } = error as EngineError;
    const { Item, CancellationReasons } = more;
    const reasons = (CancellationReasons as Json[] | undefined)?.map(({ Code, Item: shown }) => ({ Code, shown }));
    return { refusal: tidy({ name, Item, reasons }) };
  }
}

interface Recorded {
  readonly eventName: string;
  readonly dynamodb: { readonly Keys: { readonly pk: { readonly S: string } } } & Json;
}

/** Reads a stream from now on. */
class StreamTail {
  readonly #call: Call;
  #iterators: string[] = [];

  constructor(call: Call) {
    this.#call = call;
  }

  async start(): Promise<void> {
    const { Table } = await this.#call('DescribeTable', { TableName });
    const StreamArn = (Table as Json).LatestStreamArn;
    const { StreamDescription } = await this.#call('DescribeStream', { StreamArn });
    for (const { ShardId } of (StreamDescription as { Shards: Json[] }).Shards) {
      const input = { StreamArn, ShardId, ShardIteratorType: 'LATEST' };
      this.#iterators.push((await this.#call('GetShardIterator', input)).ShardIterator as string);
    }
  }

  /** The records that are new. */
  async read(): Promise<Recorded[]> {
    const records: Recorded[] = [];
    for (const [index, ShardIterator] of this.#iterators.entries()) {
      const page = await this.#call('GetRecords', { ShardIterator });
      if (page.NextShardIterator !== undefined) this.#iterators[index] = page.NextShardIterator as string;
      records.push(...(page.Records as Recorded[]));
    }
    return records;
  }
}

/** DynamoDB Local shows an empty map as `{}` in its stream, without the type. */
const withoutEmptyMaps = (image: unknown): unknown =>
  JSON.parse(JSON.stringify(image ?? null).replaceAll('{"M":{}}', '{}'));

const shown = ({ eventName, dynamodb: { Keys, OldImage, NewImage } }: Recorded) =>
  withoutEmptyMaps(tidy({ eventName, Keys, OldImage, NewImage }));

/**
 * If an update of a transaction is wrong for its item, DynamoDB cancels the transaction with the reason ValidationError,
 * as its documentation lists. DynamoDB Local refuses the whole request.
 */
function isWrongForItem(ours: Outcome, theirs: Outcome): boolean {
  if (!('refusal' in ours && 'refusal' in theirs)) return false;
  const { reasons } = ours.refusal as { reasons?: { Code: string }[] };
  const { name } = theirs.refusal as { name: string };
  return name === 'ValidationException' && reasons?.some(({ Code }) => Code === 'ValidationError') === true;
}

/** Everything that is in the partition of a case at its end, in the table and in its indexes. */
const looks = (run: string): Request[] =>
  [
    { KeyConditionExpression: 'pk = :p', ExpressionAttributeValues: { ':p': { S: run } } },
    ...['g1', 'g2'].map((name) => ({
      IndexName: 'by-g',
      KeyConditionExpression: 'g = :p',
      ExpressionAttributeValues: { ':p': { S: `${run}/${name}` } },
    })),
    { IndexName: 'by-f', KeyConditionExpression: 'f = :p', ExpressionAttributeValues: { ':p': { S: `${run}/f` } } },
  ].map((input) => ({ operation: 'Query', input: { TableName, ...input } }));

const sortOf = (record: unknown): string => (record as { Keys: { sk: { S: string } } }).Keys.sk.S;
const sortedBySort = (records: unknown[]): unknown[] =>
  records.sort((one, other) => (sortOf(one) < sortOf(other) ? -1 : sortOf(one) > sortOf(other) ? 1 : 0));

/** DynamoDB Local charges an index for an item that had one of its keys and has the other, though it was never in it. */
const hasHalfKey = (item: Item | undefined): boolean =>
  item !== undefined && (item.g === undefined) !== (item.h === undefined);

const isChange = (record: unknown): boolean => {
  const { OldImage, NewImage } = record as Json;
  return !isDeepStrictEqual(OldImage, NewImage);
};

export interface Difference {
  readonly request: Request | 'the stream';
  readonly ours: unknown;
  readonly theirs: unknown;
}

export interface ComparisonOptions {
  /** If false, neither units are compared nor the records of writes that change nothing. */
  readonly isExact?: boolean;
  /** A difference that is known and deliberate. The rest of the case is then left out. */
  readonly isExpected?: (difference: Difference) => boolean;
}

/** How often a stream is asked for a record that should be there. An engine shows it within milliseconds. */
const streamTriesMax = 200;
const streamPauseMs = 10;

/** The built-in engine beside another one. */
export class ComparedEngines {
  readonly #ours = new MemoryEngine({
    onChange: ({ before, after }) => {
      this.#hadHalfKey ||= hasHalfKey(before) || hasHalfKey(after);
    },
  });
  readonly #their: Call;
  readonly #tails: { readonly ours: StreamTail; readonly theirs: StreamTail };
  readonly #isExpected: (difference: Difference) => boolean;
  readonly #isExact: boolean;
  /** If an item of this case had one key of the index by-g without the other. */
  #hadHalfKey = false;
  /** How many requests were answered and refused, by operation, for a test that checks that it tests something. */
  readonly seen = { answered: new Map<string, number>(), refused: new Map<string, number>(), records: 0, left: 0 };

  constructor(endpoint: string, { isExpected = () => false, isExact = true }: ComparisonOptions = {}) {
    this.#their = callsTo(endpoint);
    this.#tails = { ours: new StreamTail(this.#our), theirs: new StreamTail(this.#their) };
    this.#isExpected = isExpected;
    this.#isExact = isExact;
  }

  readonly #our: Call = async (operation, input) => this.#ours.call(operation, input);

  async start(): Promise<void> {
    for (const [call, tail] of [
      [this.#our, this.#tails.ours],
      [this.#their, this.#tails.theirs],
    ] as const) {
      await call('CreateTable', definition);
      await tail.start();
    }
  }

  async stop(): Promise<void> {
    await this.#their('DeleteTable', { TableName });
  }

  /** The first difference in a case. Undefined if there is none. */
  async difference(requests: readonly Request[]): Promise<Difference | undefined> {
    const run = randomUUID();
    this.#hadHalfKey = false;
    for (const given of [...requests, ...looks(run)]) {
      const request = inPartition(given, run);
      const [ours, theirs] = [await this.#outcome(this.#our, request), await this.#outcome(this.#their, request)];
      if (!isDeepStrictEqual(ours, theirs) && !isWrongForItem(ours, theirs))
        return this.#judged({ request, ours, theirs });
      this.#count(request, theirs);
    }
    const [ours, theirs] = await this.#recorded(run);
    return isDeepStrictEqual(ours, theirs) ? undefined : this.#judged({ request: 'the stream', ours, theirs });
  }

  async #outcome(call: Call, request: Request): Promise<Outcome> {
    const outcome = await outcomeOf(call, request);
    return 'answer' in outcome && (!this.#isExact || this.#hadHalfKey) ? { answer: outcome.answer } : outcome;
  }

  #judged(difference: Difference): Difference | undefined {
    if (!this.#isExpected(difference)) return difference;
    this.seen.left += 1;
    return undefined;
  }

  #count({ operation }: Request, outcome: Outcome): void {
    const { answered, refused } = this.seen;
    if ('answer' in outcome) answered.set(operation, (answered.get(operation) ?? 0) + 1);
    else {
      const { name } = outcome.refusal as { name: string };
      refused.set(name, (refused.get(name) ?? 0) + 1);
    }
  }

  /** The records of a run in both streams. The other engine may show them a little later. */
  async #recorded(run: string): Promise<[unknown[], unknown[]]> {
    const isOfRun = ({ dynamodb }: Recorded) => dynamodb.Keys.pk.S === run;
    const ours = (await this.#tails.ours.read()).filter(isOfRun).map(shown);
    const theirs: unknown[] = [];
    for (let tries = 0; tries === 0 || (theirs.length < ours.length && tries < streamTriesMax); tries++) {
      if (tries > 0) await new Promise((resolve) => setTimeout(resolve, streamPauseMs));
      const records = (await this.#tails.theirs.read()).filter(isOfRun).map(shown);
      theirs.push(...(this.#isExact ? records : records.filter(isChange)));
    }
    this.seen.records += ours.length;
    // A stream keeps the order of changes of one item, and no other.
    return [sortedBySort(ours), sortedBySort(theirs)];
  }
}
