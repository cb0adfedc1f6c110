/** The times of many runs. Only ratios of two of these, from one run, mean something, because machines differ and are shared. */
export interface Timings {
  readonly p50: number;
  readonly p99: number;
  readonly count: number;
}

export function summarize(times: readonly number[]): Timings {
  const sorted = [...times].sort((one, other) => one - other);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99), count: sorted.length };
}

export async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** The limits of a measurement: a number of rounds, or a time, whichever comes first. */
export interface Bounds {
  readonly roundsMax: number;
  readonly budgetMs: number;
}

/**
 * Takes turns, so that other load on the machine affects all of them equally. Each round is complete. In a turn, each is timed `inARow`
 * times, like a program that does several things in a row. One time alone would measure how a process wakes up after all the others.
 */
export async function takeTurns<Name extends string>(
  { roundsMax, budgetMs }: Bounds,
  contestants: Readonly<Record<Name, () => Promise<unknown>>>,
  inARow = 1,
): Promise<Record<Name, Timings>> {
  const names = Object.keys(contestants) as Name[];
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  const endsAt = performance.now() + budgetMs;
  for (let round = 0; round < roundsMax && performance.now() < endsAt; round++) {
    for (const name of names)
      for (let time = 0; time < inARow; time++) times[name].push(await timeOf(contestants[name]));
  }
  return Object.fromEntries(names.map((name) => [name, summarize(times[name])])) as Record<Name, Timings>;
}

/** How much work a number of clients at once do within the time, per millisecond. */
export async function rateOf(
  clients: number,
  sliceMs: number,
  work: (client: number) => Promise<unknown>,
): Promise<{ perMs: number; count: number }> {
  const startedAt = performance.now();
  let count = 0;
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      while (performance.now() - startedAt < sliceMs) {
        await work(client);
        count += 1;
      }
    }),
  );
  return { perMs: count / (performance.now() - startedAt), count };
}

export const median = (values: readonly number[]): number => summarize(values).p50;

export const pauseMs = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
