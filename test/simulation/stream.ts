/** The table's stream in a world of faults: late, in batches that fail or come twice, and sometimes from an earlier point. */
import type { DynamoDBBatchResponse, DynamoDBRecord } from 'aws-lambda';
import { judge, type Verdict } from '../../src/local/pump/batch.ts';
import { handlerBackoff, retryInMs } from '../../src/local/pump/pace.ts';
import { notifierFilter, passesFilter, publisherFilter } from '../../src/notify/stream-filter.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { pauseFor } from '../../src/time/timers.ts';
import { EventSource, type Shown } from '../world/event-source.ts';
import type { Chance } from './chance.ts';
import type { Conditions } from './conditions.ts';
import type { Meaning } from './notifier-promises.ts';
import type { Process } from './process.ts';
import type { StoreWeather } from './table-path.ts';
import type { Verdicts } from './verdicts.ts';

const lanes = 3;
/** Small, so that a world of a thousand changes has many batches. */
const batchMax = 20;
/** As in the stack and in the local pump. */
const retriesMax = 5;
/** After this time a call of the notifier counts as failed. */
const handlerMsMax = 60_000;
/** How many changes come again at most after a checkpoint was lost. */
const replayedMax = 400;
/** One process does the work of the notifier and of the publisher. */
const filter = [...notifierFilter, ...publisherFilter];

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

interface ShownMeaning extends Shown {
  readonly meaning: Meaning | undefined;
}

export class Stream {
  readonly #parts: StreamParts;
  readonly #source: EventSource<ShownMeaning>;

  constructor(parts: StreamParts) {
    const { time, chance, weather, verdicts, watcher } = parts;
    this.#parts = parts;
    this.#source = new EventSource<ShownMeaning>({
      time,
      lanes,
      batchMax,
      keptMax: replayedMax,
      // During an outage every notifier fails, so these tries do not count for the record.
      retriesMax: () => (weather.outage ? Number.POSITIVE_INFINITY : retriesMax),
      attempt: (batch) => this.#attempt(batch.map(({ record }) => record)),
      pauseMs: (failures) => {
        verdicts.count('stream: a batch comes again');
        return retryInMs(handlerBackoff, failures, chance.next);
      },
      taken: ({ meaning }) => meaning !== undefined && watcher.taken(meaning),
      givenUp: ({ meaning }) => {
        verdicts.count('stream: a record is given up');
        if (meaning !== undefined) watcher.givenUp(meaning);
      },
    });
  }

  append(record: DynamoDBRecord, meaning: Meaning | undefined): void {
    const { time, chance, weather } = this.#parts;
    if (!passesFilter(record, filter)) return;
    // Mostly at once, sometimes very late, and never before an earlier write.
    const lateMs = chance.longTailed(100, weather.calm ? 600 : 8_000);
    this.#source.append(record, (notBefore) => ({
      record,
      meaning,
      visibleAt: Math.max(time.now() + lateMs, notBefore),
    }));
  }

  replay(): void {
    const { chance } = this.#parts;
    this.#source.replay((count) => chance.between(0, count - 1), chance.longTailed(60, replayedMax));
  }

  /** How many changes are not handled yet. */
  get pending(): number {
    return this.#source.pending;
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
