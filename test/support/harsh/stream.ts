import { createHash } from 'node:crypto';
import type { Chance } from '../../world/chance.ts';
import type { Faults } from './faults.ts';

/** Sends one operation of the Streams API to the engine. */
export type AskStream = (operation: string, input: object) => Promise<{ status: number; body: StreamBody }>;

// biome-ignore lint/suspicious/noExplicitAny: answers are passed on as they are, and read by field.
export type StreamBody = any;

interface StreamRecord {
  readonly dynamodb: { readonly Keys: { readonly pk: { readonly S: string } }; readonly SequenceNumber: string };
}

interface Shard {
  readonly id: string;
  readonly parentId: string | undefined;
  /** Partition keys whose hash is in this range: from, up to. */
  readonly range: readonly [number, number];
  readonly records: { readonly record: StreamRecord; readonly visibleAt: number }[];
  isOpen: boolean;
}

interface Place {
  readonly shardId: string;
  readonly index: number;
}

export type StreamAnswer = { readonly status: number; readonly body: StreamBody };

/** A real stream may have thousands of shards after days of splits. This many are enough to show every case. */
const openMax = 8;
/** DynamoDB lists a hundred shards a page. With two, every list is longer than a page. */
const listedAtOnce = 2;
const lateMsMax = 1_500;

const refused = (type: string, message: string): StreamAnswer => ({
  status: 400,
  body: { __type: `com.amazonaws.dynamodb.v20120810#${type}`, message },
});

/**
 * One table's stream, as a service with many partitions shows it. The engine's records are distributed by partition key
 * to this stream's own shards, which close and split. A page may be short, late, or come again. The records of one item
 * stay in order from parent to child, and none is lost.
 */
export class HarshStream {
  readonly #arn: string;
  readonly #ask: AskStream;
  readonly #faults: Faults;
  readonly #chance: Chance;
  readonly #now: () => number;
  readonly #shards = new Map<string, Shard>();
  /** The engine's own shards, and the position up to which each was read. Null if the shard has ended. */
  readonly #sources = new Map<string, string | null>();
  #pulling: Promise<void> = Promise.resolve();

  constructor(arn: string, ask: AskStream, faults: Faults, chance: Chance, now: () => number) {
    this.#arn = arn;
    this.#ask = ask;
    this.#faults = faults;
    this.#chance = chance;
    this.#now = now;
    this.#add(undefined, [0, 256]);
  }

  async answer(operation: string, input: StreamBody): Promise<StreamAnswer> {
    // One at a time: two readers at once would distribute the same records twice.
    this.#pulling = this.#pulling.catch(() => {}).then(() => this.#pull());
    await this.#pulling;
    if (operation === 'DescribeStream') return this.#describe(input);
    if (operation === 'GetShardIterator') return this.#iteratorAt(input);
    return this.#read(operation, input);
  }

