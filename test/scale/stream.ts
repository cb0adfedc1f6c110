/** The table's stream and Lambda's event source mapping: batches, one lane for each key, retries, dead letters. */
import type { DynamoDBBatchResponse, DynamoDBRecord, DynamoDBStreamEvent } from 'aws-lambda';
import type { MemoryEngine } from '../../src/engine/engine.ts';
import { afterAttempt, judge, type Verdict, wholeBatch } from '../../src/local/pump/batch.ts';
import { passesFilter, type StreamFilter } from '../../src/notify/stream-filter.ts';
import { shardOf } from '../../src/queue/lock-item.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { pauseFor } from '../../src/time/timers.ts';
import { amountOf } from './facts.ts';
import { type LambdaFunction, NoExecutionLeft } from './lambda.ts';
import type { Metrics } from './metrics.ts';

interface Shown {
  readonly record: DynamoDBRecord;
  readonly writtenAt: number;
}

export interface ReaderParts {
  readonly time: VirtualTime;
  readonly metrics: Metrics;
  /** The name of the function in the stack. */
  readonly name: string;
  readonly deadLetters: string;
  readonly filter: StreamFilter;
  readonly target: LambdaFunction<DynamoDBStreamEvent, DynamoDBBatchResponse>;
}

/** One function that reads the stream. */
export class StreamReader {
  readonly #parts: ReaderParts;
  readonly #lanes: { pending: Shown[]; isRead: boolean }[];
  givenUp = 0;

  constructor(parts: ReaderParts) {
    this.#parts = parts;
    const lanes = amountOf('streamShards') * amountOf('streamLanes');
    this.#lanes = Array.from({ length: lanes }, () => ({ pending: [], isRead: false }));
  }

  offer(shown: readonly Shown[]): void {
    const { filter } = this.#parts;
    for (const one of shown) {
      if (!passesFilter(one.record, filter)) continue;
      const lane = this.#lanes[shardOf(one.record.dynamodb?.Keys?.pk?.S ?? '', this.#lanes.length)];
      lane?.pending.push(one);
    }
    for (const lane of this.#lanes) if (lane.pending.length > 0 && !lane.isRead) void this.#read(lane);
  }

  async #read(lane: { pending: Shown[]; isRead: boolean }): Promise<void> {
    lane.isRead = true;
    while (lane.pending.length > 0) {
      const batch = lane.pending.slice(0, amountOf('streamBatch'));
      lane.pending = lane.pending.slice(batch.length);
      await this.#deliver(batch);
    }
    lane.isRead = false;
  }

  async #deliver(batch: readonly Shown[]): Promise<void> {
    const { time, metrics, deadLetters } = this.#parts;
    let pending = batch;
    let plan = wholeBatch(pending.length);
    let failures = 0;
    while (pending.length > 0) {
      const verdict = await this.#attempt(pending.slice(0, plan.size));
      failures = verdict === undefined || verdict.kind !== 'taken' ? failures + 1 : 0;
      if (verdict !== undefined) {
        const step = afterAttempt(pending.length, plan, verdict, amountOf('streamRetries'));
        pending = pending.slice(step.taken);
        plan = step.next;
        if (step.exhausted) {
          pending = pending.slice(1);
          this.givenUp += 1;
          metrics.add('ApproximateNumberOfMessagesVisible', deadLetters, this.givenUp);
        }
      }
      if (failures > 0) await pauseFor(time, retryMs(failures));
    }
  }

  /** Undefined if there was no execution for it. Then the try does not count for the records. */
  async #attempt(batch: readonly Shown[]): Promise<Verdict | undefined> {
    const { time, metrics, name, target } = this.#parts;
    metrics.add('IteratorAge', name, time.now() - Math.min(...batch.map(({ writtenAt }) => writtenAt)));
    try {
      const response = await target.invoke({ Records: batch.map(({ record }) => record) });
      return judge(
        batch.map(({ record }) => record.dynamodb?.SequenceNumber ?? ''),
        response,
      );
    } catch (error) {
      return error instanceof NoExecutionLeft ? undefined : { kind: 'failed' };
    }
  }
}

/** Doubles with each failure in a row. */
const retryMs = (failures: number): number =>
  Math.min(amountOf('streamRetryMsMax'), amountOf('streamRetryMs') * 2 ** (failures - 1));

/** Shows each change to every reader, at the next poll after it was written. */
export function readStream(
  { time, engine, isAway }: { time: VirtualTime; engine: MemoryEngine; isAway: () => boolean },
  readers: readonly StreamReader[],
): void {
  const { Streams } = engine.call('ListStreams', {}) as { Streams: { StreamArn: string }[] };
  const { ShardIterator } = engine.call('GetShardIterator', {
    StreamArn: Streams[0]?.StreamArn,
    ShardIteratorType: 'TRIM_HORIZON',
  });
  let iterator = ShardIterator as string;
  const look = () => {
    time.after(amountOf('streamPollMs'), look);
    if (isAway()) return;
    for (;;) {
      const page = engine.call('GetRecords', { ShardIterator: iterator }) as {
        Records: DynamoDBRecord[];
        NextShardIterator: string;
      };
      if (page.Records.length === 0) return;
      iterator = page.NextShardIterator;
      // The stream has whole seconds. The poll follows within a quarter of a second.
      const shown = page.Records.map((record) => ({ record, writtenAt: time.now() }));
      for (const reader of readers) reader.offer(shown);
    }
  };
  look();
}
