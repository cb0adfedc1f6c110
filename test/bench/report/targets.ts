import type { Results } from '../results.ts';
import { waitingDollars } from './cost.ts';
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

/** The allowed noise for a value that should not grow, because there are some retries. */
const flatMax = 1.25;
const memoryGrowthMax = 1.1;

const most = (values: readonly number[]): number => Math.max(...values);

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
  const growth = most(counted.map(({ perHandOff }) => perHandOff)) / (counted[0]?.perHandOff ?? Number.NaN);
  return [
    ...timed.map(({ p50, waiters }) => ({
      target: `Hand-off through the service at most 2 writes (p50), ${waiters} waiting`,
      found: figure(p50),
      met: p50 <= 2,
    })),
    counted.length === 0
      ? undefined
      : {
          target: 'Requests per hand-off flat from 10 to 200 waiters, through the service',
          found: `${figure(counted[0]?.perHandOff)} at ${counted[0]?.waiters}, at most ${figure(growth)} times that`,
          met: growth <= flatMax && counted.some(({ waiters }) => waiters >= 200),
        },
    {
      target: 'No order inversions, through the service and in direct mode',
      found: `${inversions} in ${seen} hand-offs`,
      met: inversions === 0 && seen > 0,
    },
  ];
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
