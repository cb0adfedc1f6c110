import { describe, expect, it } from 'vitest';
import { type ClientEvent, SessionLostError, UnavailableError } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { callsOf, coreOf } from './inside.ts';

const world = () => {
  const twin = new Twin();
  return { twin, one: twin.client({ owner: 'one' }), other: twin.client({ owner: 'other' }) };
};

describe('session', () => {
  it('keeps all its locks with one keepalive, and frees them when it ends', async () => {
    const { twin, one, other } = world();
    const session = await one.session({ ttlMs: 9_000 });
    const locks = await Promise.all(['a', 'b'].map((name) => session.acquire(name)));
    await twin.advance(60_000);
    expect(locks.map((lock) => lock.isHeld())).toEqual([true, true]);
    expect((await session.locks()).map(({ lock }) => lock).toSorted()).toEqual(['a', 'b']);
    expect(await session.end()).toEqual({ ended: true, released: 2 });
    expect((await other.inspect('a')).state).toBe('free');
    expect(locks.map((lock) => lock.isHeld())).toEqual([false, false]);
  });

  it('ends with its client in one request, whatever it holds', async () => {
    const { twin, one } = world();
    const session = await one.session();
    await Promise.all(['a', 'b'].map((name) => session.acquire(name)));
    const sent = callsOf(one);
    await twin.until(one.close());
    expect(sent.map(({ operation }) => operation)).toEqual(['endSession']);
  });

  it('is not kept alive after its end', async () => {
    const { twin, one } = world();
    const session = await one.session({ ttlMs: 9_000 });
    await session.end();
    const sent = callsOf(one);
    await twin.advance(60_000);
    expect(sent).toEqual([]);
  });

  it("has its client's owner unless it is given its own", async () => {
    const { one } = world();
    const sent = callsOf(one);
    await one.session();
    await one.session({ owner: 'somebody' });
    expect(sent.map(({ body }) => (body as { owner?: string }).owner)).toEqual(['one', 'somebody']);
  });

  it("gives its locks its own owner, and not its client's", async () => {
    const { twin, one } = world();
    const [named, plain] = [await one.session({ owner: 'batch' }), await twin.client().session()];
    await named.acquire('a');
    await named.acquire('b', { owner: 'clerk' });
    await plain.acquire('c');
    const owners = ['a', 'b', 'c'].map(async (name) => (await one.inspect(name)).holders[0]?.owner);
    expect(await Promise.all(owners)).toEqual(['batch', 'clerk', 'anonymous']);
  });

  it('gives a lock that waited without another request: the lock has no time of its own', async () => {
    const { twin, one, other } = world();
    const held = await other.acquire('a', { leaseMs: 60_000 });
    const session = await one.session();
    const waiting = session.acquire('a', { waitMs: 40_000 });
    await twin.advance(18_000);
    const sent = callsOf(one);
    await held.release();
    expect((await twin.until(waiting)).isHeld()).toBe(true);
    expect(sent.filter(({ operation }) => operation === 'renewLock')).toEqual([]);
  });

  it('sends no lease with its locks, even if its client has a default for it', async () => {
    const { twin } = world();
    const session = await twin.client({ leaseMs: 5_000 }).session();
    expect((await session.acquire('a')).isHeld()).toBe(true);
  });

  it('knows a lock as lost if the service says so', async () => {
    const { twin, one, other } = world();
    const session = await one.session();
    const lock = await session.acquire('a');
    await other.revoke('a', { fence: lock.fence, reason: 'test' });
    await expect(twin.until(lock.renew())).rejects.toMatchObject({ reason: 'revoked' });
    expect([lock.isHeld(), lock.signal.aborted, session.isAlive()]).toEqual([false, true, true]);
  });

  it('gives no lock that counts as held after it was lost meanwhile', async () => {
    const { twin, one } = world();
    const session = await one.session({ ttlMs: 9_000 });
    twin.delay(one, 20_000, { operation: 'acquire' });
    const acquiring = session.acquire('a', { waitMs: 60_000 }).catch((error: unknown) => error);
    await twin.settle();
    twin.loseRequest(one, { operation: 'keep', times: 100 });
    const lock = await twin.until(acquiring);
    expect(session.signal.aborted).toBe(true);
    expect(lock).toMatchObject({ signal: { aborted: true } });
  });

  it('says that it ended it, although the first answer was lost and the repeat found it over', async () => {
    const { twin, one } = world();
    const session = await one.session();
    twin.loseResponse(one, { operation: 'endSession' });
    expect(await twin.until(session.end())).toMatchObject({ ended: true });
  });

  it('says that it did not end it if its time was over before', async () => {
    const { twin, one, other } = world();
    const session = await one.session({ ttlMs: 9_000 });
    await session.acquire('a');
    twin.loseRequest(one, { operation: 'keep', times: 100 });
    await twin.advance(20_000);
    await other.acquire('a');
    expect(await session.end()).toEqual({ ended: false, released: 0 });
  });

  it('reports each keepalive, and why it was lost', async () => {
    const { twin } = world();
    const events: ClientEvent[] = [];
    const one = twin.client({ onEvent: (event) => events.push(event) });
    await one.session({ ttlMs: 9_000 });
    await twin.advance(4_000);
    expect(events).toEqual([{ type: 'renewed', name: 'session', remainingMs: 9_000 }]);
    twin.partition(one);
    await twin.advance(20_000);
    const [, ...later] = events.filter(({ type }) => type !== 'breaker');
    const lost = later.at(-1);
    expect(lost).toMatchObject({ type: 'lost', name: 'session', error: { code: 'session-lost' } });
    expect((lost as { error: Error }).error.message).toMatch(/kept alive in time/);
    const failed = later.slice(0, -1);
    expect(failed.length).toBeGreaterThan(1);
    for (const event of failed) {
      expect(event).toMatchObject({ type: 'renewal-failed', name: 'session', error: { code: 'unavailable' } });
    }
  });

  it('reports an end that could not be sent, and throws it', async () => {
    const { twin } = world();
    const events: ClientEvent[] = [];
    const one = twin.client({ onEvent: (event) => events.push(event) });
    const session = await one.session();
    twin.partition(one);
    await expect(twin.until(session.end())).rejects.toThrow(UnavailableError);
    expect(events.at(-1)).toMatchObject({ type: 'release-failed', name: 'session', error: { code: 'unavailable' } });
  });

  it('ends at the end of its block, and never throws there', async () => {
    const { twin, one, other } = world();
    const work = async (isCut: boolean) => {
      await using session = await one.session();
      await session.acquire('a');
      if (isCut) twin.partition(one);
    };
    await work(false);
    expect((await other.inspect('a')).state).toBe('free');
    await twin.until(work(true));
  });

  it('is forgotten by its client when it has ended', async () => {
    const { one } = world();
    const session = await one.session();
    expect(coreOf(one).open.size).toBe(1);
    await session.end();
    expect(coreOf(one).open.size).toBe(0);
  });

  it('knows the time that is surely left: a tenth of it does not count', async () => {
    const { twin, one } = world();
    const session = await one.session({ ttlMs: 6_000 });
    await twin.advance(1_000);
    expect(session.remainingMs()).toBe(4_400);
  });

  it('is kept alive although the client sends nothing else for a moment', async () => {
    const { twin } = world();
    const one = twin.client({ breaker: { failuresMax: 1, openMs: 60_000 } });
    const session = await one.session({ ttlMs: 9_000 });
    twin.loseRequest(one, { operation: 'inspect', times: 100 });
    await twin.until(one.inspect('a').catch(() => undefined));
    await twin.advance(20_000);
    expect(session.isAlive()).toBe(true);
  });

  it('ends all its locks if it is lost, and fires the signal of each before another caller can be granted', async () => {
    const { twin, one, other } = world();
    const session = await one.session({ ttlMs: 9_000 });
    const lock = await session.acquire('a');
    const lostAt: number[] = [];
    lock.onLost(({ reason }) => {
      expect(reason).toBe('session_lost');
      lostAt.push(twin.now());
    });
    twin.partition(one);
    const grantedAt = other.acquire('a', { waitMs: 30_000 }).then(() => twin.now());
    await twin.advance(20_000);
    expect(session.signal.reason).toBeInstanceOf(SessionLostError);
    expect(lostAt[0]).toBeLessThan(await grantedAt);
  });

  it('is known to be lost at once in a process after a freeze', async () => {
    const { twin, one } = world();
    const session = await one.session({ ttlMs: 9_000 });
    const lock = await session.acquire('a');
    twin.freeze(one);
    await twin.advance(60_000);
    const thawed = twin.thaw(one);
    expect(lock.isHeld()).toBe(false);
    expect(lock.signal.aborted).toBe(true);
    await thawed;
  });

  it('releases one of its locks and lives on', async () => {
    const { one, other } = world();
    await using session = await one.session();
    const lock = await session.acquire('a');
    expect(await lock.release()).toEqual({ released: true, reason: 'ok' });
    expect((await other.tryAcquire('a')).ok).toBe(true);
    expect(session.isAlive()).toBe(true);
  });
});

