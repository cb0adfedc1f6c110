/** The faults that the twin can cause, as its documentation describes them. */
import { describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { callsOf, coreOf } from '../client/inside.ts';

const world = () => {
  const twin = new Twin();
  return { twin, one: twin.client({ owner: 'one' }), other: twin.client({ owner: 'other' }) };
};

/** Tells whether a promise has settled. */
function watched(promise: Promise<unknown>): { isOver: boolean } {
  const state = { isOver: false };
  const end = () => {
    state.isOver = true;
  };
  promise.then(end, end);
  return state;
}

describe('a partition', () => {
  it('also loses the answer of a request that was under way', async () => {
    const { twin, one, other } = world();
    const held = await other.acquire('a');
    const waiting = one.acquire('a', { waitMs: 60_000 });
    await twin.settle();
    const state = watched(waiting);
    twin.partition(one);
    await held.release();
    await twin.settle();
    expect([state.isOver, (await other.inspect('a')).holders[0]?.owner]).toEqual([false, 'one']);
    twin.heal(one);
    expect((await twin.until(waiting)).isHeld()).toBe(true);
  });

  it('ends for all clients at once, and faults that were not applied yet are dropped', async () => {
    const { twin, one, other } = world();
    twin.loseRequest(one, { times: 1_000 });
    twin.partition();
    twin.heal();
    const sent = callsOf(one);
    await Promise.all([one.inspect('a'), other.inspect('a')]);
    expect(sent).toHaveLength(1);
  });
});

describe('a scripted fault', () => {
  const triesFor = async (twin: Twin, client: Holdfast, lock: string) => {
    const sent = callsOf(client);
    await twin.until(client.inspect(lock));
    return sent.length;
  };

  it('applies as often as it says, and only to the lock that it names', async () => {
    const { twin, one } = world();
    twin.loseRequest(one, { operation: 'inspect', lock: 'a', times: 2 });
    expect(await triesFor(twin, one, 'b')).toBe(1);
    expect(await triesFor(twin, one, 'a')).toBe(3);
    expect(await triesFor(twin, twin.client(), 'a')).toBe(1);
  });
});

describe('a frozen client', () => {
  it('reads answers, runs timers and counts time only after it is thawed', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('a', { leaseMs: 60_000, autoRenew: false });
    const asking = one.inspect('a');
    const state = watched(asking);
    const sent = callsOf(one);
    twin.freeze(one);
    await twin.advance(1_000);
    expect([state.isOver, sent]).toEqual([false, []]);
    await twin.thaw(one);
    expect(state.isOver).toBe(true);
    // The wall clock went on, so the lease did too.
    expect(lock.remainingMs()).toBe(58_000);
  });

  it('sends nothing while it is frozen, and its renewals go on where they stopped', async () => {
    const { twin, one } = world();
    await one.acquire('a', { leaseMs: 3_600_000 });
    await one.session({ ttlMs: 3_600_000 });
    twin.freeze(one);
    const sent = callsOf(one);
    await twin.advance(1_500_000);
    expect(sent).toEqual([]);
    await twin.thaw(one);
    await twin.advance(1_000);
    expect(sent.map(({ operation }) => operation).toSorted()).toEqual(['keepSessionAlive', 'renewLock']);
  });
});

describe('expire', () => {
  it('also ends the lock delay', async () => {
    const { twin, one, other } = world();
    await one.acquire('a', { leaseMs: 60_000, lockDelayMs: 30_000 });
    await twin.expire('a');
    expect((await other.tryAcquire('a')).ok).toBe(true);
  });

  it('grants to the next waiter at once', async () => {
    const { twin, one, other } = world();
    await one.acquire('a', { leaseMs: 60_000, autoRenew: false });
    const waiting = other.acquire('a', { waitMs: 30_000 });
    await twin.advance(1_000);
    const expiredAt = twin.now();
    await twin.expire('a');
    expect((await twin.until(waiting)).isHeld()).toBe(true);
    expect(twin.now()).toBe(expiredAt);
  });
});

describe('a watch in the twin', () => {
  it('of one lock shows none whose name only begins alike', async () => {
    const { one, other } = world();
    const events = other.watch({ lock: 'wallet:1' });
    const next = async () => ((await events.next()).value as { lock?: string }).lock;
    expect(await next()).toBeUndefined();
    for (const name of ['wallet:10', 'wallet:1']) await one.acquire(name);
    expect(await next()).toBe('wallet:1');
    await events.return(undefined);
  });

  it('shows the locks of its own namespace that begin with the prefix, until it is left', async () => {
    const { twin, one, other } = world();
    const events = other.watch({ prefix: 'wallet' });
    const next = async () => ((await events.next()).value as { lock?: string }).lock;
    expect(await next()).toBeUndefined();
    await twin.client({ namespace: 'elsewhere' }).acquire('wallet:0');
    for (const name of ['my-wallet', 'wallet:1']) await one.acquire(name);
    expect(await next()).toBe('wallet:1');
    await events.return(undefined);
    await one.acquire('wallet:2');
    expect(await events.next()).toEqual({ value: undefined, done: true });
  });
});

describe('virtual time', () => {
  it('runs timers of the same instant in the order in which they were set, and none that was cancelled', async () => {
    const time = new VirtualTime();
    const ran: number[] = [];
    const cancels = [3, 1, 2, 4].map((number) => time.after(10, () => ran.push(number)));
    cancels[2]?.();
    await time.advance(10);
    expect(ran).toEqual([3, 1, 4]);
    expect(time.nextAt).toBeUndefined();
  });

  it('gives each process its own random numbers, and the same ones in every run', () => {
    const drawn = (seed: number) => {
      const process = new VirtualProcess(new VirtualTime(), 'p', seed);
      return [process.random(), process.random(), process.newId(), process.newId()];
    };
    const { one, other } = world();
    expect(coreOf(one).runtime.random()).not.toBe(coreOf(other).runtime.random());
    expect(drawn(1)).toEqual(drawn(1));
    expect(drawn(1)[0]).not.toBe(drawn(2)[0]);
    expect(new Set(drawn(1)).size).toBe(4);
  });
});
