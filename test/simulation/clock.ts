import { VirtualTime } from '../../src/testing/virtual-time.ts';
import { type Clock, epochMs } from '../../src/time/clock.ts';

/** Any fixed instant: the same fences in every replay. */
export const beginning = Date.UTC(2031, 0, 1);

/**
 * The true time of a simulated world. No process in it can see it. Nothing in the world uses real time, so one turn of the event
 * loop runs everything that is ready.
 */
export const trueTime = (): VirtualTime => new VirtualTime({ startAt: beginning, turnsToSettle: 1 });

/** A host's wall clock. It drifts, is corrected and jumps, within a limit around the true time or outside it. */
export class DriftingClock implements Clock {
  readonly #time: VirtualTime;
  readonly #boundMs: number;
  readonly #ratePpm: number;
  #offsetMs: number;
  #since: number;

  constructor(
    time: VirtualTime,
    { boundMs, offsetMs, ratePpm }: { boundMs: number; offsetMs: number; ratePpm: number },
  ) {
    this.#time = time;
    this.#boundMs = boundMs;
    this.#ratePpm = ratePpm;
    this.#offsetMs = offsetMs;
    this.#since = time.now();
  }

  /** How far it is ahead of the true time. */
  get aheadMs(): number {
    const driftedMs = ((this.#time.now() - this.#since) * this.#ratePpm) / 1_000_000;
    return Math.trunc(Math.max(-this.#boundMs, Math.min(this.#boundMs, this.#offsetMs + driftedMs)));
  }

  now() {
    return epochMs(this.#time.now() + this.aheadMs);
  }

  jumpTo(offsetMs: number): void {
    this.#offsetMs = offsetMs;
    this.#since = this.#time.now();
  }
}
