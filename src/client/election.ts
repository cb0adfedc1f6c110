import { backoffMs } from '../tools/backoff.ts';
import { fired, joinSignals } from './abort.ts';
import type { Core } from './core.ts';
import { ClosedError, type HoldfastError, InvalidRequestError, type LeaseLostError } from './errors.ts';
import type { HeldLock } from './held-lock.ts';
import type { AcquireOptions } from './lock-options.ts';
import { asyncDispose, pause } from './runtime.ts';

/** The time for which one candidate leads. */
export interface Term {
  /** The fence of the lock. It rises with every term. Send it with every write that only the leader may make. */
  readonly epoch: number;
  /** Fires before another can be elected. Everything that only the leader may do must stop then. */
  readonly signal: AbortSignal;
  isLeader(): boolean;
}

export interface ElectionOptions extends Pick<AcquireOptions, 'leaseMs' | 'owner' | 'metadata' | 'signal'> {
  /** Runs when this candidate is elected. If its promise rejects, the candidate gives leadership up and becomes a candidate again. */
  readonly onElected: (term: Term) => unknown;
  /** Runs when leadership was lost, never after `close`. */
  readonly onLost?: ((error: LeaseLostError, term: Term) => void) | undefined;
  /**
   * How long `close` waits for the work to stop before the next candidate leads. 5 s by default: half of the time that
   * container platforms give after SIGTERM.
   */
  readonly handOverMs?: number | undefined;
  /** Called with an error that stops the candidate from waiting for leadership. It tries again. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Fifteen minutes, the longest wait for a lock. Then the candidate joins the queue again. */
const candidacyMs = 900_000;
const handOverMsDefault = 5_000;
/** A candidate whose work failed pauses, because another candidate may succeed. */
const pauseBaseMs = 500;
/** The longest pause of a candidate that can't reach the service. */
const pauseMsMax = 15_000;

/**
 * A candidate for leadership, until it is closed. The holder of the lock leads, its fence is the epoch, and the other
 * candidates wait in the lock's queue.
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
export class Election {
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
    core.open.set(this, () => this.close());
    this.#done = this.#tryToLead();
  }

  /** True if this candidate surely leads now. */
  get isLeader(): boolean {
    return this.#lock?.isHeld() ?? false;
  }

  /** The epoch of the current term. Undefined while another candidate leads. */
  get epoch(): number | undefined {
    return this.isLeader ? this.#lock?.fence : undefined;
  }

  /**
   * Gives leadership up, and is no candidate any more. First the term's signal fires. Then it waits until the work has
   * stopped, at most `handOverMs`. Only then is the next candidate elected, so two never lead at once.
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

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  async #tryToLead(): Promise<void> {
    const { runtime, open, closing: clientClosing } = this.#core;
    const joined = joinSignals(this.#closing.signal, this.#options.signal, clientClosing);
    let failures = 0;
    try {
      while (!joined.signal.aborted) {
        try {
          const { leaseMs, owner, metadata } = this.#options;
          const wanted = { leaseMs, owner, metadata, waitMs: candidacyMs, signal: joined.signal };
          await this.#lead(await this.#acquire(wanted), joined.signal);
          failures = 0;
        } catch (error) {
          if (joined.signal.aborted) break;
          if ((error as Partial<HoldfastError>).code !== 'wait-timeout') this.#report(error);
          // If the options are wrong, another try does not help.
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

  /** One term, until its end. Rejects with the error of the work. */
  async #lead(lock: HeldLock, closing: AbortSignal): Promise<void> {
    this.#lock = lock;
    // When the client closes, it closes this election, and the election releases the lock after its work has stopped.
    this.#core.open.delete(lock);
    const joined = joinSignals(lock.signal, closing);
    const term: Term = {
      epoch: lock.fence,
      signal: joined.signal,
      isLeader: () => !joined.signal.aborted && lock.isHeld(),
    };
    const stopListening = lock.onLost((error) => this.#call(() => this.#options.onLost?.(error, term)));
    let failure: { readonly error: unknown } | undefined;
    const work = Promise.resolve()
      .then(() => this.#options.onElected(term))
      .catch((error: unknown) => {
        if (!joined.signal.aborted) failure = { error };
        joined.abort(error);
      });
    await fired(joined.signal);
    // While this work runs, the next candidate must not begin, and this one must not begin a second term.
    if (!lock.signal.aborted) await this.#awaitWork(work, lock.signal);
    else await Promise.race([work, fired(closing)]);
    joined.letGo();
    this.#lock = undefined;
    stopListening();
    await lock.release().catch(() => undefined);
    if (failure !== undefined) throw failure.error;
  }

  /** Waits for the work to end, but not for ever. After that the next candidate leads, and the fence tells the two apart. */
  async #awaitWork(work: Promise<unknown>, lost: AbortSignal): Promise<void> {
    const { runtime } = this.#core;
    const over = new AbortController();
    const bound = pause(runtime, this.#options.handOverMs ?? handOverMsDefault, over.signal).catch(() => undefined);
    await Promise.race([work, bound, fired(lost)]);
    over.abort();
  }

  #report(error: unknown): void {
    this.#call(() => this.#options.onError?.(error));
  }

  /** If a listener fails, the candidate stays one. */
  #call(listener: () => void): void {
    try {
      listener();
    } catch {
      // The listener must handle its own errors.
    }
  }
}
