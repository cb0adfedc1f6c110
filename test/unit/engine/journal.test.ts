import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryEngine } from '../../../src/engine/engine.ts';
import { Journal } from '../../../src/engine/journal.ts';

const TableName = 't';
const definition = {
  TableName,
  KeySchema: [{ AttributeName: 'p', KeyType: 'HASH' }],
  AttributeDefinitions: ['p', 'g'].map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
  GlobalSecondaryIndexes: [
    { IndexName: 'by-g', KeySchema: [{ AttributeName: 'g', KeyType: 'HASH' }], Projection: { ProjectionType: 'ALL' } },
  ],
  StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' },
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-journal-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const file = () => join(folder, 'journal.jsonl');

async function opened(ms = 1_900_000_000_000) {
  const clock = { ms };
  const engine = new MemoryEngine({ now: () => clock.ms });
  const journal = await Journal.open(folder, engine);
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the test checks.
  const call = (operation: string, input: object = {}): any => engine.call(operation, { TableName, ...input });
  const put = (id: string, more: object = {}) => call('PutItem', { Item: { p: { S: id }, ...more } });
  const ids = (): string[] =>
    call('Scan')
      .Items.map((item: { p: { S: string } }) => item.p.S)
      .sort();
  return { clock, engine, journal, call, put, ids };
}

/** What a caller can see of an engine: its tables, items, indexes and stream. */
function seen({ call }: Awaited<ReturnType<typeof opened>>) {
  const { Table } = call('DescribeTable');
  const byG = call('Query', {
    IndexName: 'by-g',
    KeyConditionExpression: 'g = :g',
    ExpressionAttributeValues: { ':g': { S: 'x' } },
  });
  const { ShardIterator } = call('GetShardIterator', {
    StreamArn: Table.LatestStreamArn,
    ShardIteratorType: 'TRIM_HORIZON',
  });
  return {
    Table,
    items: call('Scan').Items,
    byG: byG.Items,
    ttl: call('DescribeTimeToLive'),
    records: call('GetRecords', { ShardIterator }).Records,
  };
}

async function written() {
  const world = await opened();
  const { call, put, journal, clock, engine } = world;
  call('CreateTable', definition);
  call('UpdateTimeToLive', { TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: true } });
  put('a', { g: { S: 'x' }, n: { N: '1' } });
  clock.ms += 1_000;
  put('b', { g: { S: 'x' } });
  put('gone', { ttl: { N: '5' } });
  call('UpdateItem', {
    Key: { p: { S: 'a' } },
    UpdateExpression: 'SET n = n + :one',
    ExpressionAttributeValues: { ':one': { N: '1' } },
  });
  call('DeleteItem', { Key: { p: { S: 'b' } } });
  call('TransactWriteItems', {
    ClientRequestToken: 'once',
    TransactItems: ['c', 'd'].map((id) => ({ Put: { TableName, Item: { p: { S: id } } } })),
  });
  engine.collectExpired();
  await journal.flushed();
  return world;
}

