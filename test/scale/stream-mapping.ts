import type { DynamoDBBatchResponse, DynamoDBRecord } from 'aws-lambda';
import { afterAttempt, judge, wholeBatch } from '../../src/local/pump/batch.ts';
import { shardOf } from '../../src/store/dynamodb/keys.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { amountOf } from './facts.ts';
import type { LambdaFunction } from './lambda.ts';
import type { ModelledTable } from './modelled-table.ts';

/** As the stack has it. */
const retriesMax = 5;
/** Lambda waits longer with each try; this is about the middle. */
const retryMs = 1_000;
/** A table under this load has a handful of partitions, and its stream a shard for each. */
const shards = 4;

/** The event source mapping: looks at the stream four times a second, and keeps the changes of one key in order. */
export class StreamMapping {
  readonly #time: VirtualTime;
  readonly #table: ModelledTable;
  readonly #notifier: LambdaFunction<readonly DynamoDBRecord[], DynamoDBBatchResponse>;
  readonly #concerns: (record: DynamoDBRecord) => boolean;
  readonly #lanes: DynamoDBRecord[][] = Array.from({ length: shards * amountOf('streamLanes') }, () => []);
  readonly #busy = new Set<number>();
  #iterator: string;

  constructor(parts: {
    readonly time: VirtualTime;
    readonly table: ModelledTable;
    readonly streamArn: string;
    readonly notifier: LambdaFunction<readonly DynamoDBRecord[], DynamoDBBatchResponse>;
    readonly concerns: (record: DynamoDBRecord) => boolean;
  }) {
    this.#time = parts.time;
    this.#table = parts.table;
    this.#notifier = parts.notifier;
    this.#concerns = parts.concerns;
    const start = { StreamArn: parts.streamArn, ShardIteratorType: 'TRIM_HORIZON' };
    this.#iterator = String(parts.table.engine.call('GetShardIterator', start).ShardIterator);
    this.#look();
  }

  #look(): void {
    for (;;) {
      const page = this.#table.engine.call('GetRecords', { ShardIterator: this.#iterator, Limit: 1_000 });
      const records = page.Records as DynamoDBRecord[];
      this.#iterator = String(page.NextShardIterator);
      for (const record of records.filter(this.#concerns)) {
        this.#lanes[shardOf(record.dynamodb?.Keys?.pk?.S ?? '', this.#lanes.length)]?.push(record);
      }
      if (records.length === 0) break;
    }
    this.#lanes.forEach((lane, index) => {
      if (lane.length > 0 && !this.#busy.has(index)) void this.#drain(lane, index);
    });
    this.#time.after(amountOf('streamPollMs'), () => this.#look());
  }

  async #drain(lane: DynamoDBRecord[], index: number): Promise<void> {
    this.#busy.add(index);
    while (lane.length > 0) await this.#deliver(lane.splice(0, amountOf('streamBatch')));
    this.#busy.delete(index);
  }

  /** Until each record was taken or given up, by the rules of Lambda. */
  async #deliver(batch: readonly DynamoDBRecord[]): Promise<void> {
    let pending = batch;
    let plan = wholeBatch(pending.length);
    while (pending.length > 0) {
      const sent = pending.slice(0, plan.size);
      const numbers = sent.map(({ dynamodb }) => dynamodb?.SequenceNumber ?? '');
      const verdict = await this.#notifier.invoke(sent).then(
        (response) => judge(numbers, response),
        () => ({ kind: 'failed' as const }),
      );
      const step = afterAttempt(pending.length, plan, verdict, retriesMax);
      pending = pending.slice(step.taken + (step.exhausted ? 1 : 0));
      plan = step.next;
      if (verdict.kind !== 'taken') await new Promise<void>((resolve) => this.#time.after(retryMs, resolve));
    }
  }
}
