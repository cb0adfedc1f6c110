import type { CycleRequestsRow, HandOffRequestsRow } from '../results.ts';

/** AWS's prices in us-east-1, on demand, in dollars per million. The same as in docs/cost.md, which says where they are from. */
const prices = {
  writeUnit: 0.625,
  readUnit: 0.125,
  httpRequest: 1,
  lambdaCall: 0.2,
  lambdaGigabyteSecond: 13.33,
  logKilobyte: 0.5,
} as const;

/** As docs/cost.md assumes them: 10 ms at half a gigabyte, and 1.4 kB of log for both requests of a cycle. */
const requestsPerCycle = 2;
const gigabyteSecondsPerRequest = 0.01 * 0.5;
const logKilobytesPerCycle = 1.4;

export const tableDollars = ({ writeUnits, readUnits }: { writeUnits: number; readUnits: number }): number =>
  writeUnits * prices.writeUnit + readUnits * prices.readUnit;

/** What stands before the table when the service is deployed: API Gateway, Lambda and logs. */
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
