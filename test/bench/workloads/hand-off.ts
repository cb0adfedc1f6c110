import type { Contestant, Yardstick } from '../contestant.ts';
import type { CountingProxy } from '../counting-proxy.ts';
import type { Counted } from '../dynamodb-side.ts';
import type { Field } from '../field.ts';
import { type Bounds, median, summarize, timeOf } from '../measure.ts';
import type { HandOffRequestsRow, HandOffRow } from '../results.ts';
import { Relay } from './relay.ts';

export interface HandOffBounds {
  readonly paced: Bounds;
  readonly runMs: number;
}

/**
 * Measures single writes. If waiters send no requests, it does so after each hand-off. If they poll, while nobody waits:
 * pollers would make single writes slow, and their own ratio too good.
 */
export class QuietWrites {
  readonly #store: Yardstick;
  readonly #times: number[] = [];

  constructor(store: Yardstick) {
    this.#store = store;
  }

  async take(count: number): Promise<void> {
    for (let write = 0; write < count; write++) this.#times.push(await timeOf(() => this.#store.singleWrite('quiet')));
  }

  get medianMs(): number {
    return median(this.#times);
  }
}

const writesApart = 15;

/** If the waiters of a contestant sleep for a lease, it gets time for some leases. */
const runMsOf = ({ contendedLeaseMs = 0 }: Contestant, runMs: number): number => Math.max(runMs, 3 * contendedLeaseMs);

/** The contestant could not handle so many waiters here. The report says so. */
const notMeasured = ({ id }: Contestant, waiters: number): HandOffRow => ({
  contestant: id,
  waiters,
  p50: null,
  p99: null,
  samples: 0,
  inversions: 0,
  rate: null,
  rateSamples: 0,
  failed: 0,
});

async function cellOf(
  contestant: Contestant,
  store: Yardstick,
  waiters: number,
  { paced, runMs }: HandOffBounds,
): Promise<{ row: HandOffRow; requests: HandOffRequestsRow | undefined }> {
  const writes = new QuietWrites(store);
  const { waitsQuietly } = contestant;
  if (!waitsQuietly) await writes.take(writesApart);
  const relay = new Relay(contestant);
  if (!(await relay.fill(waiters))) {
    await relay.empty();
    return { row: notMeasured(contestant, waiters), requests: undefined };
  }
  const { times, inversions } = await relay.pass(paced, () => writes.take(waitsQuietly ? 1 : 0));
  const requestsBefore = await contestant.requests?.();
  let requestsAfter: number | undefined;
  const { handOffs, tookMs, failed } = await relay.run(runMsOf(contestant, runMs), async () => {
    requestsAfter = await contestant.requests?.();
  });
  if (!waitsQuietly) await writes.take(writesApart);
  const writeMs = writes.medianMs;
  const { p50, p99 } = summarize(times);
  const inWrites = (ms: number) => (times.length === 0 ? null : ms / writeMs);
  const row: HandOffRow = {
    contestant: contestant.id,
    waiters,
    p50: inWrites(p50),
    p99: inWrites(p99),
    samples: times.length,
    inversions,
    rate: (handOffs / tookMs) * writeMs,
    rateSamples: handOffs,
    failed,
  };
  if (requestsBefore === undefined || requestsAfter === undefined || handOffs === 0)
    return { row, requests: undefined };
  const perHandOff = (requestsAfter - requestsBefore) / handOffs;
  const requests = {
    contestant: contestant.id,
    waiters,
    perHandOff,
    wasted: Math.max(0, perHandOff - contestant.requestsMin),
    writeUnits: null,
    readUnits: null,
    samples: handOffs,
  };
  return { row, requests };
}

/** A mutex with waiters. The outer loop is the number of waiters, so all contestants run under the same load of the machine. */
export async function benchHandOffs(
  field: Pick<Field, 'contestants' | 'storeOf'>,
  waiterCounts: readonly number[],
  boundsOf: (contestant: Contestant) => HandOffBounds,
  onProgress: (what: string) => void,
): Promise<{ rows: HandOffRow[]; requests: HandOffRequestsRow[] }> {
  const rows: HandOffRow[] = [];
  const requests: HandOffRequestsRow[] = [];
  for (const waiters of waiterCounts) {
    // The SDK over HTTP waits like plain HTTP. The cycle shows its own cost.
    for (const contestant of field.contestants.filter(({ id }) => id !== 'holdfast-sdk')) {
      onProgress(`hand-off with ${waiters} waiting: ${contestant.name}`);
      const cell = await cellOf(contestant, field.storeOf(contestant), waiters, boundsOf(contestant)).catch((error) => {
        onProgress(`given up: ${error}`);
        return { row: notMeasured(contestant, waiters), requests: undefined };
      });
      rows.push(cell.row);
      if (cell.requests !== undefined) requests.push(cell.requests);
    }
  }
  return { rows, requests };
}

async function countCell(
  contestant: Contestant,
  proxy: CountingProxy,
  waiters: number,
  runMs: number,
): Promise<HandOffRequestsRow | undefined> {
  const relay = new Relay(contestant);
  if (!(await relay.fill(waiters))) {
    await relay.empty();
    return undefined;
  }
  proxy.take();
  let taken = proxy.take();
  const { handOffs } = await relay.run(runMsOf(contestant, runMs), () => {
    taken = proxy.take();
  });
  if (handOffs === 0) return undefined;
  const { requests, writeUnits, readUnits } = taken.locks;
  return {
    contestant: contestant.id,
    waiters,
    perHandOff: requests / handOffs,
    wasted: Math.max(0, requests / handOffs - contestant.requestsMin),
    writeUnits: writeUnits / handOffs,
    readUnits: readUnits / handOffs,
    samples: handOffs,
  };
}

/** What a hand-off costs DynamoDB, with the join, if every holder releases at once. */
export async function countHandOffs(
  counted: readonly Counted[],
  waiterCounts: readonly number[],
  runMs: number,
  onProgress: (what: string) => void,
): Promise<HandOffRequestsRow[]> {
  const rows: HandOffRequestsRow[] = [];
  for (const waiters of waiterCounts) {
    for (const { contestant, proxy } of counted) {
      onProgress(`requests with ${waiters} waiting: ${contestant.name}`);
      const row = await countCell(contestant, proxy, waiters, runMs).catch((error) => onProgress(`given up: ${error}`));
      if (row !== undefined) rows.push(row);
    }
  }
  return rows;
}
