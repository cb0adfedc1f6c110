/**
 * The table's stream and Lambda's event source mapping: every change of a lock in the order in which it was written, in batches,
 * tried again after a failure, and sometimes from an earlier point.
 */
import { marshall } from '@aws-sdk/util-dynamodb';
import type { AttributeValue, DynamoDBBatchResponse, DynamoDBRecord } from 'aws-lambda';
import { afterAttempt, judge, type Verdict, wholeBatch } from '../../src/local/pump/batch.ts';
import { handlerBackoff, retryInMs } from '../../src/local/pump/pace.ts';
import type { Page } from '../../src/queue/pages.ts';
import { type LockKey, type LockState, lockIdOf } from '../../src/lock/state.ts';
import { shardOf, toLockItem } from '../../src/queue/lock-item.ts';
import { retentionMsDefault } from '../../src/queue/lock-store.ts';
import { parkedName } from '../../src/queue/page-item.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { pauseFor } from '../../src/time/timers.ts';
import { toPageItem } from '../support/page-items.ts';
import type { Chance } from './chance.ts';
import type { Conditions } from './conditions.ts';
import type { Meaning } from './notifier-promises.ts';
import type { Process } from './process.ts';
import type { StoreWeather } from './store-path.ts';
import type { Verdicts } from './verdicts.ts';

/** Changes to one lock stay in one lane. Lanes do not wait for each other. */
const lanes = 3;
/** Small, so that a world of a thousand changes has many batches. */
const batchMax = 20;
/** As in the stack and in the local pump. */
const retriesMax = 5;
/** After this time a call of the notifier counts as failed. */
const handlerMsMax = 60_000;

/** A reader of batches. */
export interface Reader {
  readonly process: Process;
  notify(records: readonly DynamoDBRecord[]): Promise<DynamoDBBatchResponse>;
}

/** Learns which changes the notifier has handled, and which were given up. */
export interface StreamWatcher {
  taken(meaning: Meaning): void;
  givenUp(meaning: Meaning): void;
}

interface StreamParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly conditions: Conditions;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  readonly watcher: StreamWatcher;
  readonly readers: () => readonly Reader[];
}

interface Shown {
  readonly record: DynamoDBRecord;
  readonly meaning: Meaning | undefined;
  readonly visibleAt: number;
}

interface Lane {
  readonly shown: Shown[];
  /** Everything before it has been handled. */
  position: number;
  /** Where reading must go on after the current batch. */
  backTo: number | undefined;
  isRead: boolean;
}

type Image = Record<string, AttributeValue>;

