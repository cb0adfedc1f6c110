import type { Results } from '../results.ts';
import { lineChart, type Series } from './line-chart.ts';

/** One color for each store, so comparable lines look alike. Each can be read on white and on black. */
const colors: Readonly<Record<string, readonly string[]>> = {
  ours: ['#2f81f7', '#a371f7', '#2f81f7'],
  dynamodb: ['#db6d28', '#bb8009', '#e5534b'],
  redis: ['#d6336c', '#d6336c'],
  etcd: ['#2da44e', '#2da44e'],
  zookeeper: ['#768390'],
  postgres: ['#1b9aaa'],
};

type Point = { readonly contestant: string; readonly x: number; readonly y: number | null };

function seriesOf({ contestants }: Results, points: readonly Point[]): Series[] {
  const used = new Map<string, number>();
  return contestants.flatMap(({ id, name, store, ours }) => {
    const group = ours ? 'ours' : store;
    const index = used.get(group) ?? 0;
    used.set(group, index + 1);
    const palette = colors[group] ?? ['#768390'];
    const own = points.flatMap(({ contestant, x, y }) => (contestant === id && y !== null && y > 0 ? [{ x, y }] : []));
    if (own.length === 0) return [];
    const color = palette[index % palette.length] ?? '#768390';
    // The second line of a store has the same color, so it gets dashes.
    const dashed = index > 0 && palette[0] === color;
    return [{ name, color, strong: ours, dashed, points: own.toSorted((one, other) => one.x - other.x) }];
  });
}

/** The pictures of the report, by file name. */
export function chartsOf(results: Results): Readonly<Record<string, string>> {
  const byWaiters = results.handOff.map(({ contestant, waiters, p50 }) => ({ contestant, x: waiters, y: p50 }));
  const requests = results.handOffRequests.map(({ contestant, waiters, perHandOff }) => ({
    contestant,
    x: waiters,
    y: perHandOff,
  }));
  const throughput = results.throughput.map(({ contestant, clients, againstOneWriter }) => ({
    contestant,
    x: clients,
    y: againstOneWriter,
  }));
  const increments = (way: 'cas' | 'lock') =>
    results.increment
      .filter((row) => row.way === way)
      .map(({ clients, requestsPerIncrement }) => ({ x: clients, y: requestsPerIncrement }));
  return {
    'hand-off.svg': lineChart({
      title: 'From release to the next grant, in single writes of the same store (p50)',
      xTitle: 'waiters',
      yTitle: 'single writes',
      series: seriesOf(results, byWaiters),
    }),
    'requests.svg': lineChart({
      title: 'Requests per hand-off, joining included',
      xTitle: 'waiters',
      yTitle: 'requests',
      series: seriesOf(results, requests),
    }),
    'throughput.svg': lineChart({
      title: 'Acquires and releases, against the single writes of one client',
      xTitle: 'clients, each on a lock of its own',
      yTitle: 'times what one writer gets done',
      series: seriesOf(results, throughput),
    }),
    'increment.svg': lineChart({
      title: 'Requests per increment of one counter: compare-and-swap against a lock',
      xTitle: 'clients',
      yTitle: 'requests to DynamoDB',
      series: [
        { name: 'compare-and-swap', color: '#db6d28', strong: false, dashed: false, points: increments('cas') },
        { name: 'lock', color: '#2f81f7', strong: true, dashed: false, points: increments('lock') },
      ],
    }),
  };
}
