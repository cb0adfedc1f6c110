import { describe, expect, it } from 'vitest';
import { deployedService, deployedTable, metricNamespaces, requireVariable } from '../../../src/process/deployed.ts';
import { afterwards } from '../../../src/process/logger.ts';
import { acquire } from '../../../src/service/acquire.ts';

const env = { HOLDFAST_TABLE: 'locks' };

describe('a deployed service', () => {
  it('takes its settings from the variables that the stack sets', () => {
    const { locks, sockets, engine } = deployedService({
      ...env,
      HOLDFAST_POLL_MS: '10000',
      HOLDFAST_LEASE_MS_MAX: '300000',
      HOLDFAST_WAIT_MS_MAX: '60000',
      HOLDFAST_WEBSOCKET_URL: 'wss://watch.example.com/v1',
    });
    expect(locks).toMatchObject({ pollMs: 10_000, leaseMsMax: 300_000, waitMsMax: 60_000 });
    expect([sockets?.url(undefined), engine]).toEqual(['wss://watch.example.com/v1', 'dynamodb']);
  });

  it('has defaults for those that are missing or empty', () => {
    const { locks, sockets } = deployedService({ ...env, HOLDFAST_POLL_MS: '', HOLDFAST_LEASE_MS_MAX: '' });
    expect(locks).toMatchObject({ pollMs: 20_000 });
    expect([locks.leaseMsMax, locks.waitMsMax, sockets]).toEqual([undefined, undefined, undefined]);
  });

  it('is one of many processes, so it remembers no lock for long', () => {
    expect(deployedService(env).locks.rememberedMs).toBeLessThan(Number.POSITIVE_INFINITY);
  });

  it.each(['10s', '-1', '1.5', ' '])('refuses %j as a number', (text) => {
    expect(() => deployedService({ ...env, HOLDFAST_POLL_MS: text })).toThrow(
      `HOLDFAST_POLL_MS must be a whole number, but is ${text}.`,
    );
  });

  it('keeps an idle lock for as long as the stack says', async () => {
    const days = 90;
    const written: string[] = [];
    const refuse = (input: unknown) => {
      written.push(JSON.stringify(input));
      return Promise.reject(new Error('Nothing is written.'));
    };
    const calls = new Proxy({} as never, { get: () => refuse });
    const retention = { ...env, HOLDFAST_RETENTION_MS: String(days * 86_400_000) };
    const { locks } = deployedService(retention, { ...deployedTable(env), calls });
    const wanted = { leaseId: 'lease-of-a-test', owner: 'test', leaseMs: 1_000, waitMs: 0 } as const;
    await acquire(locks, { namespace: 'test', name: 'a' }, wanted).catch(() => undefined);
    // The lock's item is collected at a time in epoch seconds.
    const instants = written.flatMap((text) => text.match(/(?<!\d)\d{10}(?!\d)/g) ?? []).map(Number);
    expect(instants.map((seconds) => Math.round((seconds - Date.now() / 1_000) / 86_400))).toContain(days);
  });

  it('is not healthy if its store does not answer', async () => {
    const away = () => Promise.reject(new Error('The store is away.'));
    const calls = new Proxy({} as never, { get: () => away });
    const service = deployedService(env, { ...deployedTable(env), calls });
    await expect(service.probe()).rejects.toThrow("can't be reached");
  });
});

describe('the variables of a function', () => {
  it.each([undefined, ''])('are required to have a value: %j', (value) => {
    expect(() => requireVariable({ HOLDFAST_TABLE: value }, 'HOLDFAST_TABLE')).toThrow(
      'HOLDFAST_TABLE is not set; the stack sets it for every function.',
    );
  });

  it('list namespaces with commas between them', () => {
    expect(metricNamespaces({})).toEqual([]);
    expect(metricNamespaces({ HOLDFAST_METRIC_NAMESPACES: 'orders,payments' })).toEqual(['orders', 'payments']);
  });
});

describe('a log that is written afterwards', () => {
  it('delays what is usual, and shows warnings and errors at once', async () => {
    const lines: string[] = [];
    const note = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
    const log = afterwards({ info: note('info'), warn: note('warn'), error: note('error') });
    log.info('a');
    log.warn('b');
    log.error('c');
    expect(lines).toEqual(['warn b', 'error c']);
    await new Promise((resolve) => setImmediate(resolve));
    expect(lines).toEqual(['warn b', 'error c', 'info a']);
  });
});
