import type { SessionBody, SessionEnd, SessionView } from '../contract/views.ts';
import { callOf } from './calls.ts';
import { ask, type CallOptions, type Core, policyOf, releasePolicyOf } from './core.ts';
import { SessionLostError } from './errors.ts';
import { Keeper } from './keeper.ts';
import { LockScope } from './lock-scope.ts';
import { asyncDispose, type Mark } from './runtime.ts';

export interface SessionOptions extends CallOptions {
  /** How long it lives without a keepalive, 1,000 to 3,600,000. The service's default is 30 s. */
  readonly ttlMs?: number | undefined;
  /** Shown to others, also for the locks that are taken under the session. By default the client's owner. */
  readonly owner?: string | undefined;
}

/** Opens a session. If the answer is lost, the retry opens another session, and the first one, which has no locks, ends by itself. */
export async function openSession(
  core: Core,
  { ttlMs, owner = core.defaults.owner, signal, deadlineMs }: SessionOptions,
): Promise<Session> {
  const body = { ttlMs, owner };
  const call = callOf('createSession', 'POST /v1/{ns}/sessions', { ns: core.namespace }, { body });
  const opened = await core.caller.call(call, policyOf(core, { signal, deadlineMs }));
  return new Session(core, { ...(opened.body as SessionBody), owner }, opened.sentAt);
}

/**
 * A session: one keepalive for all the locks that are taken under it. Ending or losing it frees them all at once.
 *
 * @example
 * ```ts
 * await using session = await locks.session({ ttlMs: 15_000 });
 * await using a = await session.acquire('shard:1');
 * await using b = await session.acquire('shard:2');
 * ```
 */
export class Session extends LockScope {
  readonly ttlMs: number;
  readonly #keeper: Keeper;
  readonly #id: string;
  #ending: Promise<{ ended: boolean; released: number }> | undefined;

  /** @internal */
  constructor(
    core: Core,
    { sessionId, ttlMs, remainingMs, owner }: SessionBody & { readonly owner: string | undefined },
    from: Mark,
  ) {
    const at = { ns: core.namespace, id: sessionId };
    const keeper = new Keeper(core, {
      name: 'session',
      from,
      remainingMs,
      leaseMs: ttlMs,
      renewal: () => callOf('keepSessionAlive', 'POST /v1/{ns}/sessions/{id}/keepalive', at),
      unconfirmed: () => new SessionLostError('The session could not be kept alive in time, so it may have ended.'),
    });
    super(core, { id: sessionId, owner, tenure: keeper });
    this.ttlMs = ttlMs;
    this.#keeper = keeper;
    this.#id = sessionId;
    core.open.set(this, () => this.end());
  }

  /** Fires before the session can end on the service. Its reason is the `SessionLostError`. */
  get signal(): AbortSignal {
    return this.#keeper.signal;
  }

  /** True if the session surely still lives now, by both clocks. */
  isAlive(): boolean {
    return this.#keeper.isAlive();
  }

  /** How much time is surely left without another keepalive. */
  remainingMs(): number {
    return this.#keeper.remainingMs();
  }

  /**
   * Asks the service for the locks of this session.
   *
   * @example
   * ```ts
   * for (const { lock, fence } of await session.locks()) console.log(lock, fence);
   * ```
   */
  async locks(): Promise<readonly { readonly lock: string; readonly fence: number }[]> {
    const call = callOf('getSession', 'GET /v1/{ns}/sessions/{id}', { ns: this.core.namespace, id: this.#id });
    return (await ask<SessionView>(this.core, call)).locks;
  }

  /**
   * Ends the session and releases all its locks. Safe to repeat.
   *
   * @example
   * ```ts
   * const { released } = await session.end();
   * ```
   */
  end(): Promise<{ ended: boolean; released: number }> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** Ends the session, and never throws. */
  async [asyncDispose](): Promise<void> {
    await this.end().catch(() => undefined);
  }

  async #end(): Promise<{ ended: boolean; released: number }> {
    const { caller, observe, open } = this.core;
    this.#keeper.end();
    open.delete(this);
    const call = callOf('endSession', 'DELETE /v1/{ns}/sessions/{id}', { ns: this.core.namespace, id: this.#id });
    try {
      const { body, tries } = await caller.call(call, releasePolicyOf(this.core));
      const { ended, released = 0 } = body as SessionEnd;
      // If the request was sent more than once, an earlier try ended the session.
      return { ended: ended || tries > 1, released };
    } catch (error) {
      observe({ type: 'release-failed', name: 'session', error });
      throw error;
    }
  }
}
