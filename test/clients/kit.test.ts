import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService, type TestService } from '../support/service.ts';
import { wide } from '../support/wide.ts';
import { findings, type Seen } from './checks.ts';
import { clients, type Line } from './client-process.ts';
import { judge } from './kit.ts';
import { plant, planted } from './planted.ts';
import type { Exchange, Upstream } from './proxy.ts';
import { hasPackage, hasPython, warnSkipped } from './python.ts';
import { scenarios } from './scenarios.ts';
import { keys, wrongSignature } from './signature.ts';

if (!hasPython) warnSkipped('the kit does not run with the Python client.', 'apt-get install python3 (3.10 or newer)');
const isHere = (client: string): boolean => client !== 'python' || hasPython;
/** `npm run clients` has all of them. */
const stories = scenarios.filter(
  ({ quick, env }) => (wide || quick === true) && (env === undefined || hasPackage('botocore')),
);

/** Stories wait most of their time, so they run beside each other. */
describe.concurrent('the fault kit', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());

  it.for(clients.map((client) => ({ client, name: client.name })))(
    'finds nothing wrong with $name',
    async ({ client }, { skip }) => {
      if (!isHere(client.name)) skip();
      const verdicts = await judge({ url: service.url, client }, stories);
      expect(verdicts.flatMap(({ scenario, found }) => found.map((what) => `${scenario}: ${what}`))).toEqual([]);
    },
  );

  const chosen = wide ? planted : planted.filter(({ fault }) => fault.includes('keeps its place'));
  it.for(chosen)('finds that $client has a fault: $fault', async (fault, { skip }) => {
    const client = clients.find(({ name }) => name === fault.client);
    if (client === undefined || !isHere(client.name)) {
      skip();
      return;
    }
    const folder = await plant(fault);
    try {
      const wanted = scenarios.filter(({ name }) => name === fault.scenario);
      const [verdict] = await judge({ url: service.url, client, folder }, wanted);
      expect(verdict?.found).not.toEqual([]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('has five planted faults for each client', ({ expect }) => {
    for (const { name } of clients) expect(planted.filter(({ client }) => client === name)).toHaveLength(5);
  });
});

const leaseId = 'the-lease-id-of-the-kit';
const exchange = (action: string, more: Partial<Exchange> = {}): Exchange => ({
  at: 0,
  method: 'POST',
  url: `/v1/kit/locks/l/${action}`,
  headers: {},
  text: '',
  action,
  lock: 'l',
  body: {},
  leaseId,
  upstream: [],
  ...more,
});
const granted = (at: number, until: number, fence = 1): Upstream => ({
  at,
  status: 200,
  body: { status: 'granted', fence, expiresAt: new Date(until).toISOString() },
});
const working = (at: number): Line => ({ id: 'a', is: 'working', at, fence: 1 });
const seen = (exchanges: Exchange[], lines: Line[] = [], printed = ''): Seen => ({
  exchanges,
  lines,
  printed,
  locks: new Map([['a', 'l']]),
});

describe('the checks', () => {
  const acquire = exchange('acquire', { upstream: [granted(1_000, 4_000)] });

  it('find a belief past the end of the lease, as the service said it last', () => {
    const renew = exchange('renew', { upstream: [granted(2_000, 5_000)] });
    expect(findings(seen([acquire], [working(3_999)]))).toEqual([]);
    expect(findings(seen([acquire], [working(4_100)]))).toEqual(['a works 100 ms after its lease has ended']);
    expect(findings(seen([acquire, renew], [working(4_100)]))).toEqual([]);
  });

  it('find a belief after the release', () => {
    const release = exchange('release', { upstream: [{ at: 2_000, status: 200, body: { released: true } }] });
    expect(findings(seen([acquire, release], [working(2_500)]))).toEqual(['a works 500 ms after its lease has ended']);
  });

  it('find a lease id with two fences, and a lock with two lease ids', () => {
    expect(findings(seen([acquire, exchange('acquire', { upstream: [granted(1_500, 4_000, 2)] })]))).toEqual([
      'one lease id got 2 fences',
    ]);
    expect(findings(seen([acquire, exchange('acquire', { leaseId: 'another' })]))).toEqual([
      'l was asked for with 2 lease ids',
    ]);
  });

  it('find a place that is said to be new twice, and a secret in what was printed', () => {
    const again = exchange('acquire', { body: { place: 'new' } });
    expect(findings(seen([again, again]))).toHaveLength(1);
    expect(findings(seen([acquire], [], `held ${leaseId}`))).toEqual(['a lease id is in what was printed']);
  });

  it('find a signature that does not match', () => {
    const at = Date.UTC(2026, 0, 1);
    const authorization = `AWS4-HMAC-SHA256 Credential=${keys.id}/20260101/${keys.region}/execute-api/aws4_request, SignedHeaders=host;x-amz-date, Signature=${'0'.repeat(64)}`;
    const headers = { host: 'x', 'x-amz-date': '20260101T000000Z', authorization };
    expect(wrongSignature(exchange('acquire', { headers }), at)).toBe('the signature does not match the request');
    expect(wrongSignature(exchange('acquire', { headers }), at + 600_000)).toBe('the date 20260101T000000Z');
    expect(wrongSignature(exchange('acquire'), at)).toMatch('no signature');
  });
});
