/** Times many runs of something. Only ratios between two of these, from one run, mean anything: machines differ and are shared. */
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

/** Takes turns, so that whatever else the machine does meets all of them alike. */
export async function takeTurns<Name extends string>(
  rounds: number,
  contestants: Readonly<Record<Name, () => Promise<unknown>>>,
): Promise<Record<Name, Timings>> {
  const times = Object.fromEntries(Object.keys(contestants).map((name) => [name, [] as number[]])) as Record<
    Name,
    number[]
  >;
  const names = Object.keys(contestants) as Name[];
  for (let round = 0; round < rounds; round++) {
    for (const name of names) times[name].push(await timeOf(contestants[name]));
  }
  return Object.fromEntries(names.map((name) => [name, summarize(times[name])])) as Record<Name, Timings>;
}

export const ratio = (one: number, other: number): string => (one / other).toFixed(2);
