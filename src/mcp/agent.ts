import type { AcquireOptions, HeldLock, Holdfast, OnceOptions, OnceResult, Session } from '../client/index.ts';
import { ClosedError, LeaseLostError } from '../client/index.ts';

/** A job that the agent has begun and not yet reported. */
interface Job {
  readonly fence: number;
  readonly outcome: PromiseWithResolvers<unknown>;
  readonly ended: Promise<OnceResult<unknown>>;
}

export type AcquireWish = Pick<AcquireOptions, 'waitMs' | 'signal' | 'onWaiting'> & {
  readonly purpose?: string | undefined;
};

/**
 * What one agent holds. All its locks are under one session of the service, so they end with the agent: at once if it
 * leaves, and after `ttlMs` if this process dies.
 */
export class Agent {
  readonly locks: Holdfast;
  /** The name that others see as the holder. */
  owner: string;
  readonly #ttlMs: number;
  readonly #tellLost: (lock: string, why: string) => void;
  readonly #held = new Map<string, HeldLock>();
  readonly #jobs = new Map<string, Job>();
  #session: Promise<Session> | undefined;
  #isOver = false;

  constructor(locks: Holdfast, owner: string, ttlMs: number, tellLost: (lock: string, why: string) => void) {
    this.locks = locks;
    this.owner = owner;
    this.#ttlMs = ttlMs;
    this.#tellLost = tellLost;
  }

  /** The lock, if it is surely held now. */
  held(name: string): HeldLock | undefined {
    const lock = this.#held.get(name);
    return lock?.isHeld() ? lock : undefined;
  }

  async acquire(name: string, { purpose, ...wish }: AcquireWish): Promise<HeldLock> {
    const session = await this.#openSession();
    const metadata = purpose === undefined ? undefined : { purpose };
    const lock = await session.acquire(name, { ...wish, owner: this.owner, metadata });
    this.#held.set(name, lock);
    lock.onLost((error) => this.#tellLost(name, error.message));
    // The agent may have left while it waited.
    if (this.#isOver) await lock.release();
    return lock;
  }

  /** Throws if the agent does not hold the lock. */
  mustHold(name: string): HeldLock {
    const lock = this.#held.get(name);
    if (lock === undefined) throw new LeaseLostError(`You do not hold ${name}.`, 'not_owner');
    lock.throwIfLost();
    return lock;
  }

  async release(name: string): Promise<{ readonly released: boolean; readonly reason: string }> {
    const lock = this.#held.get(name);
    if (lock === undefined) return { released: false, reason: 'not_owner' };
    this.#held.delete(name);
    return lock.release();
  }

  /** Begins a job, or resolves with its result if it is done. */
  async begin(
    key: string,
    options: Pick<OnceOptions, 'everyMs' | 'waitMs' | 'signal'>,
  ): Promise<OnceResult<unknown> | { readonly fence: number }> {
    const outcome = Promise.withResolvers<unknown>();
    const begun = Promise.withResolvers<{ readonly fence: number }>();
    const ended = this.locks.once(key, { ...options, owner: this.owner }, ({ fence }) => {
      this.#jobs.set(key, { fence, outcome, ended });
      begun.resolve({ fence });
      return outcome.promise;
    });
    // If nobody reports the job, its failure is nobody's.
    ended.catch(() => undefined);
    outcome.promise.catch(() => undefined);
    return Promise.race([begun.promise, ended]);
  }

  /** Reports the result of a job that this agent has begun, or that it failed. Rejects if another runs it by now. */
  async complete(key: string, report: { readonly result: unknown } | { readonly failed: string }): Promise<void> {
    const job = this.#jobs.get(key);
    if (job === undefined) throw new LeaseLostError(`You have not begun ${key}, or it is over.`, 'not_owner');
    this.#jobs.delete(key);
    if ('result' in report) {
      job.outcome.resolve(report.result);
      await job.ended;
    } else {
      job.outcome.reject(new Error(report.failed));
      await job.ended.catch(() => undefined);
    }
  }

  /** The agent has left. Everything that it held is free. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (const [key, { outcome }] of this.#jobs) outcome.reject(new Error(`The agent left before it did ${key}.`));
    const ended = [...this.#jobs.values()].map((job) => job.ended);
    this.#jobs.clear();
    const session = await this.#session?.catch(() => undefined);
    await Promise.allSettled([...ended, session?.end()]);
  }

  /** Opened with the first lock. If it was lost, the next lock opens another one. */
  async #openSession(): Promise<Session> {
    const known = this.#session;
    const session = await known?.catch(() => undefined);
    if (session?.isAlive()) return session;
    if (this.#isOver) throw new ClosedError('The agent has left.');
    // Of several calls at once, the first opens it for all.
    if (this.#session === known) this.#session = this.locks.session({ ttlMs: this.#ttlMs, owner: this.owner });
    return this.#session as Promise<Session>;
  }
}
