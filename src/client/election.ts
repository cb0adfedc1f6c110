import { backoffMs } from '../tools/backoff.ts';
import { fired, joinSignals } from './abort.ts';
import type { Closable, Core } from './core.ts';
import { ClosedError, type HoldfastError, InvalidRequestError, type LeaseLostError } from './errors.ts';
import type { HeldLock } from './held-lock.ts';
import type { AcquireOptions } from './lock-options.ts';
import { asyncDispose, pause } from './runtime.ts';

/** A term of office. */
export interface Term {
  /** The fence of the lock: it rises with every term. Send it along with every write that only the leader may make. */
  readonly epoch: number;
  /** Fires before another can be elected. Everything that only the leader may do must stop then. */
  readonly signal: AbortSignal;
  isLeader(): boolean;
}

export interface ElectionOptions extends Pick<AcquireOptions, 'leaseMs' | 'owner' | 'metadata' | 'signal'> {
  /** Runs when this candidate is elected. Where it returns a promise that rejects, the candidate steps down and stands again. */
  readonly onElected: (term: Term) => unknown;
  /** Runs when leadership was lost, never after `close`. */
  readonly onLost?: ((error: LeaseLostError, term: Term) => void) | undefined;
  /** How long `close` waits for the work to stop before it hands over, 5 s by default: half of what container platforms give on SIGTERM. */
  readonly handOverMs?: number | undefined;
  /** Told of what keeps the candidate from standing. It goes on trying. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Fifteen minutes, the longest that one wait may last; then the candidate queues again. */
const candidacyMs = 900_000;
const handOverMsDefault = 5_000;
/** A candidate that failed does not stand again at once: another may do better. */
const pauseBaseMs = 500;
/** A candidate that can't reach the service looks again this often at the latest. */
const pauseMsMax = 15_000;

/**
 * Stands for leadership until it is closed. The lock is the office: its holder leads, its fence is the epoch, its queue is the line of
 * succession.
 *
 * @example
 * ```ts
 * const election = locks.elect('scheduler', {
 *   onElected: async ({ epoch, signal }) => runScheduler({ epoch, signal }),
 *   onLost: (error) => logger.warn('no longer the leader', error),
 * });
 * process.once('SIGTERM', () => election.close());
 * ```
 */
export class Election implements Closable {
  readonly name: string;
  readonly #core: Core;
  readonly #options: ElectionOptions;
  readonly #acquire: (options: AcquireOptions) => Promise<HeldLock>;
  readonly #closing = new AbortController();
  readonly #done: Promise<void>;
  #lock: HeldLock | undefined;

  /** @internal */
  constructor(
    core: Core,
    name: string,
    options: ElectionOptions,
    acquire: (options: AcquireOptions) => Promise<HeldLock>,
  ) {
    this.name = name;
    this.#core = core;
    this.#options = options;
    this.#acquire = acquire;
    core.open.add(this);
    this.#done = this.#stand();
  }

  /** Whether this candidate surely leads now. */
  get isLeader(): boolean {
    return this.#lock?.isHeld() ?? false;
  }

  /** The epoch of the present term; undefined while another leads. */
  get epoch(): number | undefined {
    return this.isLeader ? this.#lock?.fence : undefined;
  }

  /**
   * Lays leadership down and stops standing. The term's signal fires first, then the work is waited for, then the next in line is
   * elected, so that two never lead at once. Work that does not stop is waited for up to `handOverMs`.
   *
   * @example
   * ```ts
   * await election.close();
   * ```
   */
  async close(): Promise<void> {
    if (!this.#closing.signal.aborted) this.#closing.abort(new ClosedError(`The election ${this.name} was closed.`));
    await this.#done;
  }

  /** @internal */
  giveBack(): Promise<void> {
    return this.close();
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  async #stand(): Promise<void> {
    const { runtime, open, closing: clientClosing } = this.#core;
    const joined = joinSignals(this.#closing.signal, this.#options.signal, clientClosing);
    let failures = 0;
    try {
      while (!joined.signal.aborted) {
        try {
          const { leaseMs, owner, metadata } = this.#options;
          const wanted = { leaseMs, owner, metadata, waitMs: candidacyMs, signal: joined.signal };
          await this.#serve(await this.#acquire(wanted), joined.signal);
          failures = 0;
        } catch (error) {
          if (joined.signal.aborted) break;
          if ((error as Partial<HoldfastError>).code !== 'wait-timeout') this.#report(error);
          // A mistake in the options does not heal with time.
          if (error instanceof InvalidRequestError) break;
          const delayMs = pauseBaseMs + backoffMs(failures++, pauseBaseMs, pauseMsMax, runtime.random);
          await pause(runtime, delayMs, joined.signal).catch(() => undefined);
        }
      }
    } finally {
      joined.letGo();
      open.delete(this);
    }
  }

  /** One term, up to its end. Rejects with what the work failed by. */
  async #serve(lock: HeldLock, closing: AbortSignal): Promise<void> {
    this.#lock = lock;
    // Closing the client closes this election, which gives the lock back only when its work has wound down.
    this.#core.open.delete(lock);
    const joined = joinSignals(lock.signal, closing);
    const term: Term = {
      epoch: lock.fence,
      signal: joined.signal,
      isLeader: () => !joined.signal.aborted && lock.isHeld(),
    };
    const stopTelling = lock.onLost((error) => this.#tell(() => this.#options.onLost?.(error, term)));
    let failure: { readonly error: unknown } | undefined;
    const work = Promise.resolve()
      .then(() => this.#options.onElected(term))
      .catch((error: unknown) => {
        if (!joined.signal.aborted) failure = { error };
        joined.abort(error);
      });
    await fired(joined.signal);
    // Neither does the next in line begin while this one still works, nor this one a second term beside its first.
    if (!lock.signal.aborted) await this.#windDown(work, lock.signal);
    else await Promise.race([work, fired(closing)]);
    joined.letGo();
    this.#lock = undefined;
    stopTelling();
    await lock.release().catch(() => undefined);
    if (failure !== undefined) throw failure.error;
  }

  /** Waits for the work to end, but not for ever: then the next in line takes over, and the fence tells the two apart. */
  async #windDown(work: Promise<unknown>, lost: AbortSignal): Promise<void> {
    const { runtime } = this.#core;
    const over = new AbortController();
    const bound = pause(runtime, this.#options.handOverMs ?? handOverMsDefault, over.signal).catch(() => undefined);
    await Promise.race([work, bound, fired(lost)]);
    over.abort();
  }

  #report(error: unknown): void {
    this.#tell(() => this.#options.onError?.(error));
  }

  /** A listener that fails must not end the candidacy. */
  #tell(listener: () => void): void {
    try {
      listener();
    } catch {
      // Its own affair.
    }
  }
}
