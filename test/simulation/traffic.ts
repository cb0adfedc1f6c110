import { HoldfastError } from '../../src/client/errors.ts';
import type { HeldLock, HeldLocks } from '../../src/client/held-lock.ts';
import type { LockScope } from '../../src/client/lock-scope.ts';
import type { Session } from '../../src/client/session.ts';
import { demandOf } from '../../src/lock/state.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from '../world/chance.ts';
import type { Beliefs, Resource } from './beliefs.ts';
import type { Client } from './client.ts';
import type { Outside } from './outside.ts';
import { park, parkOnForeign } from './parking.ts';
import type { SocketPromises } from './socket-promises.ts';
import type { Verdicts } from './verdicts.ts';

interface Kind {
  readonly limit?: number;
  readonly permits?: number;
  readonly mode?: 'shared' | 'exclusive';
}

/** Few names, so that clients meet. `plain` is only ever taken by itself: its history is checked for linearizability. */
export const plainLocks = ['plain1', 'plain2'];
const mutexes = ['mutex1', 'mutex2', 'mutex3'];
/** Some clients take these and never release, and parked waiters wait for them. Only a timer ends a lease here. */
export const parkingLocks = ['yard1', 'yard2'];
/** Clients wait long for these, and so by push. */
export const pushLocks = ['line1', 'line2'];
/** Lengths for renewals by a client that asks for another time than at first. */
export const renewalsMs = [1_000, 4_000];
export const recordKeys = ['record1', 'record2'];

/** An acquire may take longer than its wait by this: one request with its poll, the renewal that confirms it, and a slow store. */
const acquireSlackMs = 120_000;

export interface TrafficParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly verdicts: Verdicts;
  readonly beliefs: Beliefs;
  readonly resources: ReadonlyMap<string, Resource>;
  /** If missing, nobody delivers, so nobody parks. */
  readonly outside?: Outside;
  readonly sockets: SocketPromises;
  /** True if no new work should start. */
  readonly isOver: () => boolean;
}

/** What one client does, again and again: it takes locks in every possible way, works under them, and releases them or not. */
export class Traffic {
  readonly #client: Client;
  readonly #parts: TrafficParts;
  readonly #chance: Chance;
  /** What it does now and since when, for the report of a wait that never ended. */
  doing = 'nothing';
  done = false;

  constructor(client: Client, parts: TrafficParts) {
    this.#client = client;
    this.#parts = parts;
    this.#chance = parts.chance;
  }

  async run(): Promise<void> {
    const { isOver, verdicts } = this.#parts;
    while (!isOver()) {
      await this.#client.idle(this.#chance.longTailed(300, 5_000));
      const [name, act] = this.#chance.pick(this.#acts);
      this.doing = `${name} since ${this.#parts.time.now()}`;
      try {
        await act();
        verdicts.count(`done ${name}`);
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        verdicts.count(`met ${error.code}`);
      }
    }
    this.doing = 'closing';
    await this.#client.locks.close();
    this.done = true;
  }

