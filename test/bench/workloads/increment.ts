import { randomUUID } from 'node:crypto';
import { Holdfast } from '../../../src/client/holdfast.ts';
import type { Field } from '../field.ts';
import { rateOf } from '../measure.ts';
import type { IncrementRow } from '../results.ts';

/** More than any client here needs. With the default of ten, some would give up with 32 writers, and that is not measured here. */
const triesMax = 10_000;
const waitMs = 60_000;

/** Two ways to raise a counter that others raise too. */
const ways = {
  /** Read, compute, and write if nobody wrote in between. If not, start again. */
  cas: async (locks: Holdfast, name: string) => {
    await locks.record<number>(name).update((now = 0) => now + 1, { triesMax });
  },
  /** Wait for the lock. Then nobody writes in between. The write carries the fence. */
  lock: async (locks: Holdfast, name: string) => {
    await locks.withLock(name, { waitMs }, async ({ fence }) => {
      await locks.record<number>(name).update((now = 0) => now + 1, { fence, triesMax });
    });
  },
} as const;

/** Through the service, with the SDK: from how many clients on a lock is better. One service is timed, and on the other requests are counted. */
export async function benchIncrement(
  field: Field,
  clientCounts: readonly number[],
  sliceMs: number,
): Promise<IncrementRow[]> {
  const timed = new Holdfast({ url: field.service.url, namespace: 'bench' });
  const counted = new Holdfast({ url: field.countedService.service.url, namespace: 'bench' });
  const rows: IncrementRow[] = [];
  try {
    for (const clients of clientCounts) {
      for (const way of ['cas', 'lock'] as const) {
        const name = randomUUID();
        await ways[way](timed, name);
        const writer = await rateOf(1, sliceMs / 2, () => field.dynamodb.singleWrite('one'));
        const own = await rateOf(clients, sliceMs, () => ways[way](timed, name));
        const other = randomUUID();
        await ways[way](counted, other);
        field.countedService.proxy.take();
        const { count } = await rateOf(clients, sliceMs / 2, () => ways[way](counted, other));
        const { requests } = field.countedService.proxy.take().locks;
        rows.push({
          clients,
          way,
          rate: own.perMs / writer.perMs,
          requestsPerIncrement: requests / count,
          samples: own.count,
        });
      }
    }
  } finally {
    await Promise.all([timed.close(), counted.close()]);
  }
  return rows;
}
