import { expect, it } from 'vitest';
import type { Holdfast } from '../../../src/client/index.ts';
import { type Operation, operations } from '../../../src/contract/operations.ts';
import { Twin } from '../../../src/testing/index.ts';
import { callsOf } from './inside.ts';

async function read(entries: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of entries) break;
}

/** Sends every request that the SDK knows, except the ticket of a socket. */
async function askEverything(locks: Holdfast): Promise<void> {
  await locks.health();
  const lock = await locks.acquire('a', { leaseMs: 60_000 });
  await lock.renew();
  await Promise.all([locks.inspect('a'), locks.check('a', lock.fence), read(locks.list()), read(locks.history('a'))]);
  await lock.release();
  const revoked = await locks.acquire('b');
  await locks.revoke('b', { fence: revoked.fence, reason: 'test' });
  const several = await locks.acquireAll(['c', 'd']);
  await several.renew();
  await several.release();
  const session = await locks.session();
  await session.locks();
  await session.end();
  const record = locks.record('r');
  await record.put(1, 'absent');
  await record.get();
  await record.delete({ version: 1 });
}

it('sends each request to the route that the contract has for its operation', async () => {
  const twin = new Twin();
  const locks = twin.client();
  const sent = callsOf(locks);
  await askEverything(locks);
  const kept = await locks.session({ ttlMs: 9_000 });
  await twin.advance(4_000);
  expect(kept.isAlive()).toBe(true);
  const called = new Set(sent.map(({ operation }) => operation));
  const missing = Object.keys(operations).filter((name) => !called.has(name));
  expect(missing).toEqual(['openapi', 'createTicket']);
  for (const { operation, method, route } of sent) {
    expect(`${operation}: ${method} ${route}`).toBe(`${operation}: ${operations[operation as Operation].route}`);
  }
});
