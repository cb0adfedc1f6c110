import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { dollarsPerMillion } from '../../../infra/prices.ts';
import { modelled, prices, quantile } from '../../../src/cli/measurement.ts';
import { shell } from './in-process.ts';

describe('measure', () => {
  it('measures each way to take a lock, as a table and as JSON, and leaves nothing held', async () => {
    const { twin, other, start } = shell();
    const { stdout, code } = await twin.until(start(['measure', '--rounds', '20', '--crowd', '5', '--json']));
    expect(code).toBe(0);
    const { rows, requests, dollars, endedBy } = JSON.parse(stdout);
    expect(rows).toMatchObject([
      { what: 'acquire a free lock', count: 20 },
      { what: 'renew', count: 20 },
      { what: 'release', count: 20 },
      { what: 'hand-off by long poll', count: 2, model: { p50Ms: 40 } },
      { what: 'hand-off by push', count: 2 },
      { what: 'wait in a stampede', count: 5 },
      { what: 'failover, lease of 2000 ms', count: 1 },
    ]);
    // The dead holder keeps its lease of 2 s and the grace, and not much longer.
    expect(rows[6].p50Ms).toBeGreaterThanOrEqual(2_000);
    expect(rows[6].p50Ms).toBeLessThan(4_000);
    expect(requests).toBeGreaterThan(75);
    expect(dollars).toBeGreaterThan(0);
    expect(dollars).toBeLessThan(0.01);
    expect(endedBy).toBeUndefined();
    for await (const { state, queueDepth } of other.list({ prefix: 'measure:' }))
      expect([state, queueDepth]).toEqual(['free', 0]);
    const table = await twin.until(start(['measure', '--rounds', '10', '--crowd', '2']));
    expect(table.stdout).toMatch(/WHAT +COUNT +P50 +P99 +MODEL P50 \/ P99\nacquire a free lock +10 /);
    expect(table.stdout).toContain('dollars on AWS by list prices');
  });

  it('begins nothing new when its time or its money is used up', async () => {
    const { twin, start } = shell();
    const short = await twin.until(start(['measure', '--max-duration', '1s', '--rounds', '100', '--json']));
    expect(JSON.parse(short.stdout)).toMatchObject({ endedBy: 'duration' });
    const poor = await twin.until(start(['measure', '--max-dollars', '0.00001', '--json']));
    const { endedBy, requests } = JSON.parse(poor.stdout);
    expect(endedBy).toBe('dollars');
    expect(requests).toBeLessThan(20);
    await expect(start(['measure', '--max-dollars', 'none'])).rejects.toThrow('--max-dollars expects a number');
  });

  it('has the prices of the dashboard and the figures of the model', () => {
    expect(dollarsPerMillion).toMatchObject(prices);
    const { hotLock } = JSON.parse(readFileSync(new URL('../../../docs/scale.json', import.meta.url), 'utf8')) as {
      hotLock: { waiting: string; waiters: number; p50Ms: number; p99Ms: number }[];
    };
    for (const way of ['long poll', 'push']) {
      const row = hotLock.find(({ waiting, waiters }) => waiting === way && waiters === 2);
      expect(modelled[`hand-off by ${way}`]).toEqual({ p50Ms: row?.p50Ms, p99Ms: row?.p99Ms });
    }
  });

  it('counts quantiles from the values themselves', () => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect([quantile(values, 0.5), quantile(values, 0.99), quantile([7], 0.99)]).toEqual([50, 99, 7]);
  });
});
