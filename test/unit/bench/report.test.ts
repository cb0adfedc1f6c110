import { describe, expect, it } from 'vitest';
import { cycleDollars } from '../../bench/report/cost.ts';
import { figure, table } from '../../bench/report/format.ts';
import { reportOf } from '../../bench/report/markdown.ts';
import { crossover } from '../../bench/report/tables.ts';
import { targetsOf } from '../../bench/report/targets.ts';
import type { Results } from '../../bench/results.ts';
import { exampleResults } from './results-example.ts';

describe('figure', () => {
  it('keeps three digits', () => {
    expect([1.234, 12.34, 123.4, null, Number.NaN].map(figure)).toEqual(['1.23', '12.3', '123', '–', '–']);
  });
});

describe('table', () => {
  it('pads its columns', () => {
    expect(table(['', 'n'], [['long name', '1']])).toBe(
      '|           | n   |\n|-----------|-----|\n| long name | 1   |',
    );
  });
});

describe('cycleDollars', () => {
  it('gives the same as the page on costs: 1.25 for the table, 4.48 through HTTP, 1.25 for history', () => {
    const [http, direct] = exampleResults.cycleRequests.map(cycleDollars);
    expect(direct?.table).toBeCloseTo(1.25);
    expect(direct?.service).toBe(0);
    expect((http?.table ?? 0) + (http?.service ?? 0)).toBeCloseTo(4.48, 1);
    expect(http?.news).toBeCloseTo(1.25);
  });
});

describe('crossover', () => {
  it('is the point from which the lock is always better', () => {
    expect(crossover(exampleResults, 'rate')).toBe(32);
    expect(crossover(exampleResults, 'requestsPerIncrement')).toBe(8);
  });

  it('does not exist if the lock is never better', () => {
    const increment = exampleResults.increment.map((row) => ({ ...row, rate: row.way === 'cas' ? 1 : 0.5 }));
    expect(crossover({ ...exampleResults, increment }, 'rate')).toBeNull();
  });
});

const missed = (results: Results) =>
  targetsOf(results)
    .filter(({ met }) => !met)
    .map(({ target }) => target);

describe('targetsOf', () => {
  it('finds all of them met in a run that meets them', () => {
    expect(missed(exampleResults)).toEqual([]);
  });

  it('misses a cycle that takes too long', () => {
    const cycle = exampleResults.cycle.map((row) => ({ ...row, p50: row.p50 * 1.1 }));
    expect(missed({ ...exampleResults, cycle })).toHaveLength(2);
  });

  it('misses a slow hand-off and an order inversion', () => {
    const handOff = exampleResults.handOff.map((row) =>
      row.contestant === 'holdfast-http' && row.waiters === 200 ? { ...row, p50: 2.1, inversions: 1 } : row,
    );
    expect(missed({ ...exampleResults, handOff })).toEqual([
      'Hand-off through the service at most 2 writes (p50), 200 waiting',
      'No order inversions, through the service and in direct mode',
    ]);
  });

  it('misses requests that grow with the queue, and waiters that were never counted', () => {
    const grown = exampleResults.handOffRequests.map((row) => (row.waiters === 200 ? { ...row, perHandOff: 30 } : row));
    const flat = 'Requests per hand-off flat from 10 to 200 waiters, through the service';
    expect(missed({ ...exampleResults, handOffRequests: grown })).toEqual([flat]);
    const uncounted = exampleResults.handOffRequests.filter(({ waiters }) => waiters < 200);
    expect(missed({ ...exampleResults, handOffRequests: uncounted })).toEqual([flat]);
  });

  it('misses a row in which a peer on the same store asks less, but not one on another store', () => {
    const frugal = (contestant: string) =>
      exampleResults.handOffRequests.map((row) => (row.contestant === contestant ? { ...row, perHandOff: 2 } : row));
    expect(missed({ ...exampleResults, handOffRequests: frugal('redlock') })).toEqual([]);
    expect(missed({ ...exampleResults, handOffRequests: frugal('deliveryhero') })).toEqual([
      'Fewest requests of all on DynamoDB: hand-off, 10 waiting',
    ]);
  });

  it('misses memory that grows', () => {
    expect(missed({ ...exampleResults, memory: { cycles: 1, growth: 1.2 } })).toEqual([
      'Memory of the server flat under load',
    ]);
  });
});

describe('reportOf', () => {
  it('has no missing values', () => {
    expect(reportOf(exampleResults)).not.toMatch(/NaN|undefined|Infinity|null|\[object/);
  });

  it('says what was missing, and what a store could not do', () => {
    const report = reportOf(exampleResults);
    expect(report).toContain('etcd is not installed.');
    expect(report).toContain('too many');
  });

  it('warns of a quick run, and of no other', () => {
    expect(reportOf(exampleResults)).not.toContain('quick run,');
    expect(reportOf({ ...exampleResults, quick: true })).toContain('quick run,');
  });

  it('can be written for a run without any peer', () => {
    const empty: Results = {
      ...exampleResults,
      contestants: [],
      cycle: [],
      throughput: [],
      handOff: [],
      handOffRequests: [],
      cycleRequests: [],
      crash: [],
      renewals: [],
      stampede: [],
      multiLock: [],
      increment: [],
      memory: null,
      imports: null,
    };
    expect(reportOf(empty)).toContain('# Benchmarks');
  });
});
