import { randomUUID } from 'node:crypto';
import type { Contestant, Crash } from '../contestant.ts';
import type { Field } from '../field.ts';
import { median, pauseMs, timeOf } from '../measure.ts';
import type { CrashRow } from '../results.ts';

/** A waiter that is not granted after this many leases does not wait for the lease. */
const leasesMax = 10;
/** The lease that a waiter asks for if the contestant has no lease. */
const leaseMsUsual = 1_000;

async function untilNextMs(contestant: Contestant, { leaseMs, holdAndDie }: Crash): Promise<number[]> {
  const name = randomUUID();
  const ownLeaseMs = leaseMs ?? leaseMsUsual;
  const diedAt = await holdAndDie(name);
  const place = contestant.join(name, { leaseMs: ownLeaseMs, renew: false }, 0);
  const granted = place.granted.then((holding) => ({ holding, at: performance.now() }));
  const grant = await Promise.race([granted, pauseMs(leasesMax * ownLeaseMs)]);
  if (grant === undefined) return [];
  await grant.holding.release();
  return [grant.at - diedAt];
}

async function rowOf(field: Field, contestant: Contestant, samples: number): Promise<CrashRow[]> {
  const { id, crash } = contestant;
  if (crash === undefined) return [];
  const times: number[] = [];
  const writes: number[] = [];
  for (let sample = 0; sample < samples; sample++) {
    writes.push(await timeOf(() => field.storeOf(contestant).singleWrite('quiet')));
    times.push(...(await untilNextMs(contestant, crash)));
  }
  if (times.length === 0) return [];
  const { leaseMs } = crash;
  return [{ contestant: id, leaseMs, after: median(times) / (leaseMs ?? median(writes)), samples: times.length }];
}

/** A holder that dies, and one waiter. All contestants run at once, because nearly all of the time is waiting. */
export async function benchCrash(field: Field, samples: number): Promise<CrashRow[]> {
  const rows = await Promise.all(field.contestants.map((contestant) => rowOf(field, contestant, samples)));
  return rows.flat();
}
