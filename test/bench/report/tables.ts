import type { PushResults, Results } from '../results.ts';
import { cycleDollars, handOffDollars, waitingDollars } from './cost.ts';
import { dollars, figure, table } from './format.ts';

const byValue = (values: readonly number[]): number[] => [...new Set(values)].sort((one, other) => one - other);

const nameOf = ({ contestants }: Results, id: string): string =>
  contestants.find((contestant) => contestant.id === id)?.name ?? id;

/** One line per contestant, one column per number of waiters, clients or locks. */
function grid<Row extends { readonly contestant: string }>(
  results: Results,
  rows: readonly Row[],
  columnOf: (row: Row) => number,
  cellOf: (row: Row) => string,
  unit: string,
): string {
  const columns = byValue(rows.map(columnOf));
  const lines = results.contestants
    .filter(({ id }) => rows.some(({ contestant }) => contestant === id))
    .map(({ id, name }) => [
      name,
      ...columns.map((column) => {
        const row = rows.find((one) => one.contestant === id && columnOf(one) === column);
        return row === undefined ? '–' : cellOf(row);
      }),
    ]);
  return table(['', ...columns.map((column) => `${column} ${column === 1 ? unit.replace(/s$/, '') : unit}`)], lines);
}

export const storesTable = ({ stores }: Results): string =>
  table(
    ['store', 'what an acknowledged write has survived'],
    stores.map(({ name, durability }) => [name, durability]),
  );

export const contestantsTable = ({ contestants, stores }: Results): string =>
  table(
    ['', 'on', 'package', 'how'],
    contestants.map(({ name, store, version, how }) => [
      name,
      stores.find(({ id }) => id === store)?.name ?? store,
      version ?? '',
      how,
    ]),
  );

export const cycleTable = (results: Results): string =>
  table(
    ['', 'p50', 'p99', 'samples'],
    results.cycle.map(({ contestant, p50, p99, samples }) => [
      nameOf(results, contestant),
      figure(p50),
      figure(p99),
      String(samples),
    ]),
  );

export const throughputTable = (results: Results): string =>
  grid(
    results,
    results.throughput,
    ({ clients }) => clients,
    ({ againstWrites, againstOneWriter }) => `${figure(againstWrites)} (${figure(againstOneWriter)})`,
    'clients',
  );

export const handOffTable = (results: Results): string =>
  grid(
    results,
    results.handOff,
    ({ waiters }) => waiters,
    ({ p50, p99, samples }) => (p50 === null ? 'too many' : `${figure(p50)} / ${figure(p99)} (${samples})`),
    'waiting',
  );

export const rateTable = (results: Results): string =>
  grid(
    results,
    results.handOff,
    ({ waiters }) => waiters,
    ({ rate, rateSamples, failed }) =>
      rate === null ? 'too many' : `${figure(rate)} (${rateSamples}${failed === 0 ? '' : `, ${failed} failed`})`,
    'waiting',
  );

export const inversionsTable = (results: Results): string =>
  grid(
    results,
    results.handOff,
    ({ waiters }) => waiters,
    ({ inversions, samples }) => (samples === 0 ? '–' : `${inversions} of ${samples}`),
    'waiting',
  );

export const requestsTable = (results: Results): string =>
  grid(
    results,
    results.handOffRequests,
    ({ waiters }) => waiters,
    ({ perHandOff, wasted }) => `${figure(perHandOff)} (${figure(wasted)})`,
    'waiting',
  );

/** How many times as much each of the others takes. */
export function peersTable(results: Results): string {
  const own = 'holdfast-http';
  const against = (value: number | null | undefined, ours: number | null | undefined) =>
    value === null || value === undefined || ours === null || ours === undefined ? '–' : figure(value / ours);
  const cycle = (id: string) => results.cycle.find(({ contestant }) => contestant === id)?.p50;
  const handOff = (id: string, waiters: number) =>
    results.handOff.find((row) => row.contestant === id && row.waiters === waiters)?.p50;
  const requests = (id: string, waiters: number) =>
    results.handOffRequests.find((row) => row.contestant === id && row.waiters === waiters)?.perHandOff;
  const columns = byValue(results.handOff.map(({ waiters }) => waiters));
  const lines = results.contestants
    .filter(({ ours }) => !ours)
    .map(({ id, name }) => [
      name,
      against(cycle(id), cycle(own)),
      ...columns.map((waiters) => against(handOff(id, waiters), handOff(own, waiters))),
      ...columns.map((waiters) => against(requests(id, waiters), requests(own, waiters))),
    ]);
  const head = [
    '',
    'cycle',
    ...columns.map((waiters) => `hand-off, ${waiters}`),
    ...columns.map((waiters) => `requests, ${waiters}`),
  ];
  return table(head, lines);
}

export function crashTable(results: Results): string {
  const lines = results.contestants
    .filter(({ id }) => id !== 'holdfast-sdk')
    .map(({ id, name }) => {
      const row = results.crash.find(({ contestant }) => contestant === id);
      if (row === undefined) return [name, '–', 'never, by time alone', '–'];
      const { leaseMs, after, samples } = row;
      if (leaseMs === null)
        return [name, '–', `${figure(after)} single writes after the connection broke`, String(samples)];
      return [name, `${leaseMs / 1_000} s`, `${figure(after)} leases`, String(samples)];
    });
  return table(['', 'lease', 'until the next grant', 'samples'], lines);
}

