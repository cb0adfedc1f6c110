import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Timers } from '../../src/time/timers.ts';

/**
 * Something that runs: a host or a client. Paused, it neither runs its timers nor reads what arrives, until it goes on; killed, it
 * never does. Everything that code waits for passes through here, so it stops between any two of its steps.
 */
export class Process implements Timers {
  readonly name: string;
  readonly #time: VirtualTime;
  readonly #held: (() => void)[] = [];
  readonly #deaths: (() => void)[] = [];
  #alive = true;
  #pausedAt: number | undefined;
  #pausedMs = 0;

  constructor(time: VirtualTime, name: string) {
    this.#time = time;
    this.name = name;
  }

  get isAlive(): boolean {
    return this.#alive;
  }

  get isPaused(): boolean {
    return this.#pausedAt !== undefined;
  }

  /** All the time for which it stood still: what its monotonic clock did not count. */
  get pausedMs(): number {
    return this.#pausedMs + (this.#pausedAt === undefined ? 0 : this.#time.now() - this.#pausedAt);
  }

  after(ms: number, run: () => void): () => void {
    let cancelled = false;
    const cancel = this.#time.after(ms, () => this.deliver(() => !cancelled && run()));
    return () => {
      cancelled = true;
      cancel();
    };
  }

  /** Runs it now, when the process goes on, or never. */
  deliver(run: () => void): void {
    if (!this.#alive) return;
    if (this.#pausedAt === undefined) run();
    else this.#held.push(run);
  }

  pause(): void {
    this.#pausedAt ??= this.#time.now();
  }

  resume(): void {
    if (this.#pausedAt === undefined) return;
    this.#pausedMs += this.#time.now() - this.#pausedAt;
    this.#pausedAt = undefined;
    // One by one: what the first of them starts may pause or kill the process again.
    for (const run of this.#held.splice(0)) this.deliver(run);
  }

  /** Runs when the process dies: its connections break, and others may notice. */
  onDeath(run: () => void): void {
    this.#deaths.push(run);
  }

  kill(): void {
    this.#alive = false;
    this.#held.length = 0;
    for (const run of this.#deaths.splice(0)) run();
  }
}
