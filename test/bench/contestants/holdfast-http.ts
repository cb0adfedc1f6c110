import { systemRuntime } from '../../../src/client/runtime.ts';
import type { Answer, BenchService } from '../bench-service.ts';
import { type Contestant, dieAfter, type Holding, type Terms } from '../contestant.ts';
import { ownTables } from '../stores/dynamodb.ts';

const base = '/v1/bench';
/** As the SDK makes them, with 24 characters. With longer ones, items are larger. */
export const newLeaseId = systemRuntime.newId;
/** Longer than any cell, because a wait that ends by itself would count as a failure. */
const waitMs = 600_000;

export function expectGranted({ status, body }: Answer): void {
  if (status !== 200) throw new Error(`Expected 200, got ${status}: ${JSON.stringify(body)}`);
}

/** The local service over HTTP, asked by bare requests. */
export function holdfastOverHttp(service: BenchService): Contestant {
  const pathOf = (name: string) => `${base}/locks/${name}`;
  const holdingOf = (name: string, leaseId: string): Holding => ({
    release: async () => expectGranted(await service.post(`${pathOf(name)}/release`, { leaseId })),
  });
  const tryOnce = (name: string, { leaseMs }: Terms, leaseId: string, more: object = {}) =>
    service.post(`${pathOf(name)}/acquire`, { leaseId, leaseMs, ...more });
  return {
    id: 'holdfast-http',
    name: 'Holdfast, HTTP',
    store: 'dynamodb',
    ours: true,
    table: ownTables.http,
    waitsQuietly: true,
    how: 'The local service in a process of its own, by bare requests. Waiters queue by long poll.',
    // The place in the queue and the release: the service remembers that the lock is held, and the grant is part of the release.
    requestsMin: 2,
    take: async (name, terms) => {
      const leaseId = newLeaseId();
      expectGranted(await tryOnce(name, terms, leaseId));
      return holdingOf(name, leaseId);
    },
    attempt: async (name, terms) => (await tryOnce(name, terms, newLeaseId())).status === 200,
    join: (name, terms) => {
      const leaseId = newLeaseId();
      let left = false;
      // As docs/http.md tells every caller, and as the SDK does.
      let place: unknown = 'new';
      const granted = (async () => {
        for (;;) {
          const answer = await tryOnce(name, terms, leaseId, { waitMs, place });
          if (answer.status === 200 || left) return holdingOf(name, leaseId);
          // 202: still in the queue when the poll ended.
          if (answer.status !== 202) expectGranted(answer);
          place = answer.body.place;
        }
      })();
      return {
        granted,
        leave: async () => {
          left = true;
          await service.post(`${pathOf(name)}/release`, { leaseId });
          await granted;
        },
      };
    },
    takeAll: async (locks, { leaseMs }) => {
      const leaseId = newLeaseId();
      expectGranted(await service.post(`${base}/multi-locks/acquire`, { leaseId, leaseMs, locks }));
      return {
        release: async () => expectGranted(await service.post(`${base}/multi-locks/release`, { leaseId, locks })),
      };
    },
    queued: async (name) => Number((await service.get(pathOf(name))).body.queueDepth),
    crash: {
      leaseMs: 1_000,
      holdAndDie: (name) =>
        dieAfter(async () => expectGranted(await tryOnce(name, { leaseMs: 1_000, renew: false }, newLeaseId()))),
    },
    stop: async () => {},
  };
}
