import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import {
  DeadlockError,
  Holdfast,
  type HoldfastOptions,
  LockHeldError,
  type Session,
  StaleFenceError,
  UnavailableError,
  WaitTimeoutError,
  type WatchEvent,
} from '../../../src/client/index.ts';
import { localCredentials } from '../../../src/local/engine/endpoint.ts';
import { createDirect } from '../../../src/server/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { exactOnly, untilIndexesFollow } from '../../support/engine.ts';
import { eventually } from '../../support/eventually.ts';
import { patient, startService, type TestService } from '../../support/service.ts';

let service: TestService;
beforeAll(async () => {
  // Short polls, so that a wait goes through several of them.
  service = await startService({ pollMs: 300 });
});
afterAll(() => service.stop());

type More = Partial<Omit<HoldfastOptions, 'url' | 'namespace'>>;

const overHttp = (more: More = {}): Holdfast =>
  new Holdfast({ url: service.url, namespace: 'test', patience: patient, ...more });

const direct = (more: More = {}): Holdfast => {
  const { endpoint, region } = inject('engine');
  return createDirect({
    tableName: service.table,
    region,
    endpoint,
    credentials: localCredentials,
    namespace: 'test',
    patience: patient,
    ...more,
  });
};

/** The same promises for both ways to the table. Both use the same table, so each also meets the other's locks. */
describe.concurrent.each([
  { way: 'over HTTP', connect: overHttp, connectOther: direct },
  { way: 'in direct mode', connect: direct, connectOther: overHttp },
])('the client $way', ({ connect, connectOther }) => {
  let one: Holdfast;
  let other: Holdfast;
  beforeAll(() => {
    one = connect({ owner: 'one' });
    other = connectOther({ owner: 'other' });
  });
  afterAll(async () => {
    await Promise.all([one.close(), other.close()]);
  });

  const newName = () => randomUUID();

  it('takes, renews and releases a lock, with rising fences', async () => {
    const name = newName();
    const first = await one.acquire(name, { leaseMs: 30_000 });
    await first.renew(60_000);
    expect(first.remainingMs()).toBeGreaterThan(50_000);
    expect(await first.release()).toEqual({ released: true, reason: 'ok' });
    const fence = await other.withLock(name, (lock) => lock.fence);
    expect(fence).toBeGreaterThan(first.fence);
    expect(await other.check(name, fence)).toMatchObject({ valid: false, state: 'free' });
  });

  it('distinguishes a held lock from a free one, and shows the holder', async () => {
    const name = newName();
    await using lock = await one.acquire(name);
    expect(await other.tryAcquire(name)).toMatchObject({ ok: false, holders: [{ owner: 'one', fence: lock.fence }] });
    await expect(other.acquire(name, { waitMs: 0 })).rejects.toThrow(LockHeldError);
    expect(await one.inspect(name)).toMatchObject({ state: 'held', holders: [{ owner: 'one' }], queueDepth: 0 });
  });

  it('waits through several polls and is granted on release', async () => {
    const name = newName();
    const held = await one.acquire(name);
    const waiting = other.acquire(name, { waitMs: 20_000 });
    await eventually(async () => expect((await one.inspect(name)).queue[0]?.waitingMs).toBeGreaterThanOrEqual(700));
    await held.release();
    const lock = await waiting;
    expect(lock.fence).toBeGreaterThan(held.fence);
    expect(lock.waitedMs).toBeGreaterThanOrEqual(700);
    await lock.release();
  });

  it('gives up when its wait is over', async () => {
    const name = newName();
    await using _ = await one.acquire(name);
    const error = await other.acquire(name, { waitMs: 700 }).catch((caught) => caught);
    expect(error).toBeInstanceOf(WaitTimeoutError);
    expect(error.waitedMs).toBeGreaterThanOrEqual(700);
    expect((await one.inspect(name)).queueDepth).toBe(0);
  });

  it('gives up its place when its signal fires', async () => {
    const name = newName();
    await using _ = await one.acquire(name);
    const giveUp = new AbortController();
    const waiting = other.acquire(name, { waitMs: 20_000, signal: giveUp.signal }).catch((error) => error);
    await eventually(async () => expect((await one.inspect(name)).queueDepth).toBe(1));
    giveUp.abort();
    expect((await waiting).name).toBe('AbortError');
    await eventually(async () => expect((await one.inspect(name)).queueDepth).toBe(0));
  });

  it(
    'informs a holder that was revoked',
    exactOnly('a repeat after a lost answer finds nothing to revoke'),
    async () => {
      const name = newName();
      // The loss is noticed at the next renewal.
      const lock = await one.acquire(name, { leaseMs: 5_000 });
      const lost = new Promise((resolve) => lock.onLost(resolve));
      await other.revoke(name, { fence: lock.fence, reason: 'for the test' });
      expect(await lost).toMatchObject({ code: 'lease-lost', reason: 'revoked' });
    },
  );

  it('shares a semaphore and a read-write lock', async () => {
    const [gpu, catalogue] = [newName(), newName()];
    await using _one = await one.semaphore(gpu, 2).acquire();
    await using _two = await other.semaphore(gpu, 2).acquire();
    expect((await one.semaphore(gpu, 2).tryAcquire()).ok).toBe(false);
    await using _reading = await one.readLock(catalogue).acquire();
    expect((await other.writeLock(catalogue).tryAcquire()).ok).toBe(false);
    await using alsoReading = await other.readLock(catalogue).acquire();
    expect(alsoReading.mode).toBe('shared');
  });

  it('takes several locks at once, all or none', async () => {
    const [a, b] = [newName(), newName()];
    const held = await other.acquire(b);
    expect(await one.tryAcquireAll([a, b])).toMatchObject({ ok: false, blockedBy: [b] });
    const waiting = one.acquireAll([b, a], { waitMs: 20_000 });
    await held.release();
    const both = await waiting;
    expect(both.names).toEqual([b, a]);
    expect(both.fence(b)).toBeGreaterThan(held.fence);
    await both.renew();
    expect(await both.release()).toEqual({ released: true, reason: 'ok' });
    expect((await other.inspect(a)).state).toBe('free');
  });

  it(
    'keeps locks by a session, and frees them with it',
    exactOnly('a repeat after a lost answer is told that its first try did it'),
    async () => {
      const [a, b] = [newName(), newName()];
      const session = await one.session({ ttlMs: 30_000 });
      const lock = await session.acquire(a);
      await session.acquire(b);
      await lock.renew();
      expect((await session.locks()).map((held) => held.lock).toSorted()).toEqual([a, b].toSorted());
      const waiting = other.acquire(a, { waitMs: 20_000 });
      expect(await session.end()).toMatchObject({ ended: true });
      expect((await waiting).fence).toBeGreaterThan(lock.fence);
      expect(lock.isHeld()).toBe(false);
    },
  );

  it('breaks a deadlock between two sessions', async () => {
    const [a, b] = [newName(), newName()];
    await using mine = await one.session();
    await using theirs = await other.session();
    await mine.acquire(a);
    await theirs.acquire(b);
    const orGiveWay = (session: Session) => async (error: unknown) => {
      await session.end();
      throw error;
    };
    const outcomes = await Promise.allSettled([
      mine.acquire(b, { waitMs: 20_000 }).catch(orGiveWay(mine)),
      theirs.acquire(a, { waitMs: 20_000 }).catch(orGiveWay(theirs)),
    ]);
    const victims = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(victims).toHaveLength(1);
    expect(victims[0]).toBeInstanceOf(DeadlockError);
    expect(victims[0].cycle.length).toBeGreaterThan(1);
  });

  it('keeps records by compare-and-swap, and refuses a stale fence', async () => {
    const name = newName();
    const record = one.record<{ balance: number }>(name);
    expect(await record.get()).toBeUndefined();
    const old = await one.acquire(name);
    await record.put({ balance: 10 }, 'absent', { fence: old.fence });
    await old.release();
    await using later = await other.acquire(name);
    await other.record<{ balance: number }>(name).update((now) => ({ balance: (now?.balance ?? 0) - 3 }), {
      fence: later.fence,
    });
    const late = record.put({ balance: 0 }, 'present', { fence: old.fence });
    await expect(late).rejects.toThrow(StaleFenceError);
    expect(await record.get()).toMatchObject({ value: { balance: 7 }, version: 2, fence: later.fence });
    await expect(record.put({ balance: 0 }, { version: 2 })).rejects.toMatchObject({ code: 'precondition-required' });
  });

  it('counts right when many update at once', async () => {
    const hits = newName();
    const clients = [one, other, one, other, one, other];
    await Promise.all(
      clients.map((client) => client.record<number>(hits).update((count = 0) => count + 1, { triesMax: 50 })),
    );
    expect((await one.record<number>(hits).get())?.value).toBe(clients.length);
  });

  it('elects one leader, and another when it closes', async () => {
    const name = newName();
    const log: string[] = [];
    const stand = (client: Holdfast, who: string) =>
      new Promise<{ close: () => Promise<void> }>((resolve) => {
        const election = client.elect(name, {
          onElected: () => {
            log.push(who);
            resolve(election);
          },
        });
      });
    const first = await stand(one, 'one');
    const second = stand(other, 'other');
    await eventually(async () => expect((await one.inspect(name)).queueDepth).toBe(1));
    expect(log).toEqual(['one']);
    await first.close();
    await (await second).close();
    expect(log).toEqual(['one', 'other']);
  });

  it('lists locks over pages', async () => {
    const prefix = newName();
    for (const part of ['a', 'b', 'c']) await one.withLock(`${prefix}:${part}`, () => undefined);
    await untilIndexesFollow();
    const names: string[] = [];
    for await (const { lock } of other.list({ prefix, pageSize: 2 })) names.push(lock);
    expect(names).toEqual(['a', 'b', 'c'].map((part) => `${prefix}:${part}`));
  });

  it('shows what happened to a lock', async () => {
    const name = newName();
    await one.withLock(name, () => undefined);
    // The notifier writes it, from the stream.
    await eventually(async () => {
      const types: string[] = [];
      for await (const { type } of other.history(name, { pageSize: 1 })) types.push(type);
      expect(types).toEqual(['released', 'granted']);
    });
  });

  it('names what is wrong with a request', async () => {
    await expect(one.acquire('a', { leaseMs: 5 })).rejects.toMatchObject({
      code: 'invalid-request',
      errors: [{ field: 'leaseMs' }],
    });
    await expect(one.acquire('a b')).rejects.toMatchObject({ code: 'invalid-request' });
  });

  it('carries a detached lease over to another client', async () => {
    const lock = await one.acquire(newName());
    await using adopted = await other.adopt(lock.detach());
    expect(adopted.fence).toBe(lock.fence);
  });

  it('answers the health check', async () => {
    expect(await one.health()).toMatchObject({ status: 'ok' });
  });

  it('releases all that it holds when it closes', async () => {
    const [a, b] = [newName(), newName()];
    const brief = connect();
    await brief.acquire(a);
    await (await brief.session()).acquire(b);
    await brief.close();
    expect(await Promise.all([a, b].map(async (name) => (await other.inspect(name)).state))).toEqual(['free', 'free']);
  });

  it('shows no lease id to others', async () => {
    const lock = await one.acquire(newName());
    const shown = JSON.stringify([await other.inspect(lock.name), await other.tryAcquire(lock.name), lock, one]);
    expect(shown).not.toContain(lock.detach().leaseId);
  });
});

