import type { Runtime } from '../client/runtime.ts';
import { type Clock, epochMs } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import { SortedList } from '../tools/sorted-list.ts';

/** Read when this file is loaded: if a test fakes timers later, the twin still has the real one. */
const { setImmediate: nextTurn } = globalThis;

/** A fixed instant, so that a test sees the same fences every time. Any instant would do. */
const defaultStartAt = Date.UTC(2030, 0, 1);
/** How many turns of the event loop to wait after each step. Code under test may itself await a few. */
const defaultTurnsToSettle = 3;
/** A timer that sets itself again for the same instant would stop time for ever. This ends such a loop. */
const stepsMax = 1_000_000;

interface Timer {
  readonly at: number;
  readonly order: number;
  /** Undefined after it was cancelled. */
  run: (() => void) | undefined;
}

export interface VirtualTimeOptions {
  readonly startAt?: number | undefined;
  /** One turn is enough if nothing does real I/O. */
  readonly turnsToSettle?: number | undefined;
}

/**
 * Time that passes only if a test advances it. Timers run in the order in which they are due. After each timer,
 * everything that needs no time runs first.
 */
export class VirtualTime implements Clock, Timers {
  readonly startAt: number;
  readonly #turnsToSettle: number;
  /** In the order in which they are due. */
  readonly #timers = new SortedList<Timer>((one, other) => one.at - other.at || one.order - other.order);
  #now: number;
  #order = 0;
  #steps = 0;

  constructor({ startAt = defaultStartAt, turnsToSettle = defaultTurnsToSettle }: VirtualTimeOptions = {}) {
    this.startAt = startAt;
    this.#turnsToSettle = turnsToSettle;
    this.#now = startAt;
  }

  readonly now = () => epochMs(this.#now);

  readonly after = (ms: number, run: () => void): (() => void) => {
    // Whole milliseconds, as with real timers. Next to an epoch a fraction would be lost, and the timer would always be
    // due.
    const timer: Timer = { at: this.#now + Math.max(0, Math.ceil(ms)), order: this.#order++, run };
    this.#timers.put(timer);
    return () => {
      timer.run = undefined;
    };
  };

  /** How many timers have run. A replay can be compared by it. */
  get steps(): number {
    return this.#steps;
  }

  /** When the next timer is due; undefined if there is none. */
  get nextAt(): number | undefined {
    return this.#next?.at;
  }

  advance(ms: number): Promise<void> {
    return this.passUntil(this.#now + ms);
  }

  /** Lets time pass up to the instant, or until `isOver` returns true. */
  async passUntil(instant: number, isOver: () => boolean = () => false): Promise<void> {
    await this.settle();
    const stepsAtMost = this.#steps + stepsMax;
    for (let timer = this.#next; timer !== undefined && timer.at <= instant; timer = this.#next) {
      if (this.#steps >= stepsAtMost) {
        throw new Error(`More than ${stepsMax} timers ran: one of them sets itself again without letting time pass.`);
      }
      this.#timers.remove(timer);
      this.#now = Math.max(this.#now, timer.at);
      this.#steps += 1;
      timer.run?.();
      await this.settle();
      if (isOver()) return;
    }
    this.#now = Math.max(this.#now, instant);
  }

  /** Runs everything that needs no time. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < this.#turnsToSettle; turn++) await new Promise<void>((resolve) => nextTurn(resolve));
  }

  /** The next timer that is not cancelled. */
  get #next(): Timer | undefined {
    let timer = this.#timers.first;
    while (timer !== undefined && timer.run === undefined) {
      this.#timers.remove(timer);
      timer = this.#timers.first;
    }
    return timer;
  }
}

/** A small generator of pseudorandom numbers (mulberry32). The same seed gives the same numbers. */
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
  /** On the process's own clock, which stops while it is frozen. */
  readonly dueMs: number;
  readonly run: () => void;
  /** False if somebody waits for it. */
  readonly isBackground: boolean;
  cancel: () => void;
}

/** A process in virtual time. While it is frozen, neither its timers nor its monotonic clock run. */
export class VirtualProcess implements Runtime {
  readonly #time: VirtualTime;
  readonly #name: string;
  readonly random: () => number;
  readonly #timers = new Set<ProcessTimer>();
  readonly #onWait: () => void;
  #ids = 0;
  #frozenMs = 0;
  #frozenAt: number | undefined;
  #arrived: (() => void)[] = [];

  constructor(time: VirtualTime, name: string, seed: number, onWait: () => void = () => {}) {
    this.#time = time;
    this.#name = name;
    this.#onWait = onWait;
    this.random = seededRandom(seed);
  }

  monotonicMs(): number {
    return (this.#frozenAt ?? this.#time.now()) - this.#time.startAt - this.#frozenMs;
  }

  wallMs(): number {
    return this.#time.now();
  }

  after(ms: number, run: () => void, isBackground = false): () => void {
    const timer: ProcessTimer = { dueMs: this.monotonicMs() + ms, run, isBackground, cancel: () => {} };
    this.#timers.add(timer);
    if (!isBackground) this.#onWait();
    if (this.#frozenAt === undefined) this.#start(timer);
    return () => {
      timer.cancel();
      this.#timers.delete(timer);
    };
  }

  /** True if a call of this process goes on only when time passes. */
  get isWaiting(): boolean {
    return [...this.#timers].some(({ isBackground }) => !isBackground);
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

  /** The timers go on where they stopped. In a frozen function they stop too. */
  thaw(): void {
    if (this.#frozenAt === undefined) return;
    this.#frozenMs += this.#time.now() - this.#frozenAt;
    this.#frozenAt = undefined;
    for (const timer of this.#timers) this.#start(timer);
    for (const read of this.#arrived.splice(0)) read();
  }

  /** Resolves at once, or when the process is thawed: an answer that arrives during a freeze is read later. */
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
