import { describe, expect, it } from 'vitest';
import { type ClientEvent, UnavailableError } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';

const world = (options: Parameters<Twin['client']>[0] = {}) => {
  const twin = new Twin();
  const events: ClientEvent[] = [];
  const locks = twin.client({ ...options, onEvent: (event) => events.push(event) });
  const states = () => events.flatMap((event) => (event.type === 'breaker' ? [event.state] : []));
  return { twin, locks, states };
};

describe('breaker', () => {
  it('opens after several failures in a row and then fails at once', async () => {
    const { twin, locks, states } = world();
    twin.partition(locks);
    await expect(twin.until(locks.inspect('a'))).rejects.toThrow(UnavailableError);
    expect(states()).toEqual(['open']);
    const began = twin.now();
    await expect(twin.until(locks.inspect('a'))).rejects.toMatchObject({ circuitOpen: true });
    expect(twin.now()).toBe(began);
  });

  it('lets one probe pass after a while, and closes if the probe is answered', async () => {
    const { twin, locks, states } = world();
    twin.partition(locks);
    await twin.until(locks.inspect('a')).catch(() => undefined);
    twin.heal(locks);
    await twin.advance(2_000);
    const probe = locks.inspect('a');
    await expect(locks.inspect('a')).rejects.toMatchObject({ circuitOpen: true });
    expect(await probe).toMatchObject({ state: 'free' });
    expect(states()).toEqual(['open', 'closed']);
    expect(await locks.inspect('a')).toMatchObject({ state: 'free' });
  });

  it('counts only failures in a row: an answer in between resets the count', async () => {
    const { twin, locks, states } = world();
    for (let round = 0; round < 4; round++) {
      twin.loseRequest(locks, { times: 2 });
      await twin.until(locks.inspect('a'));
    }
    expect(states()).toEqual([]);
  });

  it('does not open after refusals and throttling, because the service answered', async () => {
    const { twin, locks, states } = world();
    await locks.acquire('a');
    for (let index = 0; index < 10; index++) expect((await locks.tryAcquire('a')).ok).toBe(false);
    twin.throttle(locks, { times: 8 });
    expect(await twin.until(locks.inspect('a'))).toMatchObject({ state: 'held' });
    expect(states()).toEqual([]);
  });

  it('opens after as many failures as it was told, and not before', async () => {
    const { twin, locks, states } = world({ breaker: { failuresMax: 3 } });
    twin.loseRequest(locks, { times: 2 });
    await twin.until(locks.inspect('a'));
    expect(states()).toEqual([]);
    twin.loseRequest(locks, { times: 3 });
    await twin.until(locks.inspect('a'));
    expect(states()).toEqual(['open', 'closed']);
  });

  it('does not open after requests that their callers gave up, because that says nothing about the service', async () => {
    const { twin, locks, states } = world();
    for (let index = 0; index < 10; index++) {
      twin.hang(locks);
      const giveUp = new AbortController();
      const asking = locks.inspect('a', { signal: giveUp.signal });
      await twin.settle();
      giveUp.abort(new Error('no patience'));
      await expect(asking).rejects.toThrow('no patience');
    }
    expect(states()).toEqual([]);
  });

  it('lets another probe pass at once if the caller of the first one gave up', async () => {
    const { twin, locks } = world();
    twin.partition(locks);
    await twin.until(locks.inspect('a')).catch(() => undefined);
    twin.heal(locks);
    await twin.advance(2_000);
    twin.hang(locks);
    const giveUp = new AbortController();
    const probe = locks.inspect('a', { signal: giveUp.signal });
    await twin.settle();
    giveUp.abort(new Error('no patience'));
    await expect(probe).rejects.toThrow('no patience');
    expect(await locks.inspect('a')).toMatchObject({ state: 'free' });
  });

  it('stays open for as long again after a probe that failed', async () => {
    const { twin, locks } = world();
    twin.partition(locks);
    await twin.until(locks.inspect('a')).catch(() => undefined);
    await twin.advance(2_000);
    const probe = locks.inspect('a', { deadlineMs: 10 });
    await expect(twin.until(probe)).rejects.toMatchObject({ circuitOpen: false });
    await twin.advance(1_900);
    await expect(locks.inspect('a')).rejects.toMatchObject({ circuitOpen: true });
  });

  it('lets renewals pass while it is open, so a lease survives the outage', async () => {
    const { twin, locks, states } = world();
    const lock = await locks.acquire('a', { leaseMs: 20_000 });
    await twin.advance(1_000);
    twin.partition(locks);
    const asking = locks.inspect('a').catch((error) => error);
    await twin.advance(8_000);
    twin.heal(locks);
    await twin.advance(20_000);
    await asking;
    expect(states().at(-1)).toBe('closed');
    expect(lock.isHeld()).toBe(true);
  });
});

