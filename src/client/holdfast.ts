import type {
  FenceCheck,
  GrantBody,
  Health,
  LockEvent,
  LockSummary,
  LockView,
  Notify,
  Release,
  Waiting,
} from '../contract/views.ts';
import { defined } from '../tools/collections.ts';
import { Turns } from '../tools/turns.ts';
import { Breaker, type BreakerOptions } from './breaker.ts';
import { Caller } from './caller.ts';
import { callOf } from './calls.ts';
import {
  ask,
  type CallOptions,
  type Core,
  checkName,
  checkNamespace,
  type Defaults,
  type Patience,
  patienceDefault,
  policyOf,
} from './core.ts';
import { Election, type ElectionOptions } from './election.ts';
import { ClosedError, LeaseLostError } from './errors.ts';
import { optionsAndWork } from './held.ts';
import { type DetachedLease, HeldLock } from './held-lock.ts';
import { HttpTransport, type HttpTransportOptions } from './http-transport.ts';
import { leaseCalls, lockCalls } from './lease-calls.ts';
import { checkFailOpen, type LeaseOptions, resolve, type TryOptions } from './lock-options.ts';
import { LockScope } from './lock-scope.ts';
import { type Observe, observer } from './observer.ts';
import { type OnceOptions, type OnceResult, runOnce } from './once.ts';
import { processName } from './process-name.ts';
import { RecordHandle } from './record.ts';
import { asyncDispose, pause, type Runtime, systemRuntime } from './runtime.ts';
import { openSession, type Session, type SessionOptions } from './session.ts';
import { Sockets } from './sockets.ts';
import { leaseTenure } from './tenure.ts';
import { safeTracing, type Tracing } from './tracing.ts';
import type { Call, Transport } from './transport.ts';
import { type WatchEvent, type WatchTarget, watchEvents } from './watch.ts';

/** The options of every client, with or without HTTP. */
export interface ClientOptions extends Defaults {
  /** Names are unique within a namespace. An IAM policy can limit a caller to one namespace. */
  readonly namespace: string;
  /** Called at retries, renewals and losses, and when the breaker opens or closes. For logs and metrics. */
  readonly onEvent?: Observe | undefined;
  /** How long a call may take, if the call does not say so. A wait is added to it. By default 5,000, and 2,000 for an acquire. */
  readonly deadlineMs?: number | undefined;
  /** Separate limits for requests, retries and releases. */
  readonly patience?: Partial<Patience> | undefined;
  readonly breaker?: BreakerOptions | undefined;
  /** Makes traces of waiting and holding: `openTelemetry()` of `holdfast/opentelemetry`. */
  readonly tracing?: Tracing | undefined;
  /** Clocks, timers and random numbers. For tests only. */
  readonly runtime?: Runtime | undefined;
}

/** The options of a client over HTTP. */
export interface HoldfastOptions extends ClientOptions, HttpTransportOptions {}

/** The options of a client without HTTP, such as direct mode or the twin. */
export interface TransportOptions extends ClientOptions {
  readonly transport: Transport;
}

/** How to wait without running. */
export interface ParkOptions extends Omit<TryOptions, 'signal' | 'autoRenew' | 'holdMsMax' | 'onUnavailable'> {
  readonly notify: Notify;
  /** Up to 86,400,000. */
  readonly waitMs: number;
  /** 16 to 128 of A-Z, a-z, 0-9, _ and -. If a process repeats the call with the same one, it has one effect. By default a new one. */
  readonly leaseId?: string | undefined;
}

/** How many waits are parked at the same time. A service answers so many well within the time that a waiter may be absent, also on one small machine. */
const parksAtOnceMax = 32;

/** The result of `park`: granted at once, or waiting in the queue. The leaseId gives the right to the lock: treat it like a password. */
export type Parked =
  | { readonly status: 'granted'; readonly lock: string; readonly leaseId: string; readonly fence: number }
  | ({ readonly status: 'waiting'; readonly lock: string; readonly leaseId: string } & Waiting);

/**
 * The client of the lock service.
 *
 * @example
 * ```ts
 * const locks = new Holdfast({ url, namespace: 'payments', auth: sigv4() });
 * await locks.withLock('wallet:42', { leaseMs: 30_000, waitMs: 10_000 }, async ({ fence, signal }) => {
 *   await debit('42', 5, { fence, signal });
 * });
 * ```
 */
export class Holdfast extends LockScope {
  readonly #closing: AbortController;
  readonly #closed: AbortController;
  #close: Promise<void> | undefined;

