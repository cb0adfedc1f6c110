/** Direct mode on an engine in memory. */
import { DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Call } from '../../../src/client/transport.ts';
import { serveEngine } from '../../../src/engine/server.ts';
import { ensureTable } from '../../../src/local/table.ts';
import { DirectTransport } from '../../../src/server/direct-transport.ts';
import { createDirect, type DirectOptions } from '../../../src/server/index.ts';
import { tableShape } from '../../../src/table/shape.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { eventually } from '../../support/eventually.ts';

const dayMs = 86_400_000;

async function world() {
  const engine = await serveEngine();
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  const address = { endpoint: engine.endpoint, region: 'us-east-1', credentials };
  const tables = new DynamoDBClient(address);
  onTestFinished(async () => {
    tables.destroy();
    await engine.stop();
  });
  await ensureTable(tables, 'locks');
  const direct = (options: Partial<DirectOptions> = {}) =>
    createDirect({ tableName: 'locks', namespace: 'test', ...address, ...options });
  const items = async () => (await tables.send(new ScanCommand({ TableName: 'locks' }))).Items ?? [];
  return { tables, direct, items };
}

describe('direct mode', () => {
  it('keeps the item of a lock for as long as asked', async () => {
    const { direct, items } = await world();
    await using locks = direct({ retentionMs: 3 * dayMs });
    const before = Math.floor(Date.now() / 1_000);
    await locks.withLock('a', () => 1);
    const [item] = await items();
    const seconds = Number(item?.[tableShape.ttlAttribute]?.N) - before;
    expect(seconds * 1_000).toBeGreaterThanOrEqual(3 * dayMs);
    expect(seconds * 1_000).toBeLessThan(4 * dayMs);
  });

  it('sees what another process does to the table', async () => {
    const { direct } = await world();
    await using one = direct();
    await using other = direct();
    const held = await one.acquire('a');
    const waiting = other.acquire('a', { waitMs: 60_000 });
    await eventually(async () => expect((await one.inspect('a')).queueDepth).toBe(1));
    await held.release();
    // Without looking at the table, it would be granted when its open request ends, after 20 s.
    expect((await waiting).waitedMs).toBeLessThan(15_000);
  });

  it('closes the client that it made, and never one that it was given', async () => {
    const { tables, direct } = await world();
    const destroyed = vi.spyOn(DynamoDBClient.prototype, 'destroy');
    onTestFinished(() => destroyed.mockRestore());
    await direct({ client: tables }).close();
    expect(destroyed).not.toHaveBeenCalled();
    await direct().close();
    expect(destroyed).toHaveBeenCalledTimes(1);
  });
});

describe('a direct request', () => {
  it('ends when its caller gives up: a wait does not go on without anybody', async () => {
    const time = new VirtualTime();
    const transport = new DirectTransport(memoryService(time, seededRandom(1), () => {}).service);
    const giveUp = new AbortController();
    const acquire = (leaseId: string) =>
      transport.request(
        {
          operation: 'acquireLock',
          method: 'POST',
          route: '/v1/{ns}/locks/{name}/acquire',
          parameters: { ns: 'test', name: 'a' },
          body: { leaseId: leaseId.padEnd(16, '-'), waitMs: 20_000 },
        },
        giveUp.signal,
      );
    await acquire('holder');
    let answered = false;
    const waiting = acquire('waiter').finally(() => {
      answered = true;
    });
    await time.settle();
    expect(answered).toBe(false);
    giveUp.abort();
    await time.settle();
    expect(answered).toBe(true);
    await waiting;
  });

  const never = new AbortController().signal;
  const at = (route: string, more: Record<string, string> = {}): Pick<Call, 'route' | 'parameters'> => ({
    route,
    parameters: { ns: 'test', ...more },
  });
  const inMemory = () => memoryService(new VirtualTime(), seededRandom(1), () => {}).service;

  it('has a number in its id, which its answer and its refusal name', async () => {
    const transport = new DirectTransport(inMemory());
    expect(transport.target).toBe('the store');
    const renew: Call = {
      operation: 'renewLock',
      method: 'POST',
      ...at('/v1/{ns}/locks/{name}/renew', { name: 'a' }),
      body: { leaseId: 'lease-0000000000' },
    };
    for (const id of ['direct-1', 'direct-2'])
      expect(await transport.request(renew, never)).toMatchObject({
        status: 409,
        headers: { 'x-request-id': id },
        body: { code: 'lease-lost', reason: 'not_owner', instance: expect.stringContaining(id) },
      });
    const inspect: Call = { operation: 'inspectLock', method: 'GET', ...at('/v1/{ns}/locks/{name}', { name: 'a' }) };
    expect(await transport.request(inspect, never)).toMatchObject({
      status: 200,
      headers: { 'x-request-id': 'direct-3' },
      body: { state: 'free' },
    });
  });

  it('passes on its query, and reads an answer that is made as text', async () => {
    const transport = new DirectTransport(inMemory());
    const route = '/v1/{ns}/records/{key}';
    const headers = { 'if-none-match': '*' };
    for (const key of ['a', 'b', 'c'])
      await transport.request(
        { operation: 'putRecord', method: 'PUT', ...at(route, { key }), headers, body: { value: { of: key } } },
        never,
      );
    const get: Call = { operation: 'getRecord', method: 'GET', ...at(route, { key: 'b' }) };
    expect(await transport.request(get, never)).toMatchObject({ status: 200, body: { value: { of: 'b' } } });
    const check: Call = {
      operation: 'checkFence',
      method: 'GET',
      ...at('/v1/{ns}/locks/{name}/check', { name: 'a' }),
      query: { fence: '7' },
    };
    expect(await transport.request(check, never)).toMatchObject({ status: 200, body: { valid: false, state: 'free' } });
  });

  it.each([
    ['ResourceNotFoundException', 'there is no such table in this Region and account'],
    ['CredentialsProviderError', 'no AWS credentials were found'],
    ['TokenProviderError', 'no AWS credentials were found'],
    ['AccessDeniedException', 'the AWS credentials do not give the rights that direct mode needs'],
    ['UnrecognizedClientException', 'AWS does not know these credentials'],
    ['InvalidSignatureException', 'AWS does not accept the signature of these credentials'],
    ['IncompleteSignatureException', 'AWS does not accept the signature of these credentials'],
    ['MissingAuthenticationTokenException', 'the request carried no AWS credentials'],
    ['ExpiredTokenException', 'the AWS credentials have expired'],
  ])('says what is wrong with the configuration after %s', async (name, said) => {
    const cause = Object.assign(new Error('as AWS says it'), { name });
    const service = { ...inMemory(), probe: () => Promise.reject(cause) };
    const transport = new DirectTransport(service, { target: 'table locks' });
    const health: Call = { operation: 'health', method: 'GET', route: '/v1/health', parameters: {} };
    await expect(transport.request(health, never)).rejects.toMatchObject({
      code: 'misconfigured',
      message: expect.stringMatching(new RegExp(`^table locks: ${said} \\(.*as AWS says it`)),
      cause,
    });
  });

  it('is answered as unavailable if its store fails in another way, whatever was thrown', async () => {
    for (const cause of [new Error('reset'), 'no error at all']) {
      const transport = new DirectTransport({ ...inMemory(), probe: () => Promise.reject(cause) });
      const health: Call = { operation: 'health', method: 'GET', route: '/v1/health', parameters: {} };
      const answer = await transport.request(health, never);
      expect(answer.status).toBeGreaterThanOrEqual(500);
      expect(answer.cause).toBe(cause);
    }
  });
});
