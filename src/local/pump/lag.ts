import type { Clock, DurationMs, EpochMs } from '../../time/clock.ts';
import type { Log } from '../../tools/log.ts';

/** A parked waiter may be absent for as long as this, and the shortest leases are not much longer. */
const lateMs: DurationMs = 5_000;
/** Below this, a delivery is as fast as a person expects. */
const inTimeMs: DurationMs = 1_000;
/** While a pump stays behind, one line in this time says how far. */
const quietMs: DurationMs = 30_000;

/** Knows how far a pump is behind the writes to the table, and logs it if that is long. */
export class Lag {
  readonly #logger: Log;
  readonly #clock: Clock;
  readonly #name: string;
  #behindMs: DurationMs = 0;
  #loggedAt: EpochMs | undefined;

  constructor(name: string, logger: Log, clock: Clock) {
    this.#name = name;
    this.#logger = logger;
    this.#clock = clock;
  }

  /** How old the last page was when it was handled. */
  get behindMs(): DurationMs {
    return this.#behindMs;
  }

  /** A page was handled, or there was none: then nothing is left to do. The oldest record of a page has waited longest. */
  handled(oldestWrittenAt?: number): void {
    const now = this.#clock.now();
    this.#behindMs = oldestWrittenAt === undefined ? 0 : Math.max(0, now - oldestWrittenAt);
    const { behindMs } = this;
    const isLogged = this.#loggedAt !== undefined;
    if (behindMs >= lateMs && (this.#loggedAt === undefined || now - this.#loggedAt >= quietMs)) {
      this.#loggedAt = now;
      this.#logger.warn('stream pump: behind the writes to the table', { pump: this.#name, behindMs });
    } else if (isLogged && behindMs < inTimeMs) {
      this.#loggedAt = undefined;
      this.#logger.info('stream pump: caught up with the writes to the table', { pump: this.#name });
    }
  }
}
