import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { Holdfast, Term } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { coreOf, timersOf } from './inside.ts';

/** Candidates whose work runs until their signal fires, and a log of the leaders. */
const world = () => {
  const twin = new Twin();
  const log: string[] = [];
  const terms: Term[] = [];
  const stand = (client: Holdfast, name: string) =>
    client.elect('scheduler', {
      leaseMs: 9_000,
      onElected: (term) => {
        log.push(`${name} elected`);
        terms.push(term);
        return new Promise<void>((resolve) => {
          term.signal.addEventListener('abort', () => {
            log.push(`${name} stops`);
            resolve();
          });
        });
      },
      onLost: () => log.push(`${name} lost`),
    });
  return { twin, log, terms, stand, clients: [twin.client(), twin.client()] as const };
};

describe('elect', () => {
  it('elects one leader at a time, and the next one after it closes', async () => {
    const { twin, log, terms, stand, clients } = world();
    const first = stand(clients[0], 'first');
    await twin.settle();
    const second = stand(clients[1], 'second');
    await twin.advance(60_000);
    expect([first.isLeader, second.isLeader]).toEqual([true, false]);
    await twin.until(first.close());
    await twin.settle();
    expect(log).toEqual(['first elected', 'first stops', 'second elected']);
    expect(terms[1]?.epoch).toBeGreaterThan(terms[0]?.epoch ?? 0);
    expect(second.epoch).toBe(terms[1]?.epoch);
    await twin.until(second.close());
  });

  it('fires the signal of a leader without connection before another is elected', async () => {
    const { twin, log, stand, clients } = world();
    const first = stand(clients[0], 'first');
    await twin.settle();
    stand(clients[1], 'second');
    await twin.advance(1_000);
    twin.partition(clients[0]);
    await twin.advance(20_000);
    expect(log.toSorted()).toEqual(['first elected', 'first lost', 'first stops', 'second elected']);
    expect(log.at(-1)).toBe('second elected');
    expect(first.isLeader).toBe(false);
  });

  it('is a candidate again after it lost its connection', async () => {
    const { twin, log, stand, clients } = world();
    const first = stand(clients[0], 'first');
    await twin.advance(1_000);
    twin.partition(clients[0]);
    await twin.advance(20_000);
    twin.heal(clients[0]);
    await twin.advance(60_000);
    expect(log.filter((entry) => entry === 'first elected')).toHaveLength(2);
    expect(first.isLeader).toBe(true);
  });

  it('gives leadership up if the work fails, and is a candidate again', async () => {
    const { twin, clients } = world();
    const errors: unknown[] = [];
    let terms = 0;
    const election = clients[0].elect('scheduler', {
      onElected: () => {
        terms += 1;
        if (terms === 1) throw new Error('failed at once');
      },
      onError: (error) => errors.push(error),
    });
    await twin.settle();
    expect((await clients[1].inspect('scheduler')).state).toBe('free');
    await twin.advance(5_000);
    expect(terms).toBe(2);
    expect(errors).toMatchObject([{ message: 'failed at once' }]);
    await twin.until(election.close());
  });

  it('waits only for a limited time for work that does not stop', async () => {
    const { twin, clients } = world();
    const election = clients[0].elect('scheduler', { onElected: () => new Promise(() => {}), handOverMs: 3_000 });
    await twin.advance(1_000);
    const began = twin.now();
    await twin.until(election.close());
    expect(twin.now() - began).toBe(3_000);
    expect((await clients[1].inspect('scheduler')).state).toBe('free');
  });

  it('closes with its client', async () => {
    const { twin, log, stand, clients } = world();
    stand(clients[0], 'first');
    await twin.settle();
    await twin.until(clients[0].close());
    expect(log).toEqual(['first elected', 'first stops']);
    expect((await clients[1].inspect('scheduler')).state).toBe('free');
  });

  it('leads until its work has stopped, even if the whole client is closed', async () => {
    const { twin, log, stand, clients } = world();
    const [client, rival] = clients;
    const stopped = Promise.withResolvers<void>();
    client.elect('scheduler', {
      leaseMs: 9_000,
      onElected: async () => {
        log.push('slow elected');
        await stopped.promise;
        log.push('slow stops');
      },
    });
    await twin.settle();
    stand(rival, 'second');
    await twin.advance(1_000);
    const closing = client.close();
    await twin.advance(1_500);
    expect(log).toEqual(['slow elected']);
    stopped.resolve();
    await twin.until(closing);
    await twin.advance(1_000);
    expect(log).toEqual(['slow elected', 'slow stops', 'second elected']);
  });

  it('begins no second term while the work of a lost one goes on', async () => {
    const { twin, clients } = world();
    const works: (() => void)[] = [];
    const work = () => new Promise<void>((resolve) => works.push(resolve));
    clients[0].elect('scheduler', { leaseMs: 9_000, onElected: work });
    await twin.advance(1_000);
    twin.partition(clients[0]);
    await twin.advance(20_000);
    twin.heal(clients[0]);
    await twin.advance(60_000);
    expect(works).toHaveLength(1);
    works[0]?.();
    await twin.advance(20_000);
    expect(works).toHaveLength(2);
  });

  it('tells its work that it leads no longer as soon as it is closed, and reports no loss', async () => {
    const { twin, log, clients } = world();
    let term: Term | undefined;
    const election = clients[0].elect('scheduler', {
      onElected: (begun) => {
        term = begun;
        return new Promise(() => {});
      },
      onLost: () => log.push('lost'),
      handOverMs: 60_000,
    });
    await twin.settle();
    expect(term?.isLeader()).toBe(true);
    void election.close();
    expect([term?.isLeader(), term?.signal.aborted]).toEqual([false, true]);
    await twin.advance(70_000);
    await twin.expire('scheduler');
    expect(log).toEqual([]);
  });

  it('has released the lock, and is forgotten by its client, when it is closed', async () => {
    const { twin, stand, clients } = world();
    const election = stand(clients[0], 'first');
    await twin.settle();
    twin.loseRequest(clients[0], { operation: 'release' });
    await twin.until(election.close());
    expect((await clients[1].inspect('scheduler')).state).toBe('free');
    expect(coreOf(clients[0]).open.size).toBe(0);
  });

  it('goes on as a candidate after the longest wait, and does not report that as an error', async () => {
    const { twin, clients } = world();
    const errors: unknown[] = [];
    await clients[1].acquire('scheduler', { leaseMs: 60_000 });
    clients[0].elect('scheduler', { onElected: () => undefined, onError: (error) => errors.push(error) });
    await twin.advance(1_000_000);
    expect((await clients[1].inspect('scheduler')).queueDepth).toBe(1);
    expect(errors).toEqual([]);
  });

  it('tries less and less often while the service cannot be reached, and never again with wrong options', async () => {
    const { twin, clients } = world();
    const errors: number[] = [];
    twin.partition(clients[0]);
    const election = clients[0].elect('scheduler', { onElected: () => {}, onError: () => errors.push(twin.now()) });
    await twin.advance(4 * 3_600_000);
    const pauses = errors.slice(1).map((at, index) => at - (errors[index] as number));
    expect(Math.max(...pauses.slice(-8)) - Math.min(...pauses)).toBeGreaterThan(3_000);
    await twin.until(election.close());
    const refused: unknown[] = [];
    const wrong = twin.client();
    wrong.elect('scheduler', { leaseMs: 1, onElected: () => undefined, onError: (error) => refused.push(error) });
    await twin.advance(60_000);
    expect(refused).toMatchObject([{ code: 'invalid-request' }]);
  });

  it('never leads without the lock, even if its client fails open', async () => {
    const { twin, log, stand } = world();
    const client = twin.client({ tier: 'efficiency', onUnavailable: 'fail-open' });
    twin.partition(client);
    stand(client, 'open');
    await twin.advance(60_000);
    expect(log).toEqual([]);
  });

  it('closes at the end of its block', async () => {
    const { twin, log, stand, clients } = world();
    const block = async () => {
      await using _ = stand(clients[0], 'first');
      await twin.settle();
    };
    await twin.until(block());
    expect(log).toEqual(['first elected', 'first stops']);
    expect((await clients[1].inspect('scheduler')).state).toBe('free');
  });

  it('does not report work that fails because its term is over', async () => {
    const { twin, clients } = world();
    const errors: unknown[] = [];
    const onElected = ({ signal }: Term) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    const onError = (error: unknown) => errors.push(error);
    clients[0].elect('scheduler', { leaseMs: 9_000, onElected, onError });
    await twin.settle();
    await clients[1].revoke('scheduler', { fence: (await clients[1].inspect('scheduler')).fence, reason: 'test' });
    await twin.advance(9_000);
    expect(errors).toEqual([]);
    expect((await clients[1].inspect('scheduler')).state).toBe('held');
  });

  it('goes on without listeners of its own', async () => {
    const { twin, clients } = world();
    let terms = 0;
    const onElected = () => {
      terms += 1;
      if (terms === 1) throw new Error('failed at once');
      return new Promise(() => {});
    };
    const election = clients[0].elect('scheduler', { leaseMs: 9_000, onElected, handOverMs: 0 });
    await twin.advance(5_000);
    expect(terms).toBe(2);
    twin.partition(clients[0]);
    await twin.advance(20_000);
    expect(election.isLeader).toBe(false);
    await twin.until(election.close());
  });

  it('leaves neither a timer nor a listener behind', async () => {
    const { twin, clients } = world();
    const timers = timersOf(clients[0]);
    const { signal } = new AbortController();
    const stopped = Promise.withResolvers<void>();
    const onElected = () => stopped.promise;
    const election = clients[0].elect('scheduler', { signal, onElected, handOverMs: 60_000 });
    await twin.settle();
    const closing = election.close();
    await twin.settle();
    stopped.resolve();
    await twin.until(closing);
    expect([timers.size, getEventListeners(signal, 'abort')]).toEqual([0, []]);
  });
});