describe.concurrent('watch', () => {
  it('delivers events as they happen', async () => {
    await using locks = overHttp();
    const name = randomUUID();
    const seen: WatchEvent[] = [];
    for await (const event of locks.watch({ lock: name })) {
      seen.push(event);
      if (event.type === 'connected') await locks.withLock(name, () => undefined);
      if (event.type === 'released') break;
    }
    expect(seen.map(({ type }) => type)).toEqual(['connected', 'granted', 'released']);
  });

  it('is not offered in direct mode, and says so', async () => {
    await using locks = direct();
    await expect(locks.watch({ lock: 'a' }).next()).rejects.toMatchObject({ code: 'unsupported' });
  });
});

describe.concurrent('a parked waiter', () => {
  it('gets its grant by WebSocket and adopts it', async () => {
    await using locks = overHttp();
    const name = randomUUID();
    const held = await locks.acquire(name);
    for await (const event of locks.watch({ lock: name })) {
      if (event.type === 'connected') {
        const { connectionId } = event;
        const parked = await locks.park(name, { waitMs: 60_000, notify: { type: 'websocket', connectionId } });
        expect(parked).toMatchObject({ status: 'waiting', position: 1 });
        await held.release();
      }
      if (event.type === 'granted' && 'leaseId' in event) {
        await using lock = await locks.adopt(event);
        expect(lock.fence).toBeGreaterThan(held.fence);
        break;
      }
    }
  });
});