  readonly #acts: readonly [string, () => Promise<unknown>][] = [
    ['lock', () => this.#lock(this.#client.locks, this.#chance.pick(plainLocks))],
    ['lock', () => this.#lock(this.#client.locks, this.#chance.pick(plainLocks))],
    ['lock', () => this.#lock(this.#client.locks, this.#chance.pick(mutexes))],
    ['lock', () => this.#lock(this.#client.locks, this.#chance.pick(mutexes))],
    [
      'read-write',
      () => this.#lock(this.#client.locks, 'shelf1', { mode: this.#chance.happens(0.7) ? 'shared' : 'exclusive' }),
    ],
    ['semaphore', () => this.#lock(this.#client.locks, 'pool1', { limit: 3, permits: this.#chance.between(1, 3) })],
    ['park', () => this.#park(this.#chance.pick(parkingLocks))],
    ['park', () => this.#park(this.#chance.pick(parkingLocks))],
    ['park', () => this.#park(this.#chance.pick([...parkingLocks, ...mutexes]))],
    ['wait long', () => this.#waitLong()],
    ['wait long', () => this.#waitLong()],
    ['pry', () => this.#pry()],
    ['forget', () => this.#client.locks.acquire(this.#chance.pick(parkingLocks), { leaseMs: 2_000, autoRenew: false })],
    ['several', () => this.#several(this.#client.locks)],
    ['session', () => this.#session()],
    ['record', () => this.#record()],
    ['record', () => this.#record()],
    ['look', () => this.#look()],
    ['revoke', () => this.#revoke()],
  ];

  async #lock(scope: LockScope, name: string, kind: Kind = {}): Promise<void> {
    const chance = this.#chance;
    const waitMs = chance.pick([0, 500, 3_000, 12_000, 40_000]);
    const autoRenew = chance.happens(0.7);
    const options = {
      ...kind,
      waitMs,
      autoRenew,
      ...(scope === this.#client.locks ? { leaseMs: chance.pick([1_000, 2_000, 5_000]) } : {}),
      ...(chance.happens(0.2) ? { lockDelayMs: 500 } : {}),
      ...(waitMs === 0 && chance.happens(0.3) ? { tier: 'efficiency' as const } : {}),
    };
    const held = await this.#within(waitMs, name, scope.acquire(name, options));
    const plain = scope === this.#client.locks;
    const demand = demandOf(kind);
    await this.#work(held, [{ name, ...demand, fence: held.fence }], {
      mustRelease: autoRenew || !plain,
      mayChange: plain,
    });
  }

  async #several(scope: LockScope): Promise<void> {
    const chance = this.#chance;
    const names = [...new Set(Array.from({ length: chance.between(2, 3) }, () => chance.pick(mutexes)))];
    const waitMs = chance.pick([0, 0, 2_000, 10_000]);
    const leaseMs = scope === this.#client.locks ? { leaseMs: chance.pick([1_000, 5_000]) } : {};
    const held = await this.#within(waitMs, names.join(), scope.acquireAll(names, { waitMs, ...leaseMs }));
    const claims = names.map((name) => ({ name, ...demandOf({}), fence: held.fence(name) }));
    await this.#work(held, claims, { mustRelease: true, mayChange: scope === this.#client.locks });
  }

  /** Waits without asking, and works when its grant is delivered. */
  async #park(name: string): Promise<void> {
    const { outside, chance, verdicts, sockets } = this.#parts;
    if (outside === undefined) return this.#lock(this.#client.locks, name);
    const held = await park(this.#client, name, { outside, chance, verdicts, sockets });
    if (held === undefined) return;
    const claim = { name, ...demandOf({}), fence: held.fence };
    await this.#work(held, [claim], { mustRelease: true, mayChange: true });
  }

  /** So long that the SDK waits by push, with several waits on one connection. */
  async #waitLong(): Promise<void> {
    const chance = this.#chance;
    const wait = async (name: string) => {
      const waitMs = chance.pick([20_000, 50_000, 90_000]);
      const leaseMs = chance.pick([2_000, 10_000, 60_000]);
      const held = await this.#within(waitMs, name, this.#client.locks.acquire(name, { waitMs, leaseMs }));
      const claim = { name, ...demandOf({}), fence: held.fence };
      await this.#work(held, [claim], { mustRelease: true, mayChange: true });
    };
    const names = chance.happens(0.4) ? pushLocks : [chance.pick(pushLocks)];
    const waits = await Promise.allSettled(names.map(wait));
    for (const outcome of waits) if (outcome.status === 'rejected') throw outcome.reason;
  }

  async #pry(): Promise<void> {
    const connectionId = this.#parts.sockets.anyOf(this.#chance, this.#client.process.name);
    if (connectionId !== undefined) await parkOnForeign(this.#client, this.#chance.pick(pushLocks), connectionId);
  }

  async #session(): Promise<void> {
    const chance = this.#chance;
    const session: Session = await this.#client.locks.session({ ttlMs: chance.pick([1_500, 4_000]) });
    for (let turns = chance.between(1, 3); turns > 0; turns--) {
      try {
        if (chance.happens(0.2)) await this.#lock(session, 'pool1', { limit: 3, permits: chance.between(1, 3) });
        else await (chance.happens(0.3) ? this.#several(session) : this.#lock(session, chance.pick(mutexes)));
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        this.#parts.verdicts.count(`met ${error.code} under a session`);
      }
    }
    if (chance.happens(0.9)) await session.end();
  }

  /** Every wait ends at its deadline, or a limited time later, even with many faults. */
  async #within<H>(waitMs: number, name: string, acquiring: Promise<H>): Promise<H> {
    const { time, verdicts } = this.#parts;
    const { process } = this.#client;
    const [from, pausedMs] = [time.now(), process.pausedMs];
    try {
      return await acquiring;
    } catch (error) {
      // Everybody may wait here. If a connection ended, the caller must not see an error.
      if (error instanceof HoldfastError && error.code === 'forbidden')
        verdicts.breach('traffic', `${process.name} was not allowed to wait for ${name}`, error.message);
      throw error;
    } finally {
      const tookMs = time.now() - from - (process.pausedMs - pausedMs);
      if (tookMs > waitMs + acquireSlackMs)
        verdicts.breach('bounded', `${process.name} waited ${tookMs} ms for ${name}, not ${waitMs}`);
    }
  }

  /** Reads and writes what the locks protect, sometimes for too long, sometimes without a check. Then it releases them, or not. */
  async #work(
    held: HeldLock | HeldLocks,
    claims: readonly { name: string; permits: number; limit: number; fence: number }[],
    { mustRelease, mayChange }: { mustRelease: boolean; mayChange: boolean },
  ): Promise<void> {
    const chance = this.#chance;
    const { beliefs, resources } = this.#parts;
    const { process } = this.#client;
    const isHeld = () => held.isHeld();
    for (const claim of claims) beliefs.begin({ ...claim, together: claims, process, isHeld });
    const careful = chance.happens(0.5);
    try {
      for (let steps = chance.between(1, 3); steps > 0 && isHeld(); steps--) {
        for (const { name, fence } of claims) {
          const resource = resources.get(name);
          const seen = resource?.read(fence);
          await this.#client.idle(chance.longTailed(150, 4_000));
          beliefs.check(name);
          if (seen !== undefined && (!careful || isHeld())) resource?.write(fence, seen);
        }
        if (chance.happens(0.2))
          await held.renew(mayChange && chance.happens(0.3) ? chance.pick(renewalsMs) : undefined);
      }
    } finally {
      // If it does not release, nothing renews the lease, and it expires.
      if (mustRelease || chance.happens(0.7)) await held.release();
    }
  }

  async #record(): Promise<void> {
    const chance = this.#chance;
    const record = this.#client.locks.record<number>(chance.pick(recordKeys));
    if (chance.happens(0.1)) {
      const found = await record.get();
      if (found !== undefined) await record.delete({ version: found.version }, fenceOf(found.fence));
      return;
    }
    const found = await record.get();
    // After a deletion the floor is no longer shown, but it is still checked.
    const fence = chance.happens(found === undefined ? 0.7 : 0.05)
      ? { fence: this.#parts.time.now() }
      : fenceOf(found?.fence ?? null);
    await record.update((count = 0) => count + 1, { triesMax: 4, ...fence });
  }

  async #look(): Promise<void> {
    const { locks } = this.#client;
    await locks.inspect(this.#chance.pick([...plainLocks, ...mutexes, 'shelf1', 'pool1']));
    for await (const _ of locks.list());
  }

  async #revoke(): Promise<void> {
    const { locks } = this.#client;
    const name = this.#chance.pick(mutexes);
    const { holders } = await locks.inspect(name);
    const [holder] = holders;
    if (holder !== undefined) await locks.revoke(name, { fence: holder.fence, reason: 'the simulation says so' });
  }
}

const fenceOf = (fence: number | null): { fence?: number } => (fence === null ? {} : { fence });
