import { StoreError } from '../table/store-error.ts';
import { after, type Clock, type EpochMs } from '../time/clock.ts';
import { pauseFor, type Timers } from '../time/timers.ts';
import { backoffMs } from '../tools/backoff.ts';

/** On a lock with 500 writes a second, ten rounds in a row lose to others far less often than once in a thousand. */
const roundsMax = 10;
/**
 * A refusal has the current state, so a second and a third decision need no read. After that, a pause lets others
 * finish.
 */
const triesPerRound = 3;
/**
 * Steps that only move pages up, or wait for a turn: more than the longest queue needs if all its waiters died. Each further one
 * counts as a lost race.
 */
const stepsMax = 100;
/**
 * How long a command goes on, for example to join a page if so many join at once that its turn does not come. API Gateway ends a
 * request after 30 s, and a caller that is told to repeat its request in time loses nothing.
 */
const commandMsMax = 15_000;

/** The one budget of a command: it counts lost races, pauses with backoff and jitter, and ends in bounded time. */
export class Attempts {
  readonly #timers: Timers;
  readonly #random: () => number;
  readonly #clock: Clock;
  readonly #until: EpochMs;
  #tries = 0;
  #steps = 0;

  constructor({ clock, timers, random }: { clock: Clock; timers: Timers; random: () => number }) {
    this.#clock = clock;
    this.#timers = timers;
    this.#random = random;
    this.#until = after(clock.now(), commandMsMax);
  }

  /** Whether the next try is the last one of its round. */
  get isLastOfRound(): boolean {
    return this.#tries % triesPerRound === triesPerRound - 1;
  }

  /** A step that was not lost to others. */
  async progress(): Promise<void> {
    this.#checkTime();
    this.#steps += 1;
    if (this.#steps > stepsMax) await this.lost();
  }

  /** Others were faster. True if that was the last try of a round. Then it has paused, and the state is not current any more. */
  async lost(): Promise<boolean> {
    this.#checkTime();
    const isLast = this.isLastOfRound;
    this.#tries += 1;
    const round = Math.floor(this.#tries / triesPerRound);
    if (round >= roundsMax)
      throw new StoreError('conflict', `Others kept writing to this lock for ${roundsMax * triesPerRound} tries.`);
    if (isLast) await pauseFor(this.#timers, backoffMs(round - 1, 4, 250, this.#random));
    return isLast;
  }

  async pause(ms: number): Promise<void> {
    await this.progress();
    await pauseFor(this.#timers, ms);
  }

  #checkTime(): void {
    if (this.#clock.now() >= this.#until)
      throw new StoreError('throttled', 'Too many callers write to this lock or join its queue at once.');
  }
}