describe.concurrent.each([
  ['over HTTP', () => overHttp()],
  ['in direct mode', () => direct()],
  ['on the twin', () => new Twin().client()],
])('a step that parks, %s', (_, open) => {
  const notify = { type: 'event', ref: 'order-7' } as const;

  it('queues once, however often it is repeated with its lease id', async () => {
    await using locks = open();
    const name = randomUUID();
    await using _held = await locks.acquire(name);
    const leaseId = randomUUID();
    for (let turn = 0; turn < 3; turn++) {
      const parked = await locks.park(name, { waitMs: 60_000, leaseId, notify });
      expect(parked).toMatchObject({ status: 'waiting', leaseId, position: 1, queueDepth: 1 });
    }
    expect(await locks.park(name, { waitMs: 60_000, notify })).toMatchObject({ position: 2, queueDepth: 2 });
  });

  it(
    'gives up its place, or the lock if that was granted in the meantime',
    exactOnly('a repeat after a lost answer is told that its first try did it'),
    async () => {
      await using locks = open();
      const name = randomUUID();
      const held = await locks.acquire(name);
      const first = await locks.park(name, { waitMs: 60_000, leaseId: randomUUID(), notify });
      const second = await locks.park(name, { waitMs: 60_000, leaseId: randomUUID(), notify });
      expect(await locks.release(first)).toEqual({ released: true, reason: 'cancelled' });
      expect(await locks.inspect(name)).toMatchObject({ queueDepth: 1 });
      await held.release();
      expect(await locks.release(second)).toEqual({ released: true, reason: 'ok' });
      expect(await locks.release(second)).toEqual({ released: false, reason: 'already_released' });
      expect(await locks.inspect(name)).toMatchObject({ state: 'free', queueDepth: 0 });
    },
  );
});

