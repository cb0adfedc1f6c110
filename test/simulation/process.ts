import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Timers } from '../../src/time/timers.ts';

/**
 * A process: a host or a client. While it is paused, it runs no timers and reads nothing that arrives. After it was killed, it never
 * goes on. Everything that its code waits for passes through here, so it can stop between any two of its steps.
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

  /** The sum of all its pauses. Its monotonic clock did not count them. */
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
    // One by one, because the first of them may pause or kill the process again.
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
