import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from '../world/chance.ts';
import { DelayedQueue } from '../world/delayed-queue.ts';
import type { Conditions } from './conditions.ts';
import type { StoreWeather } from './table-path.ts';
import type { Verdicts } from './verdicts.ts';

/** As in the stack: after three tries a message is given up. */
const receivesMax = 3;
/** A message that failed comes again only after a while. The sweep may come first. */
const invisibleMs = 20_000;

interface QueueParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly conditions: Conditions;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  /** Gives a message to a process that handles timers. False if it could not be handled, or if there was no process. */
  readonly deliver: (body: string) => Promise<boolean>;
}

/** Delayed messages that make the reaper look. Some are lost, even without other faults, some come late, and some twice. */
export class TimerQueue {
  readonly #parts: QueueParts;
  readonly #queue: DelayedQueue;
  /** For each lock, the times of the timers that never reached the reaper. */
  readonly #lost = new Map<string, number[]>();

  constructor(parts: QueueParts) {
    const { time, verdicts, deliver } = parts;
    this.#parts = parts;
    this.#queue = new DelayedQueue({
      time,
      batchMax: 1,
      readersMax: Number.POSITIVE_INFINITY,
      hiddenMs: invisibleMs,
      receivesMax,
      deliver: async (batch) => {
        const fired = await Promise.all(batch.map(({ body }) => deliver(body)));
        return new Set(batch.filter((_, index) => !fired[index]).map(({ messageId }) => messageId));
      },
      failed: ({ body }) => {
        verdicts.count('timers failed');
        this.#lose(body, time.now());
      },
    });
  }

  send(body: string, delaySeconds: number): void {
    const { time, chance, conditions, weather, verdicts } = this.#parts;
    const delayMs = delaySeconds * 1_000;
    verdicts.count('timers armed');
    if (chance.happens(conditions.timersLost)) {
      verdicts.count('timers lost');
      this.#lose(body, time.now() + delayMs);
      return;
    }
    const copies = !weather.calm && chance.happens(conditions.duplicated) ? 2 : 1;
    if (copies > 1) verdicts.count('timers repeated');
    for (let copy = 0; copy < copies; copy++) {
      const lateMs =
        chance.longTailed(50, weather.calm ? 500 : 10_000) * (chance.happens(0.1) && !weather.calm ? 20 : 1);
      if (lateMs > 1_000) verdicts.count('timers late');
      this.#queue.send(body, delayMs + lateMs);
    }
  }

  /** True if a timer was lost, now or since that time. Each timer arms the next one, so nothing follows a lost one until the next sweep. */
  wasLost(lock: string, since: number): boolean {
    return (this.#lost.get(lock) ?? []).some((firesAt) => firesAt > since);
  }

  #lose(body: string, firesAt: number): void {
    const { lock } = JSON.parse(body) as { lock: string };
    this.#lost.set(lock, [...(this.#lost.get(lock) ?? []), firesAt]);
  }
}
