import { randomUUID } from 'node:crypto';
import { type Contestant, type Holding, usualTerms } from '../contestant.ts';
import type { Field } from '../field.ts';
import { type Bounds, takeTurns } from '../measure.ts';
import type { MultiLockRow } from '../results.ts';

/** Takes and releases several locks: at once if the contestant can do that, else one after the other. */
async function cycleOfAll(contestant: Contestant, names: readonly string[]): Promise<void> {
  if (contestant.takeAll !== undefined) {
    const holding = await contestant.takeAll(names, usualTerms);
    await holding.release();
    return;
  }
  const holdings: Holding[] = [];
  for (const name of names) holdings.push(await contestant.take(name, usualTerms));
  for (const holding of holdings.toReversed()) await holding.release();
}

/** The requests to the store for one cycle of all locks. The locks already exist. */
async function requestsOf(field: Field, contestant: Contestant, names: readonly string[]): Promise<number | null> {
  const counted = field.counted.find((one) => one.contestant.id === contestant.id);
  if (counted !== undefined) {
    await cycleOfAll(counted.contestant, names);
    counted.proxy.take();
    await cycleOfAll(counted.contestant, names);
    return counted.proxy.take().locks.requests;
  }
  const before = await contestant.requests?.();
  if (before === undefined) return null;
  await cycleOfAll(contestant, names);
  return ((await contestant.requests?.()) ?? before) - before;
}

export async function benchMultiLocks(field: Field, sizes: readonly number[], bounds: Bounds): Promise<MultiLockRow[]> {
  const rows: MultiLockRow[] = [];
  const contestants = field.contestants.filter(({ id }) => id !== 'holdfast-sdk');
  for (const size of sizes) {
    const names = Array.from({ length: size }, () => randomUUID());
    const turns = Object.fromEntries(
      contestants.flatMap((contestant) => [
        [`${contestant.id} write`, () => field.storeOf(contestant).singleWrite('quiet')],
        [contestant.id, () => cycleOfAll(contestant, names)],
      ]),
    );
    await takeTurns({ roundsMax: 1, budgetMs: Number.POSITIVE_INFINITY }, turns);
    const timings = await takeTurns(bounds, turns);
    for (const contestant of contestants) {
      const [write, own] = [timings[`${contestant.id} write`], timings[contestant.id]];
      if (write === undefined || own === undefined) continue;
      rows.push({
        contestant: contestant.id,
        locks: size,
        atOnce: contestant.takeAll !== undefined,
        writes: own.p50 / write.p50,
        requests: await requestsOf(field, contestant, names),
        samples: own.count,
      });
    }
  }
  return rows;
}
