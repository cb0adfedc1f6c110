import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { addTo, noTally, startCountingProxy, tellsNews, unitsOf } from '../../bench/counting-proxy.ts';

describe('tellsNews', () => {
  it('counts locks, sessions and records as such', () => {
    expect(tellsNews('{"Key":{"pk":{"S":"a/lock/b"},"sk":{"S":"lock"}}}')).toBe(false);
    expect(tellsNews('{"Key":{"pk":{"S":"a/record/b"},"sk":{"S":"record"}}}')).toBe(false);
    expect(tellsNews('{"Key":{"pk":{"S":"a/page/b#7"},"sk":{"S":"page"}}}')).toBe(false);
  });

  it('counts the whole table of a peer as its locks', () => {
    expect(tellsNews('{"Key":{"id":{"S":"b"}}}')).toBe(false);
  });

  it('counts history, timers, watchers and indexes as news', () => {
    expect(tellsNews('{"Item":{"pk":{"S":"a/history/b"},"sk":{"S":"0017"}}}')).toBe(true);
    expect(tellsNews('{"Key":{"pk":{"S":"a/timer/b"},"sk":{"S":"timer"}}}')).toBe(true);
    expect(tellsNews('{"KeyConditionExpression":"#pk = :pk"}')).toBe(true);
    expect(tellsNews('{"IndexName":"due"}')).toBe(true);
  });

  it('counts a transaction with a lock as a lock, even if it has other items', () => {
    expect(tellsNews('{"TransactItems":[{"sk":{"S":"timer"}},{"sk":{"S":"lock"}}]}')).toBe(false);
  });
});

describe('unitsOf', () => {
  it('sums the units of the engine over all tables of a transaction', () => {
    expect(unitsOf('UpdateItem', '{"ConsumedCapacity":{"TableName":"t","CapacityUnits":3.0}}')).toEqual({
      readUnits: 0,
      writeUnits: 3,
    });
    const two = '{"ConsumedCapacity":[{"CapacityUnits":4.0},{"CapacityUnits":0.5}]}';
    expect(unitsOf('BatchGetItem', two)).toEqual({ readUnits: 4.5, writeUnits: 0 });
  });

  it('counts a refused write by the size of the item that it returns', () => {
    expect(unitsOf('UpdateItem', '{}').writeUnits).toBe(1);
    expect(unitsOf('UpdateItem', 'x'.repeat(2_100)).writeUnits).toBe(3);
  });
});

describe('addTo', () => {
  it('distinguishes reads, writes and refused writes', () => {
    const afterRead = addTo(noTally, 'GetItem', 200, '{"ConsumedCapacity":{"CapacityUnits":1}}');
    const afterAll = addTo(
      addTo(afterRead, 'PutItem', 200, '{"ConsumedCapacity":{"CapacityUnits":1}}'),
      'PutItem',
      400,
      '{}',
    );
    expect(afterAll).toEqual({ requests: 3, reads: 1, writes: 2, refused: 1, readUnits: 1, writeUnits: 2 });
  });
});

describe('the counting proxy', () => {
  it('passes requests on, counts those of the table and leaves out those of its stream', async () => {
    const seen: string[] = [];
    const engine = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () => {
        seen.push(body);
        response.end('{"ConsumedCapacity":{"CapacityUnits":1}}');
      });
    });
    await new Promise<void>((resolve) => {
      engine.listen(0, '127.0.0.1', resolve);
    });
    const proxy = await startCountingProxy(`http://127.0.0.1:${(engine.address() as AddressInfo).port}`);
    const ask = async (target: string) => {
      const headers = { 'x-amz-target': target };
      const response = await fetch(proxy.endpoint, { method: 'POST', headers, body: '{"Key":{"id":{"S":"a"}}}' });
      return response.text();
    };
    try {
      expect(await ask('DynamoDB_20120810.PutItem')).toContain('CapacityUnits');
      await ask('DynamoDBStreams_20120810.GetRecords');
      expect(seen[0]).toBe('{"ReturnConsumedCapacity":"TOTAL","Key":{"id":{"S":"a"}}}');
      expect(seen[1]).toBe('{"Key":{"id":{"S":"a"}}}');
      expect(proxy.take().locks).toMatchObject({ requests: 1, writes: 1, writeUnits: 1 });
      expect(proxy.take().locks).toEqual(noTally);
    } finally {
      await proxy.stop();
      engine.close();
    }
  });
});
