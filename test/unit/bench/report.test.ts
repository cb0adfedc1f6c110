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
  it('gives the same as the page on costs: 1.25 for the table, 4.34 through HTTP, 1.25 for history', () => {
    const [http, direct] = exampleResults.cycleRequests.map(cycleDollars);
    expect(direct?.table).toBeCloseTo(1.25);
    expect(direct?.service).toBe(0);
    expect((http?.table ?? 0) + (http?.service ?? 0)).toBeCloseTo(4.34, 2);
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
      'Hand-off with 200 waiting at most 1.2 times that with 10 (p50)',
      'No order inversions, through the service and in direct mode',
    ]);
  });

  it('misses a slow hand-off in direct mode', () => {
    const handOff = exampleResults.handOff.map((row) =>
      row.contestant === 'holdfast-direct' ? { ...row, p50: 5.1 } : row,
    );
    expect(missed({ ...exampleResults, handOff })).toEqual([
      'Hand-off in direct mode at most 5 writes (p50), 10 waiting',
    ]);
  });

  it('misses requests and write units that grow with the queue', () => {
    const handOffRequests = exampleResults.handOffRequests.map((row) =>
      row.waiters === 200 ? { ...row, perHandOff: 2.6, writeUnits: 4.1 } : row,
    );
    expect(missed({ ...exampleResults, handOffRequests })).toEqual([
      'Hand-off at most 2.5 requests, 200 waiting',
      'Hand-off at most 4 write units, 200 waiting',
    ]);
  });

  it('misses a hand-off that costs as much as that of a peer on the same store', () => {
    const handOffRequests = exampleResults.handOffRequests.map((row) =>
      row.contestant === 'deliveryhero' ? { ...row, writeUnits: 3 } : row,
    );
    expect(missed({ ...exampleResults, handOffRequests })).toEqual([
      'Hand-off cheaper than every peer on DynamoDB, 10 waiting',
    ]);
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