export class Stream {
  readonly #parts: StreamParts;
  readonly #lanes: readonly Lane[] = Array.from({ length: lanes }, () => ({
    shown: [],
    position: 0,
    backTo: undefined,
    isRead: false,
  }));
  /** The latest image of each lock. The next change shows it as the old image. */
  readonly #images = new Map<string, Image>();
  #sequence = 0;

  constructor(parts: StreamParts) {
    this.#parts = parts;
  }

  lockWritten(key: LockKey, after: LockState, meaning: Meaning): void {
    const id = lockIdOf(key);
    const item = toLockItem(key, after, retentionMsDefault);
    const image = marshall(item) as Image;
    // A lock whose item was deleted has a new item.
    const old = after.rev === 1 ? undefined : this.#images.get(id);
    this.#images.set(id, image);
    this.append(id, { Keys: { pk: image.pk as never, sk: image.sk as never }, NewImage: image }, old, meaning);
  }

  pageWritten(key: LockKey, page: Page, changedAt: number, meaning: Meaning): void {
    const id = `${lockIdOf(key)}#${page.number}`;
    const old = this.#images.get(id);
    // After a parked waiter has joined a page, the page stays marked.
    const wasParked = old?.[parkedName] !== undefined;
    const image = marshall({
      ...toPageItem(key, page, changedAt),
      ...(wasParked ? { [parkedName]: 'parked' } : {}),
    }) as Image;
    this.#images.set(id, image);
    this.append(id, { Keys: { pk: image.pk as never, sk: image.sk as never }, NewImage: image }, old, meaning);
  }

  append(id: string, change: NonNullable<DynamoDBRecord['dynamodb']>, old?: Image, meaning?: Meaning): void {
    const { time, chance, weather } = this.#parts;
    this.#sequence += 1;
    const lane = this.#lanes[shardOf(id, lanes)] as Lane;
    // Mostly at once, sometimes very late, and never before an earlier write.
    const lateMs = chance.longTailed(100, weather.calm ? 600 : 8_000);
    const visibleAt = Math.max(time.now() + lateMs, lane.shown.at(-1)?.visibleAt ?? 0);
    lane.shown.push({
      visibleAt,
      meaning,
      record: {
        eventID: `event-${this.#sequence}`,
        eventName: old === undefined ? 'INSERT' : 'MODIFY',
        dynamodb: {
          SequenceNumber: String(this.#sequence).padStart(21, '0'),
          ...change,
          ...(old === undefined ? {} : { OldImage: old }),
        },
      },
    });
    time.after(visibleAt - time.now(), () => void this.#read(lane));
  }

  /** A checkpoint was lost. Changes that were handled long ago come again, and all after them. */
  replay(): void {
    const lane = this.#parts.chance.pick(this.#lanes);
    lane.backTo = Math.max(0, lane.position - this.#parts.chance.longTailed(60, 400));
    void this.#read(lane);
  }

  /** How many changes are not handled yet. */
  get pending(): number {
    return this.#lanes.reduce((sum, { shown, position }) => sum + shown.length - position, 0);
  }

  async #read(lane: Lane): Promise<void> {
    if (lane.isRead) return;
    lane.isRead = true;
    for (;;) {
      lane.position = Math.min(lane.position, lane.backTo ?? lane.position);
      lane.backTo = undefined;
      const window = lane.shown.slice(lane.position, lane.position + batchMax);
      const batch = window.filter(({ visibleAt }) => visibleAt <= this.#parts.time.now());
      if (batch.length === 0) break;
      await this.#deliver(lane, batch);
    }
    lane.isRead = false;
  }

  /** Goes on until each change was handled or given up, by the rules of the event source mapping. */
  async #deliver(lane: Lane, batch: readonly Shown[]): Promise<void> {
    const { time, chance, weather, watcher, verdicts } = this.#parts;
    let pending = batch;
    let plan = wholeBatch(pending.length);
    const pass = (count: number, report: (meaning: Meaning) => void) => {
      for (const { meaning } of pending.slice(0, count)) if (meaning !== undefined) report(meaning);
      pending = pending.slice(count);
      lane.position += count;
    };
    while (pending.length > 0 && lane.backTo === undefined) {
      const verdict = await this.#attempt(pending.slice(0, plan.size).map(({ record }) => record));
      // During an outage every notifier fails, so these tries do not count for the record.
      const step = afterAttempt(pending.length, plan, verdict, weather.outage ? Number.POSITIVE_INFINITY : retriesMax);
      pass(step.taken, (meaning) => watcher.taken(meaning));
      if (step.exhausted) {
        verdicts.count('stream: a record is given up');
        pass(1, (meaning) => watcher.givenUp(meaning));
      }
      plan = step.next;
      if (verdict.kind === 'taken') continue;
      verdicts.count('stream: a batch comes again');
      await pauseFor(time, retryInMs(handlerBackoff, plan.failures, chance.next));
    }
  }

  async #attempt(records: readonly DynamoDBRecord[]): Promise<Verdict> {
    const { time, chance, conditions, weather, verdicts } = this.#parts;
    const reader = await this.#anyReader();
    if (!weather.calm && chance.happens(conditions.duplicated)) {
      // The same batch once more, at the same time as the first or long after it, and nobody reads its result.
      verdicts.count('stream: a batch is handed over twice');
      time.after(chance.longTailed(500, 20_000), async () => {
        const other = await this.#anyReader();
        other.process.deliver(() => void other.notify(records));
      });
    }
    return new Promise((resolve) => {
      let isOver = false;
      const ends = (verdict: Verdict) => {
        isOver = true;
        time.after(1 + chance.between(0, 5), () => resolve(verdict));
      };
      time.after(handlerMsMax, () => resolve({ kind: 'failed' }));
      reader.process.onDeath(() => {
        if (isOver) return;
        verdicts.count('stream: a notifier dies over a batch');
        ends({ kind: 'failed' });
      });
      reader.process.deliver(async () => {
        const response = await reader.notify(records);
        const lost = !weather.calm && chance.happens(conditions.answerLost);
        const numbers = records.map(({ dynamodb }) => dynamodb?.SequenceNumber ?? '');
        ends(lost ? { kind: 'failed' } : judge(numbers, response));
      });
    });
  }

  async #anyReader(): Promise<Reader> {
    const { time, chance, readers } = this.#parts;
    for (;;) {
      const running = readers().filter(({ process }) => process.isAlive);
      if (running.length > 0) return chance.pick(running);
      await pauseFor(time, 100);
    }
  }
}
