import { type LeaseCalls, take } from '../client/acquire.ts';
import { callOf } from '../client/calls.ts';
import { ask, checkName } from '../client/core.ts';
import { HeldLock } from '../client/held-lock.ts';
import { type AcquireOptions, Holdfast, type LockEntry, type OnceOptions, type OnceResult } from '../client/index.ts';
import { leaseCalls, lockCalls, manyCalls } from '../client/lease-calls.ts';
import { resolve } from '../client/lock-options.ts';
import { runOnce } from '../client/once.ts';
import type { Runtime } from '../client/runtime.ts';
import { leaseTenure } from '../client/tenure.ts';
import type {
  GrantBody,
  ManyGrantBody,
  ManyReleaseBody,
  Release,
  SessionBody,
  SessionEnd,
  SessionView,
} from '../contract/views.ts';

/** A lock that is held and renewed, with its lease id. The SDK hides that id, but a command may pass it on. */
export interface Lease {
  readonly lock: HeldLock;
  readonly leaseId: string;
  readonly leaseMs: number;
}

type Waits = Pick<AcquireOptions, 'waitMs' | 'signal' | 'onWaiting'>;

/** Only the service knows the owner of a session that another process opened. */
const sessionOf = (id: string | undefined) => (id === undefined ? undefined : { owner: undefined });

/**
 * The SDK's client, plus what only a command line needs: leases and sessions that outlive the process that began them.
 * Only their id identifies them.
 */
export class Service extends Holdfast {
  /** The clocks and timers of this client, for others that must agree with it. */
  get runtime(): Runtime {
    return this.core.runtime;
  }

  /** Takes a lock and renews it until it is released. */
  async holdLease(name: string, options: AcquireOptions): Promise<Lease> {
    const { core } = this;
    const { waitMs = 0, signal, onWaiting } = options;
    const callsFor = lockCalls(core, checkName('lock', name), options, resolve(core, options));
    const taken = await take<GrantBody>(core, callsFor, { waitMs, signal, onWaiting });
    const { calls, body, remainingMs } = taken;
    const lock = new HeldLock({ core, calls, tenure: leaseTenure(core, taken, options) }, { ...body, lock: name });
    return { lock, leaseId: body.leaseId, leaseMs: body.leaseMs ?? remainingMs };
  }

  /** As {@link Holdfast.once}, for work that needs the lease. */
  onceLease<T>(key: string, options: OnceOptions, work: (lease: Lease) => Promise<T>): Promise<OnceResult<T>> {
    const leases = new Map<HeldLock, Lease>();
    const acquire = async (name: string, wanted: AcquireOptions): Promise<HeldLock> => {
      const lease = await this.holdLease(name, wanted);
      leases.set(lease.lock, lease);
      return lease.lock;
    };
    return runOnce(this.core, acquire, key, options, (lock) => work(leases.get(lock) as Lease));
  }

  /** Takes a lock and leaves it held. Returns the grant with its lease id. */
  async acquireLease(name: string, options: AcquireOptions, sessionId?: string): Promise<GrantBody> {
    const resolved = resolve(this.core, options, sessionOf(sessionId));
    const callsFor = lockCalls(this.core, checkName('lock', name), options, resolved, sessionId);
    return this.#take<GrantBody>(callsFor, options);
  }

  async acquireLeases(
    entries: readonly LockEntry[],
    options: AcquireOptions,
    sessionId?: string,
  ): Promise<ManyGrantBody> {
    const callsFor = manyCalls(this.core, entries, resolve(this.core, options, sessionOf(sessionId)), sessionId);
    return this.#take<ManyGrantBody>(callsFor, options);
  }

  renewLease(name: string, leaseId: string, leaseMs?: number): Promise<GrantBody> {
    return ask(this.core, leaseCalls(this.namespace, checkName('lock', name), leaseId).renew(leaseMs));
  }

  releaseLease(name: string, leaseId: string): Promise<Release> {
    return ask(this.core, leaseCalls(this.namespace, checkName('lock', name), leaseId).release());
  }

  renewLeases(names: readonly string[], leaseId: string, leaseMs?: number): Promise<ManyGrantBody> {
    return ask(this.core, this.#many(names, leaseId).renew(leaseMs));
  }

  releaseLeases(names: readonly string[], leaseId: string): Promise<ManyReleaseBody> {
    return ask(this.core, this.#many(names, leaseId).release());
  }

  createSession(body: { readonly ttlMs?: number; readonly owner?: string }): Promise<SessionBody> {
    return ask(this.core, callOf('createSession', 'POST /v1/{ns}/sessions', { ns: this.namespace }, { body }));
  }

  keepSession(id: string): Promise<SessionBody> {
    return ask(this.core, callOf('keepSessionAlive', 'POST /v1/{ns}/sessions/{id}/keepalive', this.#session(id)));
  }

  getSession(id: string): Promise<SessionView> {
    return ask(this.core, callOf('getSession', 'GET /v1/{ns}/sessions/{id}', this.#session(id)));
  }

  endSession(id: string): Promise<SessionEnd> {
    return ask(this.core, callOf('endSession', 'DELETE /v1/{ns}/sessions/{id}', this.#session(id)));
  }

  async #take<Body extends GrantBody | ManyGrantBody>(
    callsFor: (leaseId: string) => LeaseCalls,
    { waitMs = 0, signal, onWaiting }: Waits,
  ): Promise<Body> {
    const { body, remainingMs } = await take<Body>(this.core, callsFor, { waitMs, signal, onWaiting });
    return body.remainingMs === null ? body : { ...body, remainingMs };
  }

  #many(names: readonly string[], leaseId: string): LeaseCalls {
    return manyCalls(this.core, names, resolve(this.core, {}))(leaseId);
  }

  #session(id: string) {
    return { ns: this.namespace, id: checkName('session', id) };
  }
}
