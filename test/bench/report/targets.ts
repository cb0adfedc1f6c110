import type { Results } from '../results.ts';
import { handOffDollars, waitingDollars } from './cost.ts';
import { dollars, figure } from './format.ts';
import { pushRatio } from './tables.ts';

/** A target, the measured value, and whether it is met. */
export interface Target {
  readonly target: string;
  readonly found: string;
  readonly met: boolean;
}

const http = 'holdfast-http';
const direct = 'holdfast-direct';

const memoryGrowthMax = 1.1;
/** For one hand-off with its join, however many wait. */
const requestsMax = 2.5;
const writeUnitsMax = 4;
/** For one hand-off in direct mode, in single writes. */
const directWritesMax = 5;
/** By how much a hand-off with 200 waiting may take longer than one with 10. */
const longQueueMax = 1.2;

/** One row of counted requests: the better of ours against the best of the others. */
function fewest(what: string, counts: readonly { ours: boolean; requests: number }[]): Target | undefined {
  const ours = counts.filter((count) => count.ours).map(({ requests }) => requests);
  const theirs = counts.filter((count) => !count.ours).map(({ requests }) => requests);
  if (ours.length === 0 || theirs.length === 0) return undefined;
  const [own, best] = [Math.min(...ours), Math.min(...theirs)];
  return {
    target: `Fewest requests of all on DynamoDB: ${what}`,
    found: `${figure(own)}, best peer ${figure(best)}`,
    met: own <= best,
  };
}

function requestTargets(results: Results): (Target | undefined)[] {
  const onDynamoDB = new Map(
    results.contestants.filter(({ store }) => store === 'dynamodb').map(({ id, ours }) => [id, ours]),
  );
  const among = <Row extends { contestant: string }>(rows: readonly Row[], count: (row: Row) => number | null) =>
    rows.flatMap((row) => {
      const ours = onDynamoDB.get(row.contestant);
      const requests = count(row);
      return ours === undefined || requests === null ? [] : [{ ours, requests }];
    });
  const byWho = (rows: readonly { who: string; requests: number }[]) =>
    rows.map(({ who, requests }) => ({ ours: who.startsWith('Holdfast'), requests }));
  const waiters = [...new Set(results.handOffRequests.map((row) => row.waiters))];
  const sizes = [...new Set(results.multiLock.map((row) => row.locks))];
  return [
    fewest(
      'cycle',
      among(results.cycleRequests, ({ reads, writes }) => reads + writes),
    ),
    ...waiters.map((count) =>
      fewest(
        `hand-off, ${count} waiting`,
        among(
          results.handOffRequests.filter((row) => row.waiters === count),
          ({ perHandOff }) => perHandOff,
        ),
      ),
    ),
    ...sizes.map((size) =>
      fewest(
        `${size} locks at once`,
        among(
          results.multiLock.filter(({ locks }) => locks === size),
          ({ requests }) => requests,
        ),
      ),
    ),
    fewest(
      'renewing 100 locks',
      byWho(results.renewals.map(({ who, perInterval }) => ({ who, requests: perInterval }))),
    ),
    fewest('stampede of 200', byWho(results.stampede)),
  ];
}

function cycleTarget(results: Results, contestant: string, what: string, max: number): Target | undefined {
  const row = results.cycle.find((one) => one.contestant === contestant);
  if (row === undefined) return undefined;
  return { target: `${what} within ${max} of two raw updates`, found: figure(row.p50), met: row.p50 <= max };
}

function handOffTargets(results: Results): (Target | undefined)[] {
  const own = results.handOff.filter(({ contestant }) => contestant === http);
  const timed = own.flatMap(({ p50, waiters }) => (p50 === null ? [] : [{ p50, waiters }]));
  const counted = results.handOffRequests.filter(({ contestant, waiters }) => contestant === http && waiters >= 10);
  const fair = results.handOff.filter(({ contestant }) => contestant === http || contestant === direct);
  const inversions = fair.reduce((sum, row) => sum + row.inversions, 0);
  const seen = fair.reduce((sum, row) => sum + row.samples, 0);
  const atMost = (what: string, count: 'perHandOff' | 'writeUnits', max: number): Target[] =>
    counted.flatMap(({ waiters, [count]: found }) =>
      found === null
        ? []
        : [{ target: `Hand-off at most ${max} ${what}, ${waiters} waiting`, found: figure(found), met: found <= max }],
    );
  return [
    ...timed.map(({ p50, waiters }) => ({
      target: `Hand-off through the service at most 2 writes (p50), ${waiters} waiting`,
      found: figure(p50),
      met: p50 <= 2,
    })),
    ...atMost('requests', 'perHandOff', requestsMax),
    ...atMost('write units', 'writeUnits', writeUnitsMax),
    growthOf(timed),
    ...results.handOff.flatMap(({ contestant, p50, waiters }) =>
      contestant !== direct || p50 === null
        ? []
        : [
            {
              target: `Hand-off in direct mode at most ${directWritesMax} writes (p50), ${waiters} waiting`,
              found: figure(p50),
              met: p50 <= directWritesMax,
            },
          ],
    ),
    ...cheapest(results),
    {
      target: 'No order inversions, through the service and in direct mode',
      found: `${inversions} in ${seen} hand-offs`,
      met: inversions === 0 && seen > 0,
    },
  ];
}