describe('acquireAll', () => {
  it('takes all, each with its own fence, and releases all', async () => {
    const { twin, one, other } = world();
    const both = await one.acquireAll(['b', 'a'], { leaseMs: 9_000 });
    expect(both.names).toEqual(['b', 'a']);
    expect(both.fence('a')).toBeGreaterThan(0);
    await twin.advance(60_000);
    expect(both.isHeld()).toBe(true);
    expect(await both.release()).toEqual({ released: true, reason: 'ok' });
    expect((await other.tryAcquireAll(['a', 'b'])).ok).toBe(true);
  });

  it('takes them under a session, and they end with it', async () => {
    const { one, other } = world();
    const session = await one.session();
    await session.acquireAll(['a', 'b']);
    expect((await session.locks()).map(({ lock }) => lock).toSorted()).toEqual(['a', 'b']);
    await session.end();
    expect((await other.tryAcquireAll(['a', 'b'])).ok).toBe(true);
  });

  it('renews them for as long as asked', async () => {
    const { one, other } = world();
    const both = await one.acquireAll(['a', 'b'], { leaseMs: 10_000, autoRenew: false });
    await both.renew(60_000);
    const left = (await other.inspect('b')).holders[0]?.remainingMs;
    expect([left, both.remainingMs()]).toEqual([60_000, 59_000]);
  });

  it('takes none if one is held, and names that one', async () => {
    const { one, other } = world();
    await one.acquire('b');
    const tried = await other.tryAcquireAll(['a', 'b']);
    expect(tried).toMatchObject({ ok: false, blockedBy: ['b'] });
    expect((await one.inspect('a')).state).toBe('free');
  });

  it('waits until all can be granted', async () => {
    const { twin, one, other } = world();
    const held = await one.acquire('b');
    const waiting = other.acquireAll(['a', 'b'], { waitMs: 60_000 });
    await twin.advance(5_000);
    await held.release();
    const both = await twin.until(waiting);
    expect(both.isHeld()).toBe(true);
    expect(await other.withLocks(['c', 'd'], {}, ({ names }) => names)).toEqual(['c', 'd']);
    expect(await other.withLocks(['c', 'd'], ({ names }) => names)).toEqual(['c', 'd']);
    await expect(other.withLocks(['c'], {}, undefined as never)).rejects.toThrow(/the last argument of withLocks/);
    expect((await one.inspect('c')).state).toBe('free');
  });
});