describe('the journal', () => {
  it('gives an engine back as it was: tables, items, indexes, stream and transactions', async () => {
    const before = await written();
    const expected = seen(before);
    // No close: the process was killed.
    const after = await opened(2_000_000_000_000);
    expect(seen(after)).toEqual(expected);
    expect(after.ids()).toEqual(['a', 'c', 'd']);
    const repeated = {
      ClientRequestToken: 'once',
      TransactItems: [{ Put: { TableName, Item: { p: { S: 'again' } } } }],
    };
    after.call('TransactWriteItems', repeated);
    expect(after.ids(), 'the same transaction has one effect').toEqual(['a', 'c', 'd']);
  });

  it('removes a last line that was cut off, and goes on after it', async () => {
    await written();
    const whole = statSync(file()).size;
    for (const cut of ['{"at":5,"wri', '{']) {
      appendFileSync(file(), cut);
      const { journal, put } = await opened();
      expect(statSync(file()).size).toBe(whole);
      await journal.close();
      expect(put).toBeDefined();
    }
    const { journal, put } = await opened();
    put('later');
    await journal.close();
    expect((await opened()).ids()).toContain('later');
  });

  it('loses nothing but unacknowledged writes, wherever the file ends', async () => {
    await written();
    const text = readFileSync(file(), 'utf8');
    const lines = text.split('\n').length - 1;
    for (const length of [text.length - 1, text.length - 40, 700, 300]) {
      writeFileSync(file(), text);
      truncateSync(file(), length);
      const { journal } = await opened();
      await journal.close();
      const kept = readFileSync(file(), 'utf8');
      expect(text.startsWith(kept)).toBe(true);
      expect(kept.split('\n').length - 1).toBeLessThan(lines);
    }
  });

  it('refuses a file that is damaged in the middle, and says where', async () => {
    await written();
    const [first, ...rest] = readFileSync(file(), 'utf8').split('\n');
    writeFileSync(file(), [first, 'nonsense', ...rest].join('\n'));
    await expect(opened()).rejects.toThrow(/^Line 2 of .*journal\.jsonl can't be read/);
  });

  it('keeps a transaction in one line, so that it is there as a whole or not at all', async () => {
    await written();
    const lines = readFileSync(file(), 'utf8').trim().split('\n');
    const both = lines.filter((line) => line.includes('"c"') || line.includes('"d"'));
    expect(both).toHaveLength(1);
  });

  it('writes lines together that come together, and is done when they are on the disk', async () => {
    const { journal, put, call } = await opened();
    call('CreateTable', definition);
    const flushes = Array.from({ length: 50 }, (_, index) => {
      put(`i${index}`);
      return journal.flushed();
    });
    await Promise.all(flushes);
    expect(readFileSync(file(), 'utf8').trim().split('\n')).toHaveLength(51);
    await expect(journal.flushed()).resolves.toBeUndefined();
  });

  it('is written anew when it has grown, and is the same after that', async () => {
    const { journal, put, call, clock } = await opened();
    call('CreateTable', definition);
    for (let turn = 0; turn < 100_100; turn++) {
      clock.ms += 1;
      put(`i${turn % 5}`, { g: { S: 'x' }, n: { N: String(turn) } });
      if (turn % 20_000 === 0) await journal.flushed();
    }
    await journal.flushed();
    const lines = readFileSync(file(), 'utf8').trim().split('\n');
    expect(lines.length).toBeLessThan(200);
    put('last');
    await journal.close();
    const after = await opened();
    expect(after.ids()).toEqual(['i0', 'i1', 'i2', 'i3', 'i4', 'last']);
    const { Table } = after.call('DescribeTable');
    const { ShardIterator } = after.call('GetShardIterator', {
      StreamArn: Table.LatestStreamArn,
      ShardIteratorType: 'TRIM_HORIZON',
    });
    const { Records } = after.call('GetRecords', { ShardIterator });
    expect(Records[0].dynamodb.SequenceNumber, 'numbers go on').toMatch(/0098\d{3}$/);
  });

  it.each(['appendFile', 'datasync'] as const)('acknowledges nothing after the disk failed: %s', async (step) => {
    const engine = new MemoryEngine();
    const full = () => Promise.reject(new Error('ENOSPC: no space left on device'));
    const works = { appendFile: async () => {}, datasync: async () => {}, close: async () => {} };
    const journal = await Journal.open(folder, engine, async () => ({ ...works, [step]: full }));
    engine.call('CreateTable', definition);
    const failure = "The journal can't be written: ENOSPC";
    await expect(journal.flushed()).rejects.toThrow(failure);
    await expect(journal.flushed(), 'also if nothing is left to write').rejects.toThrow(failure);
    expect((await journal.failed).message).toContain('ENOSPC');
  });
});