  /** Closes every open shard. Half of the keys that shared a shard no longer do. */
  splitAll(): void {
    for (const shard of [...this.#shards.values()]) if (shard.isOpen) this.#split(shard);
  }

  #add(parentId: string | undefined, range: readonly [number, number]): void {
    const number = String(this.#shards.size + 1).padStart(20, '0');
    const id = `shardId-${number}-${createHash('sha256').update(`${this.#arn} ${number}`).digest('hex').slice(0, 8)}`;
    this.#shards.set(id, { id, parentId, range, records: [], isOpen: true });
  }

  #split(shard: Shard): void {
    const [from, to] = shard.range;
    const open = [...this.#shards.values()].filter(({ isOpen }) => isOpen).length;
    shard.isOpen = false;
    const middle = (from + to) / 2;
    // A shard also closes because of its age. Then one new shard follows it.
    if (open >= openMax || to - from < 2) {
      this.#add(shard.id, shard.range);
      return;
    }
    this.#add(shard.id, [from, middle]);
    this.#add(shard.id, [middle, to]);
  }

  /** Distributes all records that the engine has by now. */
  async #pull(): Promise<void> {
    const described = await this.#ask('DescribeStream', { StreamArn: this.#arn });
    for (const { ShardId } of described.body.StreamDescription?.Shards ?? []) {
      if (!this.#sources.has(ShardId)) this.#sources.set(ShardId, await this.#sourceOf(ShardId));
      for (let next = this.#sources.get(ShardId) ?? null; next !== null; ) {
        const { status, body } = await this.#ask('GetRecords', { ShardIterator: next });
        // After a restart of the engine, an iterator may have ended. Another one begins after the records that were
        // distributed.
        if (status !== 200) throw new Error(`The engine's stream can't be read: ${JSON.stringify(body)}`);
        for (const record of body.Records ?? []) this.#deal(record as StreamRecord);
        this.#sources.set(ShardId, body.NextShardIterator ?? null);
        next = (body.Records ?? []).length === 0 ? null : (body.NextShardIterator ?? null);
      }
    }
  }

  async #sourceOf(ShardId: string): Promise<string> {
    const where = { StreamArn: this.#arn, ShardId, ShardIteratorType: 'TRIM_HORIZON' };
    return (await this.#ask('GetShardIterator', where)).body.ShardIterator as string;
  }

  #deal(record: StreamRecord): void {
    const hash = createHash('sha256').update(record.dynamodb.Keys.pk.S).digest()[0] as number;
    const shard = [...this.#shards.values()].find(
      ({ isOpen, range: [from, to] }) => isOpen && from <= hash && hash < to,
    ) as Shard;
    const lateMs = this.#faults.happens('late-records', 'GetRecords') ? this.#chance.between(1, lateMsMax) : 0;
    // If a record is late, all records behind it in its shard are late too: a shard never shows records out of order.
    const visibleAt = Math.max(this.#now() + lateMs, shard.records.at(-1)?.visibleAt ?? 0);
    shard.records.push({ record, visibleAt });
    if (this.#faults.happens('split-shard', 'GetRecords')) this.#split(shard);
  }

  #describe({ ExclusiveStartShardId: start }: StreamBody): StreamAnswer {
    const all = [...this.#shards.values()];
    const from = start === undefined ? 0 : all.findIndex(({ id }) => id === start) + 1;
    const page = all.slice(from, from + listedAtOnce);
    const last = from + listedAtOnce < all.length ? page.at(-1)?.id : undefined;
    const Shards = page.map(({ id, parentId, records, isOpen }) => ({
      ShardId: id,
      ...(parentId === undefined ? {} : { ParentShardId: parentId }),
      SequenceNumberRange: {
        StartingSequenceNumber: records[0]?.record.dynamodb.SequenceNumber ?? '1',
        ...(isOpen ? {} : { EndingSequenceNumber: records.at(-1)?.record.dynamodb.SequenceNumber ?? '1' }),
      },
    }));
    const StreamDescription = {
      StreamArn: this.#arn,
      StreamStatus: 'ENABLED',
      StreamViewType: 'NEW_AND_OLD_IMAGES',
      Shards,
      ...(last === undefined ? {} : { LastEvaluatedShardId: last }),
    };
    return { status: 200, body: { StreamDescription } };
  }

  #iteratorAt({ ShardId, ShardIteratorType: type, SequenceNumber: number }: StreamBody): StreamAnswer {
    const shard = this.#shards.get(ShardId);
    if (shard === undefined) return refused('ResourceNotFoundException', `There is no shard ${ShardId}.`);
    const at = shard.records.findIndex(({ record }) => record.dynamodb.SequenceNumber === number);
    if (number !== undefined && at < 0)
      return refused('ValidationException', 'The sequence number is not of this shard.');
    const index = { TRIM_HORIZON: 0, LATEST: shard.records.length, AT_SEQUENCE_NUMBER: at }[type as string] ?? at + 1;
    return { status: 200, body: { ShardIterator: iteratorOf({ shardId: shard.id, index }) } };
  }

  #read(operation: string, { ShardIterator, Limit = 1_000 }: StreamBody): StreamAnswer {
    const { shardId, index } = placeOf(ShardIterator);
    const shard = this.#shards.get(shardId);
    if (shard === undefined) return refused('ResourceNotFoundException', `There is no shard ${shardId}.`);
    if (this.#faults.happens('expired-iterator', operation))
      return refused('ExpiredIteratorException', 'The iterator is older than 15 minutes.');
    const visible = shard.records.slice(index).filter(({ visibleAt }) => visibleAt <= this.#now());
    const isShort = visible.length > 0 && this.#faults.happens('short-page', operation);
    const page = visible.slice(0, isShort ? this.#chance.between(0, visible.length - 1) : Limit);
    const end = index + page.length;
    const isTwice = page.length > 0 && this.#faults.happens('double-records', operation);
    const next = isTwice ? index : end;
    const isDrained = !shard.isOpen && next === shard.records.length;
    return {
      status: 200,
      body: {
        Records: page.map(({ record }) => record),
        ...(isDrained ? {} : { NextShardIterator: iteratorOf({ shardId, index: next }) }),
      },
    };
  }
}

const iteratorOf = (place: Place): string => Buffer.from(JSON.stringify(place)).toString('base64url');
const placeOf = (iterator: string): Place => JSON.parse(Buffer.from(iterator, 'base64url').toString()) as Place;
