import { describe, expect, it } from 'vitest';
import { chartsOf } from '../../bench/report/charts.ts';
import { lineChart, type Series } from '../../bench/report/line-chart.ts';
import { logScale } from '../../bench/report/scale.ts';
import { exampleResults } from './results-example.ts';

describe('logScale', () => {
  it('ends at round numbers around the values', () => {
    const { low, high } = logScale([3, 40]);
    expect([low, high]).toEqual([2, 50]);
  });

  it('gives equal steps to equal ratios', () => {
    const scale = logScale([1, 100]);
    expect(scale.at(1)).toBe(0);
    expect(scale.at(10)).toBeCloseTo(0.5);
    expect(scale.at(100)).toBe(1);
  });

  it('labels 1, 2 and 5 of each decade, and only the decades if there are many', () => {
    expect(logScale([1, 20]).ticks).toEqual([1, 2, 5, 10, 20]);
    expect(logScale([0.01, 1_000]).ticks).toEqual([0.01, 0.1, 1, 10, 100, 1_000]);
  });

  it('works for a single value and for none', () => {
    expect(logScale([5]).high).toBeGreaterThan(5);
    expect(logScale([]).ticks.length).toBeGreaterThan(1);
  });
});

const series = (name: string, ys: readonly number[], more: Partial<Series> = {}): Series => ({
  name,
  color: '#123456',
  strong: false,
  dashed: false,
  points: ys.map((y, index) => ({ x: 10 ** index, y })),
  ...more,
});

const draw = (...all: Series[]) => lineChart({ title: 'T', xTitle: 'X', yTitle: 'Y', series: all });

describe('lineChart', () => {
  it('draws higher values higher', () => {
    const svg = draw(series('a', [1, 100]));
    const [, points] = /<polyline points="([^"]*)"/.exec(svg) ?? [];
    expect(points).toBe('70.0,380.0 590.0,46.0');
  });

  it('lists the lines in the order in which they end, highest first', () => {
    const svg = draw(series('low', [5, 1]), series('high', [1, 9]));
    expect(svg.indexOf('>high</text>')).toBeLessThan(svg.indexOf('>low</text>'));
  });

  it('leaves out lines without points', () => {
    expect(draw(series('there', [1, 2]), series('absent', []))).not.toContain('absent');
  });

  it('draws strong lines thicker, and dashed lines with dashes', () => {
    const svg = draw(series('a', [1, 2], { strong: true, dashed: true }));
    expect(svg).toContain('stroke-width="3.5" stroke-dasharray');
  });

  it('writes names as text and never as markup', () => {
    expect(draw(series('a < b & "c"', [1, 2]))).toContain('a &lt; b &amp; &quot;c&quot;');
  });

  it('has text that can be read on light and on dark pages, and no background', () => {
    const svg = draw(series('a', [1, 2]));
    expect(svg).toContain('prefers-color-scheme: dark');
    expect(svg).not.toContain('<rect');
  });
});

describe('chartsOf', () => {
  it('draws every picture without a gap in its numbers', () => {
    for (const svg of Object.values(chartsOf(exampleResults))) expect(svg).not.toMatch(/NaN|undefined|Infinity/);
  });

  it('leaves out what a store could not do, and does not draw it as zero', () => {
    const { 'hand-off.svg': svg = '' } = chartsOf(exampleResults);
    expect(svg.match(/<circle/g)).toHaveLength(5);
  });
});
