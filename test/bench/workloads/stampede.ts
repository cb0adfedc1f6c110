import { randomUUID } from 'node:crypto';
import type { BenchService } from '../bench-service.ts';
import { type Contestant, usualTerms, type Yardstick } from '../contestant.ts';
import type { Field } from '../field.ts';
import { median, timeOf } from '../measure.ts';
import type { StampedeRow } from '../results.ts';

const callers = 200;

/** Two hundred who try at once for what somebody holds. */
const allTry = (tryOnce: () => Promise<unknown>) => Promise.all(Array.from({ length: callers }, tryOnce));

/** Prepares a lock that is held and answers how one caller tries for it. */
type Prepare = () => Promise<{ tryOnce: () => Promise<unknown>; end: () => Promise<unknown> }>;

const byTier =
  (service: BenchService, tier: 'efficiency' | 'correctness'): Prepare =>
  async () => {
    const path = `/v1/bench/locks/${randomUUID()}`;
    const leaseId = randomUUID();
    await service.post(`${path}/acquire`, { leaseId });
    return {
      tryOnce: () => service.post(`${path}/acquire`, { tier }),
      end: () => service.post(`${path}/release`, { leaseId }),
    };
  };

const byPeer =
  (contestant: Contestant): Prepare =>
  async () => {
    const name = randomUUID();
    const { attempt, contendedLeaseMs } = contestant;
    const terms = contendedLeaseMs === undefined ? usualTerms : { leaseMs: contendedLeaseMs, renew: true };
    const holding = await contestant.take(name, terms);
    return {
      tryOnce: async () => attempt?.(name, terms),
      end: () => holding.release(),
    };
  };

/** Counted on the one set of contestants, timed on the other. */
async function stampede(store: Yardstick, who: string, counted: { prepare: Prepare; take(): number }, timed: Prepare) {
  const countedLock = await counted.prepare();
  counted.take();
  await allTry(countedLock.tryOnce);
  const requests = counted.take();
  await countedLock.end();

  const timedLock = await timed();
  const writes: number[] = [];
  for (let write = 0; write < 30; write++) writes.push(await timeOf(() => store.singleWrite('quiet')));
  const tookMs = await timeOf(() => allTry(timedLock.tryOnce));
  await timedLock.end();
  return { who, requests, writes: tookMs / median(writes) };
}

export async function benchStampede(field: Field, onProgress: (what: string) => void): Promise<StampedeRow[]> {
  const rows: StampedeRow[] = [];
  const { service, proxy } = field.countedService;
  for (const tier of ['efficiency', 'correctness'] as const) {
    const counted = { prepare: byTier(service, tier), take: () => proxy.take().locks.requests };
    rows.push(await stampede(field.dynamodb, `Holdfast, HTTP, tier ${tier}`, counted, byTier(field.service, tier)));
  }
  for (const { contestant, proxy: own } of field.counted) {
    const timed = field.contestants.find(({ id }) => id === contestant.id);
    if (contestant.id === 'holdfast-http' || contestant.attempt === undefined || timed === undefined) continue;
    const counted = { prepare: byPeer(contestant), take: () => own.take().locks.requests };
    // If one of them can't handle so many callers, the rows of the others are kept.
    const row = await stampede(field.storeOf(contestant), contestant.name, counted, byPeer(timed)).catch((error) =>
      onProgress(`given up: ${contestant.name} in a stampede: ${error}`),
    );
    if (row !== undefined) rows.push(row);
  }
  return rows;
}
