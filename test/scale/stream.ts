/** The table's stream under Lambda's own rules: batches, one lane for each key, retries, dead letters. */
import type { DynamoDBBatchResponse, DynamoDBRecord, DynamoDBStreamEvent } from 'aws-lambda';
import type { MemoryEngine } from '../../src/engine/engine.ts';
import { judge, type Verdict } from '../../src/local/pump/batch.ts';
import { passesFilter, type StreamFilter } from '../../src/notify/stream-filter.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { EventSource, type Shown } from '../world/event-source.ts';
import { amountOf } from './facts.ts';
import { type LambdaFunction, NoExecutionLeft } from './lambda.ts';
import type { Metrics } from './metrics.ts';

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
  readonly #source: EventSource<Shown>;
  givenUp = 0;

  constructor(parts: ReaderParts) {
    const { time, metrics, deadLetters } = parts;
    this.#parts = parts;
    this.#source = new EventSource({
      time,
      lanes: amountOf('streamShards') * amountOf('streamLanes'),
      batchMax: amountOf('streamBatch'),
      keptMax: 0,
      retriesMax: () => amountOf('streamRetries'),
      attempt: (batch) => this.#attempt(batch),
      pauseMs: retryMs,
      givenUp: () => {
        this.givenUp += 1;
        metrics.add('ApproximateNumberOfMessagesVisible', deadLetters, this.givenUp);
      },
    });
  }

  offer(records: readonly DynamoDBRecord[]): void {
    const { time, filter } = this.#parts;
    const passed = records.filter((record) => passesFilter(record, filter));
    this.#source.append(passed.map((record) => ({ record, visibleAt: time.now() })));
  }

  /** Undefined if there was no execution for it. Then the try does not count for the records. */
  async #attempt(batch: readonly Shown[]): Promise<Verdict | undefined> {
    const { time, metrics, name, target } = this.#parts;
    metrics.add('IteratorAge', name, time.now() - Math.min(...batch.map(({ visibleAt }) => visibleAt)));
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
      for (const reader of readers) reader.offer(page.Records);
    }
  };
  look();
}
