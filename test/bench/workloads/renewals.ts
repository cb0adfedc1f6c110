import { randomUUID } from 'node:crypto';
import { Holdfast } from '../../../src/client/holdfast.ts';
import type { Holding } from '../contestant.ts';
import type { CountingProxy } from '../counting-proxy.ts';
import type { Counted } from '../dynamodb-side.ts';
import type { Field } from '../field.ts';
import { pauseMs } from '../measure.ts';
import type { RenewalRow } from '../results.ts';

const locksCount = 100;
/** Long enough that a hundred locks are taken within one lease on a slow engine. */
const leaseMs = 6_000;
/** Everybody here renews at a third of the lease: ours by default, the others by being told to. */
const intervalMs = leaseMs / 3;

const names = () => Array.from({ length: locksCount }, () => randomUUID());

async function perInterval(proxy: CountingProxy, intervals: number): Promise<number> {
  proxy.take();
  await pauseMs(intervals * intervalMs);
  return proxy.take().locks.requests / intervals;
}

/** One keepalive for a hundred locks. */
async function bySession({ countedService }: Field, intervals: number): Promise<RenewalRow> {
  const locks = new Holdfast({ url: countedService.service.url, namespace: 'bench' });
  try {
    const session = await locks.session({ ttlMs: leaseMs });
    for (const name of names()) await session.acquire(name);
    return {
      who: `Holdfast, one session with ${locksCount} locks`,
      perInterval: await perInterval(countedService.proxy, intervals),
    };
  } finally {
    await locks.close();
  }
}

async function byLease({ contestant, proxy }: Counted, intervals: number): Promise<RenewalRow> {
  const holdings: Holding[] = [];
  for (const name of names()) holdings.push(await contestant.take(name, { leaseMs, renew: true }));
  const row = {
    who: `${contestant.name}, ${locksCount} leases`,
    perInterval: await perInterval(proxy, intervals),
  };
  await Promise.allSettled(holdings.map((holding) => holding.release()));
  return row;
}

/** Requests to the store per renewal interval. Each has a proxy of its own, so they may go on side by side. */
export async function countRenewals(field: Field, intervals: number): Promise<RenewalRow[]> {
  const renewing = field.counted.filter(({ contestant }) => contestant.id !== 'holdfast-http' && contestant.crash);
  return Promise.all([bySession(field, intervals), ...renewing.map((counted) => byLease(counted, intervals))]);
}
