/** Time in a twin passes only if the test advances it. A test that forgets this waits for ever, and its runner says only "timeout". */

/** Well under the five seconds after which test runners give up on a test. */
const stalledAfterMs = 2_000;

export interface StallWatchOptions {
  /** What waits for time to pass, one phrase each. Empty if nothing does. */
  readonly waiting: () => readonly string[];
  readonly warn: (message: string) => void;
  /** Real time. */
  readonly after: (ms: number, run: () => void) => void;
}

/** Warns once if something waits for virtual time and nobody advances it. */
export class StallWatch {
  readonly #options: StallWatchOptions;
  #advances = 0;
  #isAdvancing = 0;
  #isArmed = false;
  #hasWarned = false;

  constructor(options: StallWatchOptions) {
    this.#options = options;
  }

  /** Something may wait from now on. */
  arm(): void {
    if (this.#isArmed || this.#hasWarned) return;
    this.#isArmed = true;
    const seen = this.#advances;
    this.#options.after(stalledAfterMs, () => {
      this.#isArmed = false;
      const waiting = this.#options.waiting();
      if (waiting.length === 0) return;
      if (this.#isAdvancing > 0 || this.#advances !== seen) {
        this.arm();
        return;
      }
      this.#hasWarned = true;
      this.#options.warn(stalledMessage(waiting));
    });
  }

  /** The test lets time pass. */
  async during<T>(advancing: () => Promise<T>): Promise<T> {
    this.#advances += 1;
    this.#isAdvancing += 1;
    try {
      return await advancing();
    } finally {
      this.#isAdvancing -= 1;
    }
  }
}

export const stalledMessage = (waiting: readonly string[]): string =>
  `The twin's time stands still, and something waits for it to pass: ${waiting.join('; ')}. ` +
  'Call `await twin.advance(ms)`, or wrap the promise: `await twin.until(promise)`.';