  constructor(options: HoldfastOptions | TransportOptions) {
    checkFailOpen(options);
    const runtime = options.runtime ?? systemRuntime;
    const observe = observer(options.onEvent);
    const transport = 'transport' in options ? options.transport : new HttpTransport(options);
    const breaker = new Breaker(runtime, options.breaker, (state) => observe({ type: 'breaker', state }));
    const closing = new AbortController();
    const closed = new AbortController();
    const { leaseMs, waitMs, tier, onUnavailable } = options;
    // An authenticated caller has a name already. A transport that was given knows its callers.
    const isUnnamed = !('transport' in options) && options.auth === undefined;
    const owner = options.owner ?? (isUnnamed ? processName() : undefined);
    const namespace = checkNamespace(options.namespace);
    const caller = new Caller({ transport, runtime, breaker, observe, closed: closed.signal });
    super({
      namespace,
      transport,
      runtime,
      observe,
      tracing: safeTracing(options.tracing),
      caller,
      sockets: new Sockets({ namespace, transport, caller, runtime }),
      parkTurns: new Turns(parksAtOnceMax),
      patience: patienceOf(options),
      defaults: { owner, leaseMs, waitMs, tier, onUnavailable },
      open: new Map(),
      background: new Set(),
      closing: closing.signal,
    } satisfies Core);
    this.#closing = closing;
    this.#closed = closed;
  }

  get namespace(): string {
    return this.core.namespace;
  }

  /**
   * Opens a session: one keepalive for many locks.
   *
   * @example
   * ```ts
   * await using session = await locks.session();
   * await using shard = await session.acquire('shard:7');
   * ```
   */
  session(options: SessionOptions = {}): Promise<Session> {
    return openSession(this.core, options);
  }

  /**
   * Becomes a candidate for leadership under this name, until the election is closed.
   *
   * @example
   * ```ts
   * await using election = locks.elect('scheduler', { onElected: ({ epoch, signal }) => run({ epoch, signal }) });
   * ```
   */
  elect(name: string, options: ElectionOptions): Election {
    checkName('lock', name);
    return new Election(this.core, name, options, (wanted) =>
      this.acquire(name, { ...wanted, onUnavailable: 'fail-closed' }),
    );
  }

  /**
   * Does a job once across all processes. With `everyMs`, it is once in each window of time. Without it, it is once for its
   * key, like an idempotency key. Later callers get the same result. Callers at the same time wait for it, up to `waitMs`.
   * The result is JSON of at most 255 KiB.
   *
   * If a run dies, another caller does the job again: one that waits longer than the lease of the dead run, or one that
   * comes later. A caller that returns before has `done: false`, and `onEvent` gets `not-done`. Side effects of the first
   * run then happen twice, unless they carry the fence. A runner that lost the lock can't complete the job and gets `StaleFenceError`.
   *
   * @example
   * ```ts
   * await locks.once('nightly-report', { everyMs: 86_400_000, waitMs: 60_000 }, ({ fence, signal }) => settle({ fence, signal }));
   * const { value } = await locks.once(`charge:${event.id}`, {}, ({ fence }) => charge(event, fence));
   * ```
   */
  once<T>(key: string, work: (lock: HeldLock) => T | Promise<T>): Promise<OnceResult<T>>;
  once<T>(key: string, options: OnceOptions, work: (lock: HeldLock) => T | Promise<T>): Promise<OnceResult<T>>;
  once<T>(
    key: string,
    optionsOrWork: OnceOptions | ((lock: HeldLock) => T | Promise<T>),
    work?: (lock: HeldLock) => T | Promise<T>,
  ): Promise<OnceResult<T>> {
    const [options, run] = optionsAndWork('once', optionsOrWork, work);
    return runOnce(this.core, (name, wanted) => this.acquire(name, wanted), key, options, run);
  }

  /**
   * A record of the service: compare-and-swap with a fence floor.
   *
   * @example
   * ```ts
   * await locks.record<number>('hits').update((hits = 0) => hits + 1);
   * ```
   */
  record<T = unknown>(key: string): RecordHandle<T> {
    return new RecordHandle<T>(this.core, key);
  }

  /**
   * The events of one lock, or of all locks with the same prefix, as they happen. Reconnects by itself.
   *
   * @example
   * ```ts
   * for await (const event of locks.watch({ prefix: 'wallet:' })) console.log(event.type);
   * ```
   */
  watch(target: WatchTarget): AsyncGenerator<WatchEvent, void, undefined> {
    return watchEvents(this.core, target);
  }

