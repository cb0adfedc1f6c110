import type { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import type { DynamoDBRecord } from 'aws-lambda';
import { type DurationMs, systemClock } from '../time/clock.ts';
import { errorText } from '../tools/error-text.ts';
import type { Log } from '../tools/log.ts';
import { requireWithin, withinLimit } from '../tools/time-limit.ts';
import type { Checkpoints } from './pump/checkpoints.ts';
import { type Delivery, deliver, type StreamHandler, sequenceNumberOf } from './pump/delivery.ts';
import { FaultLog, faultOf } from './pump/faults.ts';
import { Generation } from './pump/generation.ts';
import { Lag } from './pump/lag.ts';
import { engineBackoff, handlerBackoff, localPace, type Pace, retryInMs } from './pump/pace.ts';
import { pause } from './pump/pause.ts';
import type { Reading, ReadingEnd, ShardReader } from './pump/reader.ts';
import { requestTimeoutMs, Stream } from './pump/stream.ts';

export { type Checkpoint, type Checkpoints, fileCheckpoints, memoryCheckpoints } from './pump/checkpoints.ts';
export type { StreamHandler } from './pump/delivery.ts';

export interface PumpOptions {
  /** What it is for, in log lines. */
  readonly name?: string;
  readonly client: DynamoDBStreamsClient;
  /** A function is called again after each failure, so that the stream of a re-created table is found. */
  readonly streamArn: string | (() => Promise<string>);
  readonly handler: StreamHandler;
  readonly checkpoints: Checkpoints;
  /**
   * Where to begin in a stream that was never read. With a checkpoint, or after the table was re-created, nothing is
   * skipped.
   */
  readonly startAt: 'TRIM_HORIZON' | 'LATEST';
  readonly onDeadLetter: (records: DynamoDBRecord[], error: unknown) => Promise<void> | void;
  readonly logger: Log;
  /** Like the filter criteria of a deployed mapping: a rejected record counts as taken. */
  readonly filter?: (record: DynamoDBRecord) => boolean;
  /** Lambda's default for streams. */
  readonly batchSize?: number;
  /**
   * When a record was written, if that is known. The stream itself tells it only to the second, and DynamoDB Local to
   * the minute.
   */
  readonly writtenAt?: (record: DynamoDBRecord) => number | undefined;
  /**
   * Five: with the backoff they take about a second. That is enough for a conflict or a short failure, and short for
   * the records behind it.
   */
  readonly retriesMax?: number;
  /** A minute: the notifier answers in milliseconds, so an answer that takes this long will not come. */
  readonly handlerTimeoutMs?: DurationMs;
  /**
   * How long `stop` waits for the handler. Ten seconds is the time that a container gets between SIGTERM and SIGKILL.
   */
  readonly stopGraceMs?: DurationMs;
  readonly pace?: Pace;
  readonly random?: () => number;
}

/** Only a precaution: a closed shard, a deleted table and a failed engine each cause a look at once. */
const rediscoverMs: DurationMs = 10_000;
/** Shorter while no shard can be read, for example between a table's deletion and its creation. */
const rediscoverEmptyMs: DurationMs = 250;

export const startPump = (options: PumpOptions): Pump => new Pump(options);

export class Pump {
  /** Resolves when all iterators have a position. Every later write will be seen. */
  readonly ready: Promise<void>;
  readonly #options: PumpOptions;
  readonly #stream: Stream;
  readonly #stopping = new AbortController();
  readonly #faultLog: FaultLog;
  readonly #lag: Lag;
  readonly #random: () => number;
  /** Ends the pause before the next look. Aborted when the list of shards may have changed. */
  #lookNow = new AbortController();
  readonly #becameReady = Promise.withResolvers<void>();
  readonly #supervising: Promise<void>;
  #stopped: Promise<void> | null = null;
  #generation: Generation | null = null;
  readonly #count = { polls: 0, taken: 0, filtered: 0, retries: 0, deadLetters: 0, faults: 0 };

  constructor(options: PumpOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#stream = new Stream(options.client, this.#stopping.signal);
    this.#faultLog = new FaultLog(options.logger, systemClock);
    this.#lag = new Lag(options.name ?? 'stream', options.logger, systemClock);
    this.ready = this.#becameReady.promise;
    // A caller that awaits `ready` learns if the pump stopped too early. Callers do not have to await it.
    this.ready.catch(() => {});
    this.#supervising = this.#supervise();
  }

  /** Waits for the current batch, saves the checkpoint, and leaves no timer behind. May be called again. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  stats() {
    return {
      streamArn: this.#generation?.streamArn ?? null,
      shardsReading: this.#generation?.running.size ?? 0,
      shardsDrained: this.#generation?.drainedCount ?? 0,
      behindMs: this.#lag.behindMs,
      ...this.#count,
    };
  }

  async #stop(): Promise<void> {
    this.#stopping.abort();
    this.#becameReady.reject(new Error('The pump was stopped before it was ready.'));
    await withinLimit(this.#supervising, this.#options.stopGraceMs ?? 10_000);
    await this.#options.checkpoints.flush().catch((error: unknown) => {
      // The next start repeats some records, but nothing is lost. So the stop counts as a success.
      this.#options.logger.error('stream pump: the checkpoint was not kept', { error: errorText(error) });
    });
  }

  async #supervise(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      // Made before the look, so that whatever changes after it causes another look.
      this.#lookNow = new AbortController();
      try {
        const generation = await this.#discover();
        this.#faultLog.worked('stream');
        const delayMs = generation.running.size > 0 ? rediscoverMs : rediscoverEmptyMs;
        await pause(delayMs, AbortSignal.any([signal, this.#lookNow.signal]));
      } catch (error) {
        if (signal.aborted) break;
        this.#count.faults += 1;
        const failures = this.#faultLog.failed('stream', error);
        await pause(retryInMs(engineBackoff, failures, this.#random), signal);
      }
    }
    await this.#end(this.#generation);
  }

  async #discover(): Promise<Generation> {
    const { streamArn } = this.#options;
    // The function calls the same engine, which may hang.
    const arn = typeof streamArn === 'string' ? streamArn : await requireWithin(streamArn(), requestTimeoutMs);
    let generation = this.#generation;
    if (generation?.streamArn !== arn) {
      // Changes that are left in the old stream belong to a table that is gone.
      await this.#end(generation);
      generation = await this.#begin(arn, generation);
      this.#generation = generation;
    }
    const current = generation;
    const listed = await this.#stream.listShards(arn);
    current.adopt(listed, (reader) => this.#read(current, reader));
    this.#checkReady(current);
    return current;
  }

  async #begin(streamArn: string, previous: Generation | null): Promise<Generation> {
    const { checkpoints, startAt } = this.#options;
    const checkpoint = previous?.checkpoint ?? (await checkpoints.load());
    const shards = checkpoint?.streamArn === streamArn ? checkpoint.shards : {};
    // A stream that replaced another one began after it, so all of it is new. It is read from its start, even if a
    // first start would begin elsewhere.
    return new Generation(streamArn, checkpoint === null ? startAt : 'TRIM_HORIZON', shards);
  }

  #checkReady(generation: Generation): void {
    if (generation.isPositioned) this.#becameReady.resolve();
  }

  async #read(generation: Generation, reader: ShardReader): Promise<void> {
    const ending = await reader.run(this.#readingOf(generation)).catch((error: unknown): ReadingEnd => {
      // Only a bug in this code or in a callback gets here. The shard is tried again, so that it is not left unread.
      return { kind: 'lost', error };
    });
    if (ending.kind === 'drained') generation.drained(reader);
    if (ending.kind === 'lost') {
      this.#count.faults += 1;
      const failures = this.#faultLog.failed(reader.id, ending.error);
      await pause(retryInMs(engineBackoff, failures, this.#random), generation.ending.signal);
    }
    generation.ended(reader);
    // Child shards may begin, the engine may be back, or the table may have another stream. A look finds all of these.
    this.#lookNow.abort();
  }

  #readingOf(generation: Generation): Reading {
    const { batchSize = 100, pace = localPace, logger } = this.#options;
    const ending = AbortSignal.any([this.#stopping.signal, generation.ending.signal]);
    return {
      stream: this.#stream,
      streamArn: generation.streamArn,
      batchSize,
      pace,
      ending,
      onPositioned: (reader) => {
        generation.positioned(reader);
        this.#checkReady(generation);
      },
      onPage: (reader, received) => {
        this.#faultLog.worked(reader.id);
        this.#count.polls += 1;
        if (received === 0) this.#lag.handled();
      },
      onRestarted: (reader, reason, error) => {
        const fields = { shardId: reader.id, reason, error: errorText(error) };
        logger.warn('stream pump: a position is gone, reading its shard from the start', fields);
      },
      onRecords: (reader, records) => this.#handOn(records, this.#deliveryOf(generation, reader, ending)),
    };
  }

  async #handOn(records: DynamoDBRecord[], delivery: Delivery): Promise<void> {
    const wanted = records.filter((record) => this.#isWanted(record));
    await deliver(wanted, delivery);
    const last = records.at(-1);
    if (delivery.ending.aborted || !last) return;
    this.#count.filtered += records.length - wanted.length;
    const times = wanted.map((record) => this.#options.writtenAt?.(record)).filter((time) => time !== undefined);
    // Records that nobody needs say nothing.
    if (times.length > 0) this.#lag.handled(Math.min(...times));
    // Records that the filter rejected need no handler, even at the end of a page.
    if (last !== wanted.at(-1)) delivery.onTaken(sequenceNumberOf(last), 0);
  }

  #isWanted(record: DynamoDBRecord): boolean {
    try {
      return this.#options.filter?.(record) ?? true;
    } catch {
      // Deliver the record if the filter fails. The handler can ignore it, but nobody would notice a record that was
      // dropped.
      return true;
    }
  }

  #deliveryOf(generation: Generation, reader: ShardReader, ending: AbortSignal): Delivery {
    const { handler, handlerTimeoutMs = 60_000, retriesMax = 5, logger, onDeadLetter } = this.#options;
    return {
      handler,
      handlerTimeoutMs,
      retriesMax,
      backoff: handlerBackoff,
      random: this.#random,
      logger,
      ending,
      onTaken: (sequenceNumber, count) => {
        this.#count.taken += count;
        generation.taken(reader, sequenceNumber);
        this.#options.checkpoints.save(generation.checkpoint);
      },
      onRetry: () => {
        this.#count.retries += 1;
      },
      onDeadLetter: (dead, error) => {
        this.#count.deadLetters += dead.length;
        return onDeadLetter(dead, error);
      },
      isEngineUp: () =>
        this.#stream.listShards(generation.streamArn).then(
          () => true,
          (error: unknown) => faultOf(error) !== 'unreachable',
        ),
    };
  }

  async #end(generation: Generation | null): Promise<void> {
    if (!generation) return;
    generation.ending.abort();
    await Promise.all(generation.running.values());
  }
}