describe('fail-open', () => {
  it('is refused for every tier except efficiency', async () => {
    const { twin, locks } = world();
    expect(() => twin.client({ onUnavailable: 'fail-open' })).toThrow(/efficiency/);
    await expect(locks.acquire('a', { onUnavailable: 'fail-open' })).rejects.toMatchObject({ code: 'invalid-request' });
  });

  it('runs the work without the lock if the service cannot be reached, with a fence below every real one', async () => {
    const { twin } = world();
    const locks = twin.client({ tier: 'efficiency', onUnavailable: 'fail-open' });
    twin.partition(locks);
    const began = twin.now();
    const seen = await twin.until(
      locks.withLock('a', ({ fence, failedOpen, signal }) => ({ fence, failedOpen, aborted: signal.aborted })),
    );
    expect(seen).toEqual({ fence: 0, failedOpen: true, aborted: false });
    expect(twin.now() - began).toBeLessThan(1_000);
  });

  it('goes on soon, however long the deadline is', async () => {
    const { twin, locks } = world({ tier: 'efficiency', onUnavailable: 'fail-open' });
    twin.partition(locks);
    const began = twin.now();
    expect(await twin.until(locks.acquire('a', { deadlineMs: 30_000 }))).toMatchObject({ failedOpen: true });
    expect(twin.now() - began).toBeLessThan(1_000);
  });

  it('reports that it runs without the lock, also for several locks', async () => {
    const { twin } = world();
    const events: ClientEvent[] = [];
    const onEvent = (event: ClientEvent) => events.push(event);
    const locks = twin.client({ tier: 'efficiency', onUnavailable: 'fail-open', onEvent });
    twin.partition(locks);
    const one = await twin.until(locks.acquire('a'));
    const several = await twin.until(locks.acquireAll(['b', { name: 'c' }]));
    expect(events.filter(({ type }) => type === 'failed-open')).toEqual(
      ['a', 'b, c'].map((name) => ({
        type: 'failed-open',
        name,
        error: expect.objectContaining({ code: 'unavailable' }),
      })),
    );
    expect([several.names, several.fence('b'), several.fence('c')]).toEqual([['b', 'c'], 0, 0]);
    expect([one.failedOpen, several.failedOpen]).toEqual([true, true]);
    expect(await one.release()).toEqual({ released: true, reason: 'ok' });
    expect(await several.release()).toEqual({ released: true, reason: 'ok' });
    expect((await twin.client().acquire('a')).failedOpen).toBe(false);
  });

  it('never runs the work for several locks after a refusal', async () => {
    const { twin, locks } = world();
    await locks.acquire('a');
    const open = twin.client({ tier: 'efficiency', onUnavailable: 'fail-open' });
    await expect(open.acquireAll(['a', 'b'], { waitMs: 0 })).rejects.toMatchObject({ code: 'lock-held' });
  });

  it('never runs the work after a refusal', async () => {
    const { twin, locks } = world();
    await locks.acquire('a');
    const open = twin.client({ tier: 'efficiency', onUnavailable: 'fail-open' });
    await expect(open.acquire('a', { waitMs: 0 })).rejects.toMatchObject({ code: 'lock-held' });
  });
});
