/** A timer that is left behind keeps the process alive, or runs for something that is over. */
import { describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { timersOf } from './inside.ts';

const uses: [string, (locks: Holdfast, twin: Twin) => Promise<unknown>][] = [
  ['a request', (locks) => locks.inspect('a')],
  ['a request that was repeated', (locks, twin) => repeat(locks, twin)],
  ['a lock', (locks) => locks.withLock('a', () => 1)],
  ['a session', async (locks) => (await locks.session()).end()],
  ['a record', (locks) => locks.record('a').update(() => 1)],
  ['a job', (locks) => locks.once('job', () => 1)],
  ['an election', (locks) => leadOnce(locks)],
];

function repeat(locks: Holdfast, twin: Twin): Promise<unknown> {
  twin.loseRequest(locks, { times: 3 });
  return locks.inspect('a');
}

/** Leads, stops the work when asked to, and is closed. */
async function leadOnce(locks: Holdfast): Promise<void> {
  const elected = Promise.withResolvers<void>();
  const election = locks.elect('scheduler', {
    onElected: ({ signal }) => {
      elected.resolve();
      return new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    },
  });
  await elected.promise;
  await election.close();
}

describe('a client', () => {
  it.each(uses)('has no timer left after %s', async (_, use) => {
    const twin = new Twin();
    const locks = twin.client();
    const timers = timersOf(locks);
    await twin.until(use(locks, twin));
    expect(timers.size).toBe(0);
  });

  it('has no timer left after it was closed while it held, waited and led', async () => {
    const twin = new Twin();
    const [locks, other] = [twin.client(), twin.client()];
    const timers = timersOf(locks);
    await other.acquire('b', { leaseMs: 600_000 });
    await locks.acquire('a');
    await locks.session();
    const waiting = locks.acquire('b', { waitMs: 60_000 }).catch(() => undefined);
    locks.elect('scheduler', { onElected: () => undefined });
    await twin.advance(30_000);
    await twin.until(locks.close());
    await waiting;
    expect(timers.size).toBe(0);
  });

  it('does not keep the process alive with the renewals of a lock or a session that nobody waits for', async () => {
    const twin = new Twin();
    const locks = twin.client();
    const timers = timersOf(locks);
    await locks.acquire('a');
    await locks.session();
    await twin.advance(60_000);
    expect([timers.size, timers.keepAlive]).toEqual([2, 0]);
  });
});
