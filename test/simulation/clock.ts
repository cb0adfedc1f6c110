import { type Clock, epochMs } from '../../src/time/clock.ts';
import type { Timers } from '../../src/time/timers.ts';

/** Any fixed instant: the same fences in every replay. */
export const beginning = Date.UTC(2031, 0, 1);

interface Timer {
  readonly at: number;
  readonly order: number;
  run: (() => void) | undefined;
}

/**
 * The true time of a simulated world, which no process in it can see. It stands still until everything that needs no time has
 * happened, then jumps to the next thing that is due.
 */
export class TrueTime implements Timers {
  #now = beginning;
  #order = 0;
  #steps = 0;
  readonly #heap: Timer[] = [];

  get now(): number {
    return this.#now;
  }

  /** How many things have happened: what a replay can be compared by. */
  get steps(): number {
    return this.#steps;
  }

  after(ms: number, run: () => void): () => void {
    const timer: Timer = { at: this.#now + Math.max(0, Math.ceil(ms)), order: this.#order++, run };
    this.#push(timer);
    return () => {
      timer.run = undefined;
    };
  }

  /** Lets time pass up to the instant, or until the world wants to stop. */
  async passUntil(instant: number, stopped: () => boolean = () => false): Promise<void> {
    await settle();
    for (let timer = this.#heap[0]; timer !== undefined && timer.at <= instant; timer = this.#heap[0]) {
      this.#pop();
      if (timer.run === undefined) continue;
      this.#now = timer.at;
      this.#steps += 1;
      timer.run();
      await settle();
      if (stopped()) return;
    }
    this.#now = Math.max(this.#now, instant);
  }

  #push(timer: Timer): void {
    const heap = this.#heap;
    let index = heap.push(timer) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (isEarlier(heap[parent] as Timer, timer)) break;
      heap[index] = heap[parent] as Timer;
      index = parent;
    }
    heap[index] = timer;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isEarlier(heap[child + 1] as Timer, heap[child] as Timer)) child += 1;
      if (isEarlier(last, heap[child] as Timer)) break;
      heap[index] = heap[child] as Timer;
      index = child;
    }
    heap[index] = last;
  }
}

const isEarlier = (one: Timer, other: Timer): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);

/** Nothing in the world touches the real one, so one turn of the event loop runs everything that is ready. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A host's wall clock: it drifts, is corrected, and jumps, within a bound around the true time or beyond it. */
export class DriftingClock implements Clock {
  readonly #time: TrueTime;
  readonly #boundMs: number;
  readonly #ratePpm: number;
  #offsetMs: number;
  #since: number;

  constructor(time: TrueTime, { boundMs, offsetMs, ratePpm }: { boundMs: number; offsetMs: number; ratePpm: number }) {
    this.#time = time;
    this.#boundMs = boundMs;
    this.#ratePpm = ratePpm;
    this.#offsetMs = offsetMs;
    this.#since = time.now;
  }

  /** How far it is ahead of the true time. */
  get aheadMs(): number {
    const driftedMs = ((this.#time.now - this.#since) * this.#ratePpm) / 1_000_000;
    return Math.trunc(Math.max(-this.#boundMs, Math.min(this.#boundMs, this.#offsetMs + driftedMs)));
  }

  now() {
    return epochMs(this.#time.now + this.aheadMs);
  }

  jumpTo(offsetMs: number): void {
    this.#offsetMs = offsetMs;
    this.#since = this.#time.now;
  }
}