/** The time of a hand-off with the longest queue, compared with ten waiting. */
function growthOf(timed: readonly { readonly p50: number; readonly waiters: number }[]): Target | undefined {
  const p50With = (count: number) => timed.find(({ waiters }) => waiters === count)?.p50;
  const [short, long] = [p50With(10), p50With(200)];
  if (short === undefined || long === undefined) return undefined;
  return {
    target: `Hand-off with 200 waiting at most ${longQueueMax} times that with 10 (p50)`,
    found: figure(long / short),
    met: long / short <= longQueueMax,
  };
}

/** For each length of the queue: the table's price of a hand-off through the service, against the cheapest peer on DynamoDB. */
function cheapest({ contestants, handOffRequests }: Results): Target[] {
  const theirs = new Set(contestants.filter(({ store, ours }) => store === 'dynamodb' && !ours).map(({ id }) => id));
  return handOffRequests.flatMap((row) => {
    const own = row.contestant === http ? handOffDollars(row) : null;
    const prices = handOffRequests
      .filter(({ contestant, waiters }) => theirs.has(contestant) && waiters === row.waiters)
      .map(handOffDollars)
      .filter((price) => price !== null);
    if (own === null || prices.length === 0) return [];
    const best = Math.min(...prices);
    return [
      {
        target: `Hand-off cheaper than every peer on DynamoDB, ${row.waiters} waiting`,
        found: `${dollars(own)} dollars per million, cheapest peer ${dollars(best)}`,
        met: own < best,
      },
    ];
  });
}

/** By how much a hand-off by push may take longer than one by long poll. */
const pushRatioMax = 1.2;

function pushTargets({ push }: Results): Target[] {
  if (push === null || push === undefined) return [];
  const waiting = push.waiting.find(({ way }) => way === 'push');
  const counts = push.handOff.filter(({ way }) => way === 'push').map(({ waiters }) => waiters);
  return [
    ...counts.map((waiters) => ({
      target: `Hand-off by push at most 1.2 times that by long poll (p50), ${waiters} waiting`,
      found: figure(pushRatio(push, waiters)),
      met: pushRatio(push, waiters) <= pushRatioMax,
    })),
    ...(waiting === undefined
      ? []
      : [
          {
            target: `No open request while ${waiting.waiters} wait by push`,
            found: String(waiting.open),
            met: waiting.open === 0,
          },
          {
            target: 'No request while waiting by push, beside the safety look',
            found: `${figure(waiting.requestsPerMinute)} a minute`,
            met: waiting.requestsPerMinute === 0,
          },
          {
            target: `Under a dollar for ${waiting.waiters} who wait by push for an hour`,
            found: dollars(waitingDollars(waiting)),
            met: waitingDollars(waiting) < 1,
          },
        ]),
    {
      target: `${push.crowd.waits} waits on one connection are all told, in order`,
      found: `${push.crowd.inOrder} of ${push.crowd.waits}`,
      met: push.crowd.inOrder === push.crowd.waits,
    },
  ];
}

export function targetsOf(results: Results): Target[] {
  const { memory } = results;
  const all = [
    cycleTarget(results, http, 'Uncontended cycle over HTTP', 1.3),
    cycleTarget(results, direct, 'Uncontended cycle in direct mode', 1.1),
    ...handOffTargets(results),
    ...requestTargets(results),
    ...pushTargets(results),
    memory === null
      ? undefined
      : {
          target: 'Memory of the server flat under load',
          found: `${figure(memory.growth)} times, over ${memory.cycles} cycles`,
          met: memory.growth <= memoryGrowthMax,
        },
  ];
  return all.filter((target) => target !== undefined);
}
