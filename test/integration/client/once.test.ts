import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Holdfast } from '../../../src/client/index.ts';
import { localCredentials } from '../../../src/local/engine/endpoint.ts';
import { createDirect } from '../../../src/server/index.ts';
import { startService, type TestService } from '../../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

/** 200 callers at once keep a small machine busy for a while. None of them must give up because of that. */
const patience = { requestMs: 60_000, retryMs: 240_000, tryMs: 60_000, releaseMs: 60_000 };
const breaker = { failuresMax: 1_000 };
const overHttp = (): Holdfast => new Holdfast({ url: service.url, namespace: 'test', patience, breaker });
const direct = (): Holdfast => {
  const { endpoint, region } = inject('engine');
  const at = { tableName: service.table, region, endpoint, credentials: localCredentials };
  return createDirect({ ...at, namespace: 'test', patience });
};

describe('once, on the real service', () => {
  it('completes one run of 200 callers in one window, and gives all of them one answer', async () => {
    const job = randomUUID();
    const clients = Array.from({ length: 8 }, overHttp);
    let runs = 0;
    const work = async () => {
      runs += 1;
      // Long enough that the others queue behind it.
      await new Promise((resolve) => setTimeout(resolve, 300));
      return { receipt: randomUUID() };
    };
    const options = { everyMs: 86_400_000, waitMs: 240_000 };
    const results = await Promise.all(
      Array.from({ length: 200 }, (_, index) => (clients[index % clients.length] as Holdfast).once(job, options, work)),
    );
    expect(runs).toBe(1);
    expect(results.filter(({ ran }) => ran)).toHaveLength(1);
    expect(new Set(results.map(({ done, value }) => JSON.stringify({ done, value }))).size).toBe(1);
    await Promise.all(clients.map((client) => client.close()));
    await using looking = overHttp();
    expect(await looking.inspect(`once:${job}`)).toMatchObject({ state: 'free', holders: [], queueDepth: 0 });
  });

  it('is the same job over HTTP and in direct mode', async () => {
    const job = randomUUID();
    const [one, other] = [overHttp(), direct()];
    expect(await other.once(job, () => ({ by: 'direct' }))).toMatchObject({ ran: true });
    expect(await one.once(job, () => ({ by: 'HTTP' }))).toEqual({ ran: false, done: true, value: { by: 'direct' } });
    await Promise.all([one.close(), other.close()]);
  });
});
