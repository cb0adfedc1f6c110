/** Direct mode on an engine in memory. */
import { DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { serveEngine } from '../../../src/engine/server.ts';
import { ensureTable } from '../../../src/local/table.ts';
import { DirectTransport } from '../../../src/server/direct-transport.ts';
import { createDirect, type DirectOptions } from '../../../src/server/index.ts';
import { tableShape } from '../../../src/store/dynamodb/table.ts';
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
});
