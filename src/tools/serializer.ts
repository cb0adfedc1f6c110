import type { Timers } from '../time/timers.ts';
import { withinLimit } from './time-limit.ts';

/** Does work with the same id one after the other, in the order in which it was given. */
export class Serializer {
  readonly #timers: Timers;
  readonly #waitMsMax: number;
  readonly #latest = new Map<string, Promise<unknown>>();

  constructor(timers: Timers, waitMsMax: number) {
    this.#timers = timers;
    this.#waitMsMax = waitMsMax;
  }

  /** `isInTurn` is false if the work waited too long for earlier work. Then it begins beside it. */
  async run<Result>(id: string, work: (isInTurn: boolean) => Promise<Result>): Promise<Result> {
    const before = this.#latest.get(id);
    const own = this.#turnAfter(before).then(work);
    // The next work also waits for earlier work for which this one has stopped waiting.
    const ended = Promise.allSettled([before, own]);
    this.#latest.set(id, ended);
    try {
      return await own;
    } finally {
      void ended.then(() => this.#latest.get(id) === ended && this.#latest.delete(id));
    }
  }

  async #turnAfter(before: Promise<unknown> | undefined): Promise<boolean> {
    if (before === undefined) return true;
    return (await withinLimit(before, this.#waitMsMax, this.#timers)).kind === 'done';
  }
}
