import type { CycleRequestsRow, HandOffRequestsRow, WaitingRow } from '../results.ts';

/** AWS's prices in us-east-1, on demand, in dollars per million. The same as in docs/cost.md, which says where they are from. */
const prices = {
  writeUnit: 0.625,
  readUnit: 0.125,
  httpRequest: 1,
  lambdaCall: 0.2,
  lambdaGigabyteSecond: 13.33,
  logKilobyte: 0.5,
  socketMessage: 1,
  socketMinute: 0.25,
} as const;

/** As docs/cost.md assumes them: 10 ms at half a gigabyte, and 1.1 kB of log for both requests of a cycle. */
const requestsPerCycle = 2;
const gigabyteSecondsPerRequest = 0.01 * 0.5;
const logKilobytesPerCycle = 1.12;

export const tableDollars = ({ writeUnits, readUnits }: { writeUnits: number; readUnits: number }): number =>
  writeUnits * prices.writeUnit + readUnits * prices.readUnit;

/** The costs of a deployed service besides the table: API Gateway, Lambda and logs. */
export const serviceDollarsPerCycle =
  requestsPerCycle *
    (prices.httpRequest + prices.lambdaCall + gigabyteSecondsPerRequest * prices.lambdaGigabyteSecond) +
  logKilobytesPerCycle * prices.logKilobyte;

/** Dollars per million cycles, by what they are for. */
export function cycleDollars(row: CycleRequestsRow): { table: number; service: number; news: number } {
  const overHttp = row.contestant === 'holdfast-http';
  return {
    table: tableDollars(row),
    service: overHttp ? serviceDollarsPerCycle : 0,
    news: tableDollars({ writeUnits: row.newsWriteUnits, readUnits: row.newsReadUnits }),
  };
}

/** Dollars per million hand-offs, for the table alone. */
export const handOffDollars = ({ writeUnits, readUnits }: HandOffRequestsRow): number | null =>
  writeUnits === null || readUnits === null ? null : tableDollars({ writeUnits, readUnits });

/** The SDK sends about 15 pings an hour. Each is a message there, one back and a call. Each waiter has its own connection, which is the worst case. */
const pingsPerHour = 15;
const dollarsPerRequest =
  prices.httpRequest +
  prices.lambdaCall +
  gigabyteSecondsPerRequest * prices.lambdaGigabyteSecond +
  (logKilobytesPerCycle / requestsPerCycle) * prices.logKilobyte;

/** Dollars for this many waiters in an hour. While a request is open, a function runs. */
export function waitingDollars(row: WaitingRow): number {
  const { waiters, open, requestsPerMinute, looksPerMinute, writeUnitsPerMinute, readUnitsPerMinute } = row;
  const minutes = 60 * waiters;
  const asked = (requestsPerMinute + looksPerMinute) * dollarsPerRequest;
  const units = tableDollars({ writeUnits: writeUnitsPerMinute, readUnits: readUnitsPerMinute });
  const running = (open / waiters) * 60 * 0.5 * prices.lambdaGigabyteSecond;
  const ping = 2 * prices.socketMessage + prices.lambdaCall + gigabyteSecondsPerRequest * prices.lambdaGigabyteSecond;
  const socket = row.way === 'push' ? prices.socketMinute + (pingsPerHour / 60) * ping : 0;
  return (minutes * (asked + units + running + socket)) / 1_000_000;
}