export const renewalsTable = ({ renewals }: Results): string =>
  table(
    ['', 'requests per renewal interval'],
    renewals.map(({ who, perInterval }) => [who, figure(perInterval)]),
  );

export const stampedeTable = ({ stampede }: Results): string =>
  table(
    ['', 'requests to DynamoDB', 'all answered after, in single writes'],
    stampede.map(({ who, requests, writes }) => [who, String(requests), figure(writes)]),
  );

export const multiLockTable = (results: Results): string =>
  grid(
    results,
    results.multiLock,
    ({ locks }) => locks,
    ({ writes, requests, atOnce }) => `${figure(writes)}; ${requests ?? '–'} requests${atOnce ? ', at once' : ''}`,
    'locks',
  );

export function incrementTable({ increment }: Results): string {
  const rowOf = (clients: number, way: 'cas' | 'lock') =>
    increment.find((row) => row.clients === clients && row.way === way);
  return table(
    ['clients', 'rate, CAS', 'rate, lock', 'requests, CAS', 'requests, lock'],
    byValue(increment.map(({ clients }) => clients)).map((clients) => [
      String(clients),
      figure(rowOf(clients, 'cas')?.rate),
      figure(rowOf(clients, 'lock')?.rate),
      figure(rowOf(clients, 'cas')?.requestsPerIncrement),
      figure(rowOf(clients, 'lock')?.requestsPerIncrement),
    ]),
  );
}

/** From this number of clients on, the lock is always better. Null if it never is. */
export function crossover({ increment }: Results, better: 'rate' | 'requestsPerIncrement'): number | null {
  const counts = byValue(increment.map(({ clients }) => clients));
  const lockIsBetter = (clients: number) => {
    const [cas, lock] = (['cas', 'lock'] as const).map(
      (way) => increment.find((row) => row.clients === clients && row.way === way)?.[better] ?? Number.NaN,
    );
    if (cas === undefined || lock === undefined) return false;
    return better === 'rate' ? lock > cas : lock < cas;
  };
  const from = counts.findIndex((_, index) => counts.slice(index).every(lockIsBetter));
  return from < 0 ? null : (counts[from] ?? null);
}

export const cycleCostTable = (results: Results): string =>
  table(
    ['', 'writes', 'reads', 'table', 'API, Lambda, logs', 'history', 'in all'],
    results.cycleRequests.map((row) => {
      const cost = cycleDollars(row);
      return [
        nameOf(results, row.contestant),
        figure(row.writes),
        figure(row.reads),
        dollars(cost.table),
        cost.service === 0 ? '' : dollars(cost.service),
        cost.news === 0 ? '' : dollars(cost.news),
        dollars(cost.table + cost.service + cost.news),
      ];
    }),
  );

export const handOffCostTable = (results: Results): string =>
  grid(
    results,
    results.handOffRequests.filter(({ writeUnits }) => writeUnits !== null),
    ({ waiters }) => waiters,
    (row) => {
      const cost = handOffDollars(row);
      return cost === null
        ? '–'
        : `${dollars(cost)} (${figure(row.writeUnits)} write, ${figure(row.readUnits)} read units)`;
    },
    'waiting',
  );

const ways = ['long poll', 'push'] as const;

/** How a hand-off by push compares with one by long poll, at one number of waiters. */
export const pushRatio = ({ handOff }: PushResults, waiters: number): number => {
  const [longPoll, push] = ways.map((way) => handOff.find((row) => row.way === way && row.waiters === waiters)?.p50);
  return (push ?? Number.NaN) / (longPoll ?? Number.NaN);
};

export function pushHandOffTable(push: PushResults): string {
  const columns = byValue(push.handOff.map(({ waiters }) => waiters));
  const cellOf = (way: (typeof ways)[number], waiters: number) => {
    const row = push.handOff.find((one) => one.way === way && one.waiters === waiters);
    return row === undefined ? '–' : `${figure(row.p50)} / ${figure(row.p99)} (${row.samples})`;
  };
  return table(
    ['', ...columns.map((waiters) => `${waiters} waiting`)],
    [
      ...ways.map((way) => [way, ...columns.map((waiters) => cellOf(way, waiters))]),
      ['push against long poll', ...columns.map((waiters) => figure(pushRatio(push, waiters)))],
    ],
  );
}

export const waitingTable = ({ waiting }: PushResults): string =>
  table(
    ['', 'who wait', 'open requests', 'requests', 'safety looks', 'write units', 'read units', 'dollars for an hour'],
    waiting.map((row) => [
      row.way,
      String(row.waiters),
      String(row.open),
      figure(row.requestsPerMinute),
      figure(row.looksPerMinute),
      figure(row.writeUnitsPerMinute),
      figure(row.readUnitsPerMinute),
      dollars(waitingDollars(row)),
    ]),
  );
