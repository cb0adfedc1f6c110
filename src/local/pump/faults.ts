import type { Clock, EpochMs } from '../../time/clock.ts';
import { errorText } from '../../tools/error-text.ts';
import type { Log } from '../../tools/log.ts';

/** The kinds of failure of a call to the stream, by what to do next. */
export type Fault =
  /** The iterator is over 15 minutes old, for example because a laptop slept. Take a new one after the last record. */
  | 'expired'
  /** The position is older than the stream's retention. Go on from the oldest record that is left. */
  | 'trimmed'
  /** The engine refuses the position itself, so the same request can't succeed later. */
  | 'refused'
  /** The stream or the shard does not exist, or not any more. Find out which stream the table has now. */
  | 'gone'
  /** The engine is down, restarts, throttles or has an internal error. Ask again later. */
  | 'unreachable';

const faultOfName: ReadonlyMap<unknown, Fault> = new Map([
  ['ExpiredIteratorException', 'expired'],
  ['TrimmedDataAccessException', 'trimmed'],
  ['ValidationException', 'refused'],
  ['ResourceNotFoundException', 'gone'],
]);

export function faultOf(error: unknown): Fault {
  return faultOfName.get((error as { name?: unknown } | null)?.name) ?? 'unreachable';
}

/** An unstable engine may fail many times a second. One line in ten seconds says as much. */
const quietMs = 10_000;

/** Logs once that a source fails and once that it works again, however often it is tried in between. */
export class FaultLog {
  readonly #logger: Log;
  readonly #clock: Clock;
  readonly #failing = new Map<string, { readonly since: EpochMs; failures: number; logged: boolean }>();
  readonly #loggedAt = new Map<string, EpochMs>();

  constructor(logger: Log, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** Returns how many times in a row the source has failed. */
  failed(source: string, error: unknown): number {
    const now = this.#clock.now();
    const trouble = this.#failing.get(source) ?? { since: now, failures: 0, logged: false };
    this.#failing.set(source, trouble);
    trouble.failures += 1;
    if (!trouble.logged && now - (this.#loggedAt.get(source) ?? Number.NEGATIVE_INFINITY) >= quietMs) {
      trouble.logged = true;
      this.#loggedAt.set(source, now);
      this.#logger.warn('stream pump: reading fails, retrying', { source, error: errorText(error) });
    }
    return trouble.failures;
  }

  worked(source: string): void {
    const trouble = this.#failing.get(source);
    if (!trouble) return;
    this.#failing.delete(source);
    if (!trouble.logged) return;
    const lastedMs = this.#clock.now() - trouble.since;
    this.#logger.info('stream pump: reading works again', { source, failures: trouble.failures, lastedMs });
  }
}
