import { lineChart, type Series } from '../../bench/report/line-chart.ts';
import type { Results } from '../results.ts';
import type { HotLockRow } from '../scenarios/hot-lock.ts';
import { type Waiting, ways } from '../world.ts';

const colors: Readonly<Record<Waiting, string>> = { 'long poll': '#db6d28', push: '#2da44e', direct: '#a371f7' };

/** The pictures of the report, by file name. */
export function chartsOf({ hotLock }: Results): Readonly<Record<string, string>> {
  const chart = (title: string, yTitle: string, value: (row: HotLockRow) => number | null): string =>
    lineChart({ title, xTitle: 'waiters', yTitle, series: seriesOf(hotLock, value) });
  return {
    'units.svg': chart('Write units per hand-off, joining included', 'write units', ({ writeUnits }) => writeUnits),
    'hand-off.svg': chart('From release to the next holder, p50 (modelled)', 'ms', ({ p50Ms }) => p50Ms),
    'dollars.svg': chart('Dollars per million hand-offs', 'dollars', ({ dollarsPerMillion }) => dollarsPerMillion),
  };
}

const seriesOf = (rows: readonly HotLockRow[], value: (row: HotLockRow) => number | null): Series[] =>
  ways.map((waiting) => ({
    name: waiting,
    color: colors[waiting],
    strong: true,
    dashed: false,
    points: rows
      .filter((row) => row.waiting === waiting && row.handOffs > 0)
      .flatMap((row) => {
        const y = value(row);
        return y === null || y <= 0 ? [] : [{ x: row.waiters, y }];
      }),
  }));
