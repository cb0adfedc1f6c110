import type { Results } from '../../bench/results.ts';

/** The smallest run that fills every table. */
export const exampleResults: Results = {
  date: '2026-11-16',
  commit: 'abc1234',
  quick: false,
  machine: { cores: 2, memoryGb: 24, os: 'linux x64', node: 'v24.0.0' },
  stores: [
    { id: 'dynamodb', name: 'DynamoDB Local', durability: 'In memory.' },
    { id: 'redis', name: 'Redis 7', durability: 'Once a second.' },
  ],
  contestants: [
    { id: 'holdfast-http', name: 'Holdfast, HTTP', store: 'dynamodb', ours: true, how: 'Queues.', version: null },
    { id: 'holdfast-direct', name: 'Holdfast, direct', store: 'dynamodb', ours: true, how: 'Looks.', version: null },
    { id: 'deliveryhero', name: 'Peer', store: 'dynamodb', ours: false, how: 'Polls.', version: 'peer 2.0.0' },
    { id: 'redlock', name: 'redlock', store: 'redis', ours: false, how: 'Polls.', version: 'redlock 5' },
  ],
  absent: [{ why: 'etcd is not installed.' }],
  cycle: [
    { contestant: 'holdfast-http', p50: 1.25, p99: 3, samples: 100 },
    { contestant: 'holdfast-direct', p50: 1.05, p99: 2, samples: 100 },
    { contestant: 'deliveryhero', p50: 1.5, p99: 4, samples: 100 },
    { contestant: 'redlock', p50: 1.1, p99: 2, samples: 100 },
  ],
  throughput: [
    { contestant: 'holdfast-http', clients: 1, againstWrites: 0.8, againstOneWriter: 0.8, cycles: 50 },
    { contestant: 'holdfast-http', clients: 16, againstWrites: 0.9, againstOneWriter: 3, cycles: 200 },
  ],
  handOff: [
    handOff('holdfast-http', 10, 1.6, 0),
    handOff('holdfast-http', 200, 1.9, 0),
    handOff('holdfast-direct', 10, 4, 0),
    handOff('deliveryhero', 10, 30, 7),
    { ...handOff('deliveryhero', 200, 0, 0), p50: null, p99: null, samples: 0, rate: null },
    handOff('redlock', 10, 200, 8),
  ],
  handOffRequests: [
    counted('holdfast-http', 10, 2.1, 3),
    counted('holdfast-http', 200, 2.4, 4),
    counted('holdfast-direct', 10, 6, 3),
    counted('deliveryhero', 10, 12, 5),
    { ...counted('redlock', 10, 9, 0), writeUnits: null, readUnits: null },
  ],
  cycleRequests: [
    cycleRequests('holdfast-http', { writes: 2, newsWriteUnits: 2 }),
    cycleRequests('holdfast-direct', { writes: 2 }),
    cycleRequests('deliveryhero', { writes: 2, reads: 1 }),
  ],
  crash: [{ contestant: 'holdfast-http', leaseMs: 1_000, after: 1.27, samples: 3 }],
  renewals: [
    { who: 'Holdfast, one session with 100 locks', perInterval: 1 },
    { who: 'Peer, 100 leases', perInterval: 100 },
  ],
  stampede: [
    { who: 'Holdfast, HTTP, tier efficiency', requests: 1, writes: 30 },
    { who: 'Peer', requests: 200, writes: 90 },
  ],
  multiLock: [
    { contestant: 'holdfast-http', locks: 2, atOnce: true, writes: 5, requests: 4, samples: 20 },
    { contestant: 'deliveryhero', locks: 2, atOnce: false, writes: 6, requests: 6, samples: 20 },
  ],
  increment: [
    increment(1, 'cas', 0.5, 2),
    increment(1, 'lock', 0.25, 4),
    increment(8, 'cas', 0.4, 6),
    increment(8, 'lock', 0.3, 5),
    increment(32, 'cas', 0.1, 30),
    increment(32, 'lock', 0.3, 5),
  ],
  push: {
    date: '2026-11-17',
    commit: 'def5678',
    handOff: [pushed('long poll', 10, 1.6), pushed('push', 10, 1.8)],
    waiting: [waiting('long poll', 1_000, 3, 0), waiting('push', 0, 0, 2.4)],
    crowd: { waits: 100, told: 101, unexpected: 1, inOrder: 100 },
  },
  memory: { cycles: 5_000, growth: 1.02 },
  imports: { ratio: 2.1, kilobytes: 900 },
};

function handOff(contestant: string, waiters: number, p50: number, inversions: number) {
  return { contestant, waiters, p50, p99: p50 * 2, samples: 50, inversions, rate: 0.4, rateSamples: 90, failed: 0 };
}

function pushed(way: 'push' | 'long poll', waiters: number, p50: number) {
  return { way, waiters, p50, p99: 2 * p50, samples: 50 };
}

function waiting(way: 'push' | 'long poll', open: number, requestsPerMinute: number, looksPerMinute: number) {
  const units = { writeUnitsPerMinute: 2 * looksPerMinute, readUnitsPerMinute: 2 * looksPerMinute };
  return { way, waiters: 1_000, open, requestsPerMinute, looksPerMinute, ...units };
}

function counted(contestant: string, waiters: number, perHandOff: number, writeUnits: number) {
  return { contestant, waiters, perHandOff, wasted: 0, writeUnits, readUnits: 1, samples: 90 };
}

function cycleRequests(contestant: string, counts: { writes: number; reads?: number; newsWriteUnits?: number }) {
  const { writes, reads = 0, newsWriteUnits = 0 } = counts;
  return { contestant, reads, writes, readUnits: reads, writeUnits: writes, newsReadUnits: 0, newsWriteUnits };
}

function increment(clients: number, way: 'cas' | 'lock', rate: number, requestsPerIncrement: number) {
  return { clients, way, rate, requestsPerIncrement, samples: 100 };
}
