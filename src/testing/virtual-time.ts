import type { Runtime } from '../client/runtime.ts';
import { type Clock, epochMs } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';

/** Taken when this file is loaded: a test that fakes timers later must not stop the twin's own. */
const { setImmediate: nextTurn } = globalThis;

/** Any fixed instant would do; fixed, so that a test sees the same fences every time. */
const startAt = Date.UTC(2030, 0, 1);
/** Turns of the event loop that are waited for after each step: code under test may itself await a few. */
const turnsToSettle = 3;
/** A timer that sets itself anew for the same instant would never let time pass. */
const stepsMax = 1_000_000;

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** Time that stands still until it is advanced. Timers run in the order in which they are due, and everything settles in between. */
export class VirtualTime implements Clock, Timers {
  #now = startAt;
  #order = 0;
  readonly #timers = new Set<Timer>();

  now() {
    return epochMs(this.#now);
  }

  after(ms: number, run: () => void): () => void {
    this.#order += 1;
    // Whole milliseconds, as real timers have: a fraction would get lost beside an epoch, and the timer would be due for ever.
    const timer = { at: this.#now + Math.max(0, Math.ceil(ms)), order: this.#order, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** When the next timer is due; undefined where there is none. */
  get nextAt(): number | undefined {
    return this.#next()?.at;
  }

  async advance(ms: number): Promise<void> {
    const target = this.#now + ms;
    await this.settle();
    for (let steps = 0; steps < stepsMax; steps++) {
      const timer = this.#next();
      if (timer === undefined || timer.at > target) {
        this.#now = target;
        return;
      }
      this.#now = Math.max(this.#now, timer.at);
      this.#timers.delete(timer);
      timer.run();
      await this.settle();
    }
    throw new Error(
      `More than ${stepsMax} timers ran in ${ms} ms: one of them sets itself anew without letting time pass.`,
    );
  }

  /** Lets everything happen that needs no time. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < turnsToSettle; turn++) await new Promise<void>((resolve) => nextTurn(resolve));
  }

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (next === undefined || timer.at < next.at || (timer.at === next.at && timer.order < next.order)) next = timer;
    }
    return next;
  }
}

/** A small generator of numbers that look random and are the same every time (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

interface ProcessTimer {
  /** By the process's own clock, which stands still while it is frozen. */
  readonly dueMs: number;
  readonly run: () => void;
  cancel: () => void;
}

/** A process of its own in virtual time: it can be frozen, and then neither its timers nor its monotonic clock run. */
export class VirtualProcess implements Runtime {
  readonly #time: VirtualTime;
  readonly #name: string;
  readonly random: () => number;
  readonly #timers = new Set<ProcessTimer>();
  #ids = 0;
  #frozenMs = 0;
  #frozenAt: number | undefined;
  #arrived: (() => void)[] = [];

  constructor(time: VirtualTime, name: string, seed: number) {
    this.#time = time;
    this.#name = name;
    this.random = seededRandom(seed);
  }

  monotonicMs(): number {
    return (this.#frozenAt ?? this.#time.now()) - startAt - this.#frozenMs;
  }

  wallMs(): number {
    return this.#time.now();
  }

  after(ms: number, run: () => void): () => void {
    const timer: ProcessTimer = { dueMs: this.monotonicMs() + ms, run, cancel: () => {} };
    this.#timers.add(timer);
    if (this.#frozenAt === undefined) this.#start(timer);
    return () => {
      timer.cancel();
      this.#timers.delete(timer);
    };
  }

  newId(): string {
    this.#ids += 1;
    return `${this.#name}-lease-${String(this.#ids).padStart(8, '0')}`;
  }

  freeze(): void {
    if (this.#frozenAt !== undefined) return;
    this.#frozenAt = this.#time.now();
    for (const timer of this.#timers) timer.cancel();
  }

  /** Its timers go on where they stood: as in a frozen function, they have slept too. */
  thaw(): void {
    if (this.#frozenAt === undefined) return;
    this.#frozenMs += this.#time.now() - this.#frozenAt;
    this.#frozenAt = undefined;
    for (const timer of this.#timers) this.#start(timer);
    for (const read of this.#arrived.splice(0)) read();
  }

  /** Resolves at once, or when it is thawed: an answer that arrives while it is frozen is read later. */
  awake(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#frozenAt === undefined) resolve();
      else this.#arrived.push(resolve);
    });
  }

  #start(timer: ProcessTimer): void {
    timer.cancel = this.#time.after(timer.dueMs - this.monotonicMs(), () => {
      this.#timers.delete(timer);
      timer.run();
    });
  }
}