describe.concurrent('a service that is out of reach', () => {
  it('is an UnavailableError, never a held lock', async () => {
    await using nowhere = new Holdfast({
      url: 'http://127.0.0.1:9',
      namespace: 'test',
      patience: { retryMs: 300, releaseMs: 300 },
    });
    await expect(nowhere.tryAcquire('a')).rejects.toThrow(UnavailableError);
  });

  it('is not one if direct mode gets its credentials from a function, as the AWS SDK does', async () => {
    const { endpoint, region } = inject('engine');
    // No mock: vitest clears those of all tests that run, each time another one begins.
    let calls = 0;
    const credentials = async () => {
      calls += 1;
      return { ...localCredentials, sessionToken: 'token' };
    };
    const at = { tableName: service.table, region, endpoint, credentials };
    await using locks = createDirect({ ...at, namespace: 'test', patience: patient });
    expect(await locks.tryAcquire('by-provider')).toMatchObject({ ok: true });
    expect(calls).toBeGreaterThan(0);
  });

  it('is a store that is out of reach in direct mode', async () => {
    await using nowhere = createDirect({
      tableName: 'none',
      region: 'us-east-1',
      endpoint: 'http://127.0.0.1:9',
      credentials: localCredentials,
      namespace: 'test',
      patience: { retryMs: 300, releaseMs: 300 },
    });
    await expect(nowhere.tryAcquire('a')).rejects.toMatchObject({ code: 'unavailable', status: 503 });
  });
});
