/**
 * The table's stream and Lambda's event source mapping: changes of one item in the order in which they were written, in batches, one
 * batch of a lane at a time, tried again after a failure, and given up after some retries. How long things take, and what fails, is
 * the world's own.
 */
import type { DynamoDBRecord } from 'aws-lambda';
import { afterAttempt, type Verdict, wholeBatch } from '../../src/local/pump/batch.ts';
import { shardOf } from '../../src/queue/lock-item.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { pauseFor } from '../../src/time/timers.ts';

export interface Shown {
  readonly record: DynamoDBRecord;
  /** No reader gets it earlier. */
  readonly visibleAt: number;
}

export interface EventSourceParts<S extends Shown> {
  readonly time: VirtualTime;
  /** Changes to one item stay in one lane. Lanes do not wait for each other. */
  readonly lanes: number;
  readonly batchMax: number;
  readonly retriesMax: () => number;
  /** Undefined if nobody could be called. Then the try does not count for the records. */
  readonly attempt: (batch: readonly S[]) => Promise<Verdict | undefined>;
  readonly pauseMs: (failures: number) => number;
  readonly taken?: (shown: S) => void;
  readonly givenUp: (shown: S) => void;
  /** How many changes that were handled may come again. */
  readonly keptMax: number;
}

interface Lane<S> {
  shown: S[];
  /** Everything before it has been handled. */
  position: number;
  /** Where reading must go on after the current batch. */
  backTo: number | undefined;
  isRead: boolean;
}

export class EventSource<S extends Shown> {
  readonly #parts: EventSourceParts<S>;
  readonly #lanes: readonly Lane<S>[];

  constructor(parts: EventSourceParts<S>) {
    this.#parts = parts;
    this.#lanes = Array.from({ length: parts.lanes }, () => ({
      shown: [],
      position: 0,
      backTo: undefined,
      isRead: false,
    }));
  }

  /** `make` gets the time from which on the change may be seen at the earliest: that of the change before it. */
  append(record: DynamoDBRecord, make: (notBefore: number) => S): void {
    const { time } = this.#parts;
    const lane = this.#lanes[shardOf(record.dynamodb?.Keys?.pk?.S ?? '', this.#lanes.length)] as Lane<S>;
    const shown = make(lane.shown.at(-1)?.visibleAt ?? 0);
    lane.shown.push(shown);
    if (shown.visibleAt > time.now()) time.after(shown.visibleAt - time.now(), () => void this.#read(lane));
    else void this.#read(lane);
  }

  /** A checkpoint of one lane was lost. Changes that were handled come again, and all after them. */
  replay(pick: (lanes: number) => number, records: number): void {
    const lane = this.#lanes[pick(this.#lanes.length)] as Lane<S>;
    lane.backTo = Math.max(0, lane.position - records);
    void this.#read(lane);
  }

  /** How many changes are not handled yet. */
  get pending(): number {
    return this.#lanes.reduce((sum, { shown, position }) => sum + shown.length - position, 0);
  }

  async #read(lane: Lane<S>): Promise<void> {
    if (lane.isRead) return;
    lane.isRead = true;
    const { time, batchMax, keptMax } = this.#parts;
    for (;;) {
      lane.position = Math.min(lane.position, lane.backTo ?? lane.position);
      lane.backTo = undefined;
      const window = lane.shown.slice(lane.position, lane.position + batchMax);
      const batch = window.filter(({ visibleAt }) => visibleAt <= time.now());
      if (batch.length === 0) break;
      await this.#deliver(lane, batch);
      if (lane.backTo === undefined && lane.position > 2 * keptMax + batchMax) {
        lane.shown = lane.shown.slice(lane.position - keptMax);
        lane.position = keptMax;
      }
    }
    lane.isRead = false;
  }

  /** Goes on until each change was handled or given up. */
  async #deliver(lane: Lane<S>, batch: readonly S[]): Promise<void> {
    const { time, attempt, retriesMax, pauseMs, taken = () => {}, givenUp } = this.#parts;
    let pending = batch;
    let plan = wholeBatch(pending.length);
    let failures = 0;
    const pass = (count: number, report: (shown: S) => void) => {
      pending.slice(0, count).forEach(report);
      pending = pending.slice(count);
      lane.position += count;
    };
    while (pending.length > 0 && lane.backTo === undefined) {
      const verdict = await attempt(pending.slice(0, plan.size));
      failures = verdict?.kind === 'taken' ? 0 : failures + 1;
      if (verdict !== undefined) {
        const step = afterAttempt(pending.length, plan, verdict, retriesMax());
        pass(step.taken, taken);
        if (step.exhausted) pass(1, givenUp);
        plan = step.next;
      }
      if (failures > 0) await pauseFor(time, pauseMs(failures));
    }
  }
}
