import type { DynamoDBRecord } from 'aws-lambda';
import type { DurationMs } from '../../time/clock.ts';
import { toLambdaRecord } from './event.ts';
import { faultOf } from './faults.ts';
import type { Position } from './generation.ts';
import { nextPollMs, type Pace } from './pace.ts';
import { pause } from './pause.ts';
import type { Page, Stream } from './stream.ts';

export interface Reading {
  readonly stream: Stream;
  readonly streamArn: string;
  readonly batchSize: number;
  readonly pace: Pace;
  /** Aborts when the pump stops or the table has another stream. */
  readonly ending: AbortSignal;
  readonly onPositioned: (reader: ShardReader) => void;
  readonly onPage: (reader: ShardReader, received: number) => void;
  /**
   * Called when the shard is read from its start again, because its position was trimmed or does not belong to the
   * stream.
   */
  readonly onRestarted: (reader: ShardReader, reason: 'trimmed' | 'refused', error: unknown) => void;
  /** Resolves when every record was taken or given up, or when the pump stops. */
  readonly onRecords: (reader: ShardReader, records: DynamoDBRecord[]) => Promise<void>;
}

/** `lost` means that reading failed and a new position in the same shard can't help. */
export type ReadingEnd =
  | { readonly kind: 'drained' }
  | { readonly kind: 'ended' }
  | { readonly kind: 'lost'; readonly error: unknown };

/**
 * DynamoDB Local answers 500 to a sequence number that it has not reached, for example after its folder was restored
 * from an older copy. A short failure does not last through five tries, which the backoff spreads over a second.
 */
const internalFailuresMax = 5;

/** Reads one shard in order. Its state survives a failure, so that reading goes on at the same position. */
export class ShardReader {
  readonly id: string;
  position: Position;
  /** Kept during an outage: both engines accept an iterator that they gave out before a restart. */
  #iterator: string | null = null;
  #internalFailures = 0;
  #isRepositioned = false;

  constructor(id: string, position: Position) {
    this.id = id;
    this.position = position;
  }

  async run(reading: Reading): Promise<ReadingEnd> {
    let pauseMs: DurationMs = reading.pace.busyMs;
    this.#isRepositioned = false;
    while (!reading.ending.aborted) {
      const lookedAtMs = performance.now();
      const page = await this.#look(reading).catch((error: unknown) => ({ error }));
      if (reading.ending.aborted) break;
      if ('error' in page) {
        if (!this.#reposition(page.error, reading)) return { kind: 'lost', error: page.error };
        continue;
      }
      const look = { received: page.records.length, tookMs: performance.now() - lookedAtMs };
      const records = page.records.map((record) => toLambdaRecord(record, reading.streamArn));
      if (records.length > 0) await reading.onRecords(this, records);
      if (reading.ending.aborted) break;

      this.#iterator = page.next;
      if (page.next === null) return { kind: 'drained' };
      pauseMs = nextPollMs(reading.pace, pauseMs, look, reading.batchSize);
      await pause(pauseMs, reading.ending);
    }
    return { kind: 'ended' };
  }

  async #look(reading: Reading): Promise<Page> {
    if (this.#iterator === null) {
      this.#iterator = await reading.stream.iteratorAt(reading.streamArn, this.id, this.position);
      // This iterator fixed the meaning of "latest". If it is lost, a second "latest" would skip the records in
      // between. The start of the shard only repeats records, which is allowed.
      if (this.position === 'LATEST') this.position = 'TRIM_HORIZON';
      reading.onPositioned(this);
    }
    const page = await reading.stream.read(this.#iterator, reading.batchSize);
    this.#isRepositioned = false;
    this.#internalFailures = 0;
    reading.onPage(this, page.records.length);
    return page;
  }

  /** Returns true if the same read can be tried at once from another position. */
  #reposition(error: unknown, reading: Reading): boolean {
    const fault = faultOf(error);
    const hadIterator = this.#iterator !== null;
    if (fault !== 'unreachable') this.#iterator = null;
    if (isInternal(error) && !hadIterator) this.#internalFailures += 1;
    const isPositionBad =
      fault === 'trimmed' || (!hadIterator && (fault === 'refused' || this.#internalFailures >= internalFailuresMax));
    if (isPositionBad && this.position !== 'TRIM_HORIZON') {
      this.position = 'TRIM_HORIZON';
      reading.onRestarted(this, fault === 'trimmed' ? 'trimmed' : 'refused', error);
    }
    // At most once between two pages. If an engine refuses every position, the caller's backoff applies.
    const isFirst = !this.#isRepositioned;
    this.#isRepositioned = true;
    return isFirst && (isPositionBad || (hadIterator && (fault === 'expired' || fault === 'refused')));
  }
}

function isInternal(error: unknown): boolean {
  return (error as { $metadata?: { httpStatusCode?: number } } | null)?.$metadata?.httpStatusCode === 500;
}