  /**
   * The past events of a lock, newest first, over all pages. They are kept for seven days.
   *
   * @example
   * ```ts
   * for await (const { at, type, owner } of locks.history('wallet:42')) console.log(at, type, owner);
   * ```
   */
  async *history(
    name: string,
    options: CallOptions & { readonly pageSize?: number } = {},
  ): AsyncGenerator<LockEvent, void, undefined> {
    const call = (cursor?: string) =>
      callOf('lockHistory', 'GET /v1/{ns}/locks/{name}/history', this.#at(name), {
        query: { limit: options.pageSize, cursor },
      });
    for await (const { events } of this.#pages<{ events: LockEvent[] }>(call, options)) yield* events;
  }

  /**
   * All locks of the namespace by name, over all pages.
   *
   * @example
   * ```ts
   * for await (const { lock, holders } of locks.list({ state: 'held' })) console.log(lock, holders);
   * ```
   */
  async *list(
    options: CallOptions & {
      readonly prefix?: string;
      readonly state?: 'held' | 'free';
      readonly pageSize?: number;
    } = {},
  ): AsyncGenerator<LockSummary, void, undefined> {
    const { prefix, state, pageSize: limit } = options;
    const at = { ns: this.namespace };
    const call = (cursor?: string) =>
      callOf('listLocks', 'GET /v1/{ns}/locks', at, { query: { prefix, state, limit, cursor } });
    for await (const { locks } of this.#pages<{ locks: LockSummary[] }>(call, options)) yield* locks;
  }

  /**
   * The holders and the queue of a lock.
   *
   * @example
   * ```ts
   * const { state, holders, queue } = await locks.inspect('wallet:42');
   * ```
   */
  inspect(name: string, options: CallOptions = {}): Promise<LockView> {
    return ask(this.core, callOf('inspectLock', 'GET /v1/{ns}/locks/{name}', this.#at(name)), options);
  }

  /**
   * Says whether a fence holds now. The answer may be stale when it arrives, so it is for people and dashboards. The
   * resource that the lock protects must check the fence itself.
   *
   * @example
   * ```ts
   * const { valid } = await locks.check('wallet:42', fence);
   * ```
   */
  check(name: string, fence: number, options: CallOptions = {}): Promise<FenceCheck> {
    const call = callOf('checkFence', 'GET /v1/{ns}/locks/{name}/check', this.#at(name), { query: { fence } });
    return ask(this.core, call, options);
  }

  /**
   * Ends the lease of that fence against its holder's will. The next waiter gets the lock. Throws `LeaseLostError` if that
   * fence does not hold. Late writes of the holder are refused only where the fence is checked. The holder's error, the
   * history and the event say who revoked and why: the caller's identity, or this client's `owner` if the service does
   * not authenticate callers.
   *
   * @example
   * ```ts
   * await locks.revoke('wallet:42', { fence, reason: 'stuck since Tuesday' });
   * ```
   */
  async revoke(
    name: string,
    options: CallOptions & { readonly fence: number; readonly reason: string },
  ): Promise<void> {
    const body = { fence: options.fence, reason: options.reason, ...defined({ by: this.core.defaults.owner }) };
    await ask(this.core, callOf('revokeLock', 'POST /v1/{ns}/locks/{name}/revoke', this.#at(name), { body }), options);
  }

  /**
   * Joins the queue as a parked waiter, which does not run while it waits. The service delivers the grant by event, task token,
   * callback of a durable function or WebSocket.
   *
   * @example
   * ```ts
   * await locks.park('wallet:42', { waitMs: 3_600_000, notify: { type: 'task-token', token } });
   * ```
   */
  async park(name: string, { notify, waitMs, deadlineMs, ...options }: ParkOptions): Promise<Parked> {
    const at = this.#at(name);
    const { owner, leaseMs } = resolve(this.core, options);
    const { leaseId = this.core.runtime.newId() } = options;
    const body = { ...options, waitMs, notify, leaseId, owner, leaseMs };
    const call = callOf('acquireLock', 'POST /v1/{ns}/locks/{name}/acquire', at, { body });
    return ask(this.core, call, { deadlineMs });
  }

  /**
   * Goes on with a lease that was granted to a parked waiter, or that another process {@link HeldLock.detach | detached}.
   *
   * @example
   * ```ts
   * await using lock = await locks.adopt(event.grant); // { lock, leaseId } from the task token's output.
   * ```
   */
  async adopt(
    lease: Pick<DetachedLease, 'lock' | 'leaseId'>,
    options: Pick<LeaseOptions, 'leaseMs' | 'autoRenew' | 'holdMsMax' | 'signal' | 'deadlineMs'> = {},
  ): Promise<HeldLock> {
    const { core } = this;
    const lock = checkName('lock', lease.lock);
    const calls = lockCalls(core, lock, {}, resolve(core, {}))(lease.leaseId);
    const waiting = core.tracing.wait({ namespace: core.namespace, locks: [lock] });
    const answer = await core.caller.call(calls.renew(options.leaseMs), policyOf(core, options)).catch((error) => {
      waiting.failed(error);
      throw error;
    });
    const body = answer.body as GrantBody;
    const remainingMs = body.remainingMs ?? body.leaseMs ?? 0;
    const tenure = leaseTenure(core, { calls, body, from: answer.sentAt, remainingMs }, options);
    const traced = waiting.granted({ fences: [body.fence], waitedMs: 0 });
    return new HeldLock({ core, calls, tenure, traced }, { ...body, lock, leaseId: lease.leaseId });
  }

  /**
   * Releases a lease that was granted elsewhere, or the place of a parked waiter in the queue. If the lease had already
   * ended, it does not throw: the result says so.
   *
   * @example
   * ```ts
   * await locks.release({ lock: 'wallet:42', leaseId });
   * ```
   */
  async release(lease: Pick<DetachedLease, 'lock' | 'leaseId'>, options: CallOptions = {}): Promise<Release> {
    const name = checkName('lock', lease.lock);
    try {
      return await ask(this.core, leaseCalls(this.namespace, name, lease.leaseId).release(), options);
    } catch (error) {
      if (!(error instanceof LeaseLostError)) throw error;
      return { released: false, reason: error.reason as Release['reason'] };
    }
  }

  /**
   * Says that the service works. Throws `UnavailableError` if it doesn't.
   *
   * @example
   * ```ts
   * const { version } = await locks.health();
   * ```
   */
  health(options: CallOptions = {}): Promise<Health> {
    return ask(this.core, callOf('health', 'GET /v1/health', {}), options);
  }

  /**
   * Ends all waits, stops renewing and releases everything that is held. After that, nothing keeps the process alive. It takes
   * no longer than one release may take. A lease that could not be released in that time ends by itself. Safe to repeat.
   *
   * @example
   * ```ts
   * await locks.close();
   * ```
   */
  close(): Promise<void> {
    this.#close ??= this.#shut();
    return this.#close;
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  async #shut(): Promise<void> {
    const { runtime, patience, transport } = this.core;
    this.#closing.abort(new ClosedError('The client was closed.'));
    const bound = new AbortController();
    const late = pause(runtime, patience.releaseMs, bound.signal).catch(() => undefined);
    await Promise.race([this.#giveAllBack(), late]);
    bound.abort();
    this.core.sockets.close();
    this.#closed.abort(new ClosedError('The client is closed.'));
    await transport.close?.();
  }

  /** A wait gives its place back only after it has ended, and may have been granted just before. So it looks until nothing new is there. */
  async #giveAllBack(): Promise<void> {
    const { open, background } = this.core;
    const asked = new Set<object>();
    for (;;) {
      const held = [...open].filter(([one]) => !asked.has(one));
      if (held.length + background.size === 0) return;
      for (const [one] of held) asked.add(one);
      await Promise.allSettled([...held.map(([, release]) => release()), ...background]);
    }
  }

  #at(name: string) {
    return { ns: this.namespace, name: checkName('lock', name) };
  }

  async *#pages<Page extends object>(call: (cursor?: string) => Call, options: CallOptions): AsyncGenerator<Page> {
    let cursor: string | undefined;
    do {
      const page: Page = await ask(this.core, call(cursor), options);
      yield page;
      cursor = (page as { cursor?: string }).cursor;
    } while (cursor !== undefined);
  }
}

/** If `deadlineMs` is given, it sets all limits. An acquire may retry for half of it, because an answer may take the other half. */
function patienceOf({ deadlineMs, patience }: Pick<ClientOptions, 'deadlineMs' | 'patience'>): Patience {
  const bounded = deadlineMs === undefined ? {} : { retryMs: deadlineMs, tryMs: deadlineMs / 2 };
  return { ...patienceDefault, ...bounded, ...patience };
}
