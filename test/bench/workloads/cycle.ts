import { randomUUID } from 'node:crypto';
import { type Contestant, usualTerms, type Yardstick } from '../contestant.ts';
import type { Counted } from '../dynamodb-side.ts';
import type { Field } from '../field.ts';
import { type Bounds, median, pauseMs, rateOf, takeTurns } from '../measure.ts';
import type { CycleRequestsRow, CycleRow, ThroughputRow } from '../results.ts';

/** Enough locks that none is taken twice in a row. Few enough that all of them exist after the warm-up. */
const namesCount = 64;

/** A real worker also does several cycles in a row before it sleeps. */
const cyclesInARow = 5;

export async function cycleOf(contestant: Contestant, name: string): Promise<void> {
  const holding = await contestant.take(name, usualTerms);
  await holding.release();
}

async function twoWrites(store: Yardstick, name: string): Promise<void> {
  await store.singleWrite(name);
  await store.singleWrite(name);
}

/** One client, many locks: a cycle, compared with two single writes right after it. */
export async function benchCycle(field: Field, bounds: Bounds & { readonly warmUp: Bounds }): Promise<CycleRow[]> {
  const names = Array.from({ length: namesCount }, () => randomUUID());
  let turn = 0;
  const next = () => names[turn++ % names.length] as string;
  const turns = Object.fromEntries(
    field.contestants.flatMap((contestant) => [
      [`${contestant.id} writes`, () => twoWrites(field.storeOf(contestant), next())],
      [contestant.id, () => cycleOf(contestant, next())],
    ]),
  );
  // Compilers, connections and tables are slow at first, so there is a warm-up.
  for (const turn of Object.values(turns)) await takeTurns(bounds.warmUp, { turn });
  const timings = await takeTurns(bounds, turns, cyclesInARow);
  return field.contestants.flatMap(({ id }) => {
    const [writes, own] = [timings[`${id} writes`], timings[id]];
    if (writes === undefined || own === undefined) return [];
    return [{ contestant: id, p50: own.p50 / writes.p50, p99: own.p99 / writes.p50, samples: own.count }];
  });
}

/** Many clients, each with its own locks: their rate of cycles, compared with the rate of raw writes. */
export async function benchThroughput(
  field: Field,
  clientCounts: readonly number[],
  { slices, sliceMs }: { slices: number; sliceMs: number },
): Promise<ThroughputRow[]> {
  const rows: ThroughputRow[] = [];
  const names = Array.from({ length: Math.max(...clientCounts) }, () => randomUUID());
  const nameOf = (client: number) => names[client] as string;
  for (const contestant of field.contestants) {
    const store = field.storeOf(contestant);
    for (const clients of clientCounts) {
      const ratios: { many: number; one: number }[] = [];
      let cycles = 0;
      for (let slice = 0; slice < slices; slice++) {
        const one = await rateOf(1, sliceMs / 2, () => store.singleWrite('one'));
        const many = await rateOf(clients, sliceMs, (client) => store.singleWrite(nameOf(client)));
        const own = await rateOf(clients, sliceMs, (client) => cycleOf(contestant, nameOf(client)));
        ratios.push({ many: (own.perMs * 2) / many.perMs, one: (own.perMs * 2) / one.perMs });
        cycles += own.count;
      }
      rows.push({
        contestant: contestant.id,
        clients,
        againstWrites: median(ratios.map(({ many }) => many)),
        againstOneWriter: median(ratios.map(({ one }) => one)),
        cycles,
      });
    }
  }
  return rows;
}

/** The service writes history and events a little later. After this time it has. */
const newsWithinMs = 1_500;
const countedCycles = 20;

/** What a cycle costs DynamoDB, counted on locks that exist already. */
export async function countCycles(counted: readonly Counted[]): Promise<CycleRequestsRow[]> {
  return Promise.all(
    counted.map(async ({ contestant, proxy }) => {
      const name = randomUUID();
      await cycleOf(contestant, name);
      await pauseMs(newsWithinMs);
      proxy.take();
      for (let cycle = 0; cycle < countedCycles; cycle++) await cycleOf(contestant, name);
      await pauseMs(newsWithinMs);
      const { locks, news } = proxy.take();
      const each = (count: number) => count / countedCycles;
      return {
        contestant: contestant.id,
        reads: each(locks.reads),
        writes: each(locks.writes),
        readUnits: each(locks.readUnits),
        writeUnits: each(locks.writeUnits),
        newsReadUnits: each(news.readUnits),
        newsWriteUnits: each(news.writeUnits),
      };
    }),
  );
}
