import { describe, expect, it } from 'vitest';
import { deployedService, deployedTable, metricNamespaces, requireVariable } from '../../../src/process/deployed.ts';
import { afterwards } from '../../../src/process/logger.ts';
import { version } from '../../../src/process/version.ts';
import { serviceOn } from '../../../src/process/wiring.ts';
import { acquire } from '../../../src/service/acquire.ts';
import { memoryStores } from '../../support/memory-table.ts';

const env = { HOLDFAST_TABLE: 'locks', HOLDFAST_ENDPOINT: 'http://127.0.0.1:1', AWS_REGION: 'us-east-1' };

describe('the environment of a deployed function', () => {
  it('must have each variable that is required, and none of them empty', () => {
    expect(requireVariable(env, 'HOLDFAST_TABLE')).toBe('locks');
    for (const value of [undefined, ''])
      expect(() => requireVariable({ HOLDFAST_BUS: value }, 'HOLDFAST_BUS')).toThrow('HOLDFAST_BUS is not set');
    expect(() => deployedTable({})).toThrow('HOLDFAST_TABLE is not set');
  });

  it('lists namespaces with their own metrics', () => {
    expect(metricNamespaces({})).toEqual([]);
    expect(metricNamespaces({ HOLDFAST_METRIC_NAMESPACES: 'orders,jobs' })).toEqual(['orders', 'jobs']);
  });

  it('sets the limits of the deployment, and leaves the others as they are', () => {
    const { locks, engine } = deployedService({ ...env, HOLDFAST_POLL_MS: '5000', HOLDFAST_LEASE_MS_MAX: '60000' });
    expect([engine, locks.pollMs, locks.leaseMsMax]).toEqual(['dynamodb', 5_000, 60_000]);
    expect(locks).not.toHaveProperty('waitMsMax');
    expect(deployedService({ ...env, HOLDFAST_WAIT_MS_MAX: '70000' }).locks.waitMsMax).toBe(70_000);
    const plain = deployedService({ ...env, HOLDFAST_POLL_MS: '', HOLDFAST_RETENTION_MS: '172800000' }).locks;
    expect([plain.pollMs, plain.rememberedMs], 'other processes write too').toEqual([20_000, 100]);
    expect(plain).not.toHaveProperty('leaseMsMax');
  });

  it('can not keep an idle lock for less than the least time', () => {
    expect(() => deployedService({ ...env, HOLDFAST_RETENTION_MS: '1000' })).toThrow('retentionMs must be at least');
  });

  it('keeps an idle lock for as long as the stack says', async () => {
    const days = 90;
    const written: string[] = [];
    const call = (_operation: string, request: unknown) => {
      written.push(JSON.stringify(request));
      return Promise.reject(new Error('Nothing is written.'));
    };
    const retention = { ...env, HOLDFAST_RETENTION_MS: String(days * 86_400_000) };
    const { locks } = deployedService(retention, { ...deployedTable(env), table: { call } });
    const wanted = { leaseId: 'lease-of-a-test', owner: 'test', leaseMs: 1_000, waitMs: 0 } as const;
    await acquire(locks, { namespace: 'test', name: 'a' }, wanted).catch(() => undefined);
    // The lock's item is collected at a time in epoch seconds.
    const instants = written.flatMap((text) => text.match(/(?<!\d)\d{10}(?!\d)/g) ?? []).map(Number);
    expect(instants.map((seconds) => Math.round((seconds - Date.now() / 1_000) / 86_400))).toContain(days);
  });

  it('is not healthy if its store does not answer', async () => {
    const call = () => Promise.reject(new Error('The store is away.'));
    const service = deployedService(env, { ...deployedTable(env), table: { call } });
    await expect(service.probe()).rejects.toThrow("can't be reached");
  });

  it.each(['5s', '1.5', '-1', ' 5'])('is refused with a limit that is no whole number: %j', (value) => {
    expect(() => deployedService({ ...env, HOLDFAST_POLL_MS: value })).toThrow(
      `HOLDFAST_POLL_MS must be a whole number, but is ${value}.`,
    );
  });

  it('has sockets only if it names their url', () => {
    expect(deployedService(env).sockets).toBeUndefined();
    expect(deployedService({ ...env, HOLDFAST_WEBSOCKET_URL: '' }).sockets).toBeUndefined();
    const { sockets } = deployedService({ ...env, HOLDFAST_WEBSOCKET_URL: 'wss://somewhere' });
    expect(sockets?.url('here')).toBe('wss://somewhere');
  });
});

describe('a service on a table', () => {
  it('names its version, and its probe reads the table', async () => {
    const { access, table } = memoryStores();
    const service = serviceOn({ access, alone: true, engine: 'test' });
    expect(service).toMatchObject({ engine: 'test', version });
    expect(version).toMatch(/^\d+\.\d+\.\d+/);
    expect(service.locks.rememberedMs).toBe(Number.POSITIVE_INFINITY);
    await service.probe();
    expect(table.take()).toEqual(['read']);
  });
});

describe('a log that writes afterwards', () => {
  it('writes what is no failure after the current work, and failures at once', async () => {
    const lines: string[] = [];
    const write = (level: string) => (message: string, fields?: object) =>
      void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
    const log = afterwards({ info: write('info'), warn: write('warn'), error: write('error') });
    log.info('answered', { status: 200 });
    log.warn('late', { tookMs: 7 });
    log.error('failed', { status: 500 });
    expect(lines).toEqual(['warn late {"tookMs":7}', 'error failed {"status":500}']);
    await new Promise((resolve) => setImmediate(resolve));
    expect(lines.at(-1)).toBe('info answered {"status":200}');
  });
});
