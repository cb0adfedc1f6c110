import { describe, expect, it } from 'vitest';
import type { Answer, Call } from '../../../src/client/transport.ts';
import { queueSizes } from '../../../src/queue/pages.ts';
import { DirectTransport } from '../../../src/server/direct-transport.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';

/** One lock of a service in memory, asked as over HTTP. */
function gate() {
  const { service } = memoryService(new VirtualTime(), seededRandom(1), () => {});
  const transport = new DirectTransport(service);
  const { signal } = new AbortController();
  const ask = (method: Call['method'], operation: string, path: string, body?: object): Promise<Answer> => {
    const route = `/v1/{ns}/locks/{name}${path}`;
    return transport.request({ method, operation, route, parameters: { ns: 'crowd', name: 'gate' }, body }, signal);
  };
  return {
    inspect: async () => (await ask('GET', 'inspectLock', '')).body as Record<string, unknown>,
    acquire: (body: object) => ask('POST', 'acquireLock', '/acquire', body),
    release: (leaseId: string) => ask('POST', 'releaseLock', '/release', { leaseId }),
  };
}

const owners = (entries: unknown): string[] => (entries as { owner: string }[]).map(({ owner }) => owner);

/** Ten thousand requests take two seconds of computing, which a busy machine may stretch. */
const busyMsMax = 120_000;

describe('the longest queue', () => {
  it(
    'has ten thousand waiters: the depth is exact, the first hundred are shown, and the next is refused',
    async () => {
      const lock = gate();
      const park = (ref: string) => lock.acquire({ owner: ref, waitMs: 3_600_000, notify: { type: 'event', ref } });
      const { leaseId, fence } = (await lock.acquire({})).body as { leaseId: string; fence: number };
      for (let index = 1; index <= 10_000; index++) expect((await park(`waiter-${index}`)).status).toBe(202);

      const full = await lock.inspect();
      expect(full.queueDepth).toBe(10_000);
      expect(owners(full.queue)).toEqual(Array.from({ length: 100 }, (_, index) => `waiter-${index + 1}`));

      // The last page may have a few places more.
      const more = await Promise.all(Array.from({ length: 2 * queueSizes.page }, (_, index) => park(`more-${index}`)));
      const refused = more.filter(({ status }) => status === 429);
      expect(refused.length).toBeGreaterThan(queueSizes.page);
      for (const { body } of refused) expect(body).toMatchObject({ code: 'queue-full' });

      await lock.release(leaseId);
      const next = await lock.inspect();
      expect([next.fence, owners(next.holders)]).toEqual([fence + 1, ['waiter-1']]);
      expect(next.queueDepth).toBe(10_000 + more.length - refused.length - 1);
    },
    busyMsMax,
  );
});
