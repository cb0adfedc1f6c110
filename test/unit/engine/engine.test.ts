/** The rules of DynamoDB that the built-in engine keeps, and that the comparison with another engine seldom meets. */

import { connect } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MemoryEngine } from '../../../src/engine/engine.ts';
import { serveEngine } from '../../../src/engine/server.ts';
import type { Item } from '../../../src/engine/values.ts';
import { definition, TableName, world } from './world.ts';

describe('the time to live', () => {
  it('is in seconds: only items whose time is over are deleted, and the stream says by whom', () => {
    const { clock, engine, call, put, get, iterator, records } = world();
    call('UpdateTimeToLive', { TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: true } });
    const seconds = clock.ms / 1_000;
    put('over', { ttl: { N: String(seconds - 1) } });
    put('soon', { ttl: { N: String(seconds + 60) } });
    put('never');
    const from = iterator('LATEST');
    engine.collectExpired();
    expect(['over', 'soon', 'never'].map((name) => get(name) !== undefined)).toEqual([false, true, true]);
    expect(records(from)).toMatchObject([
      { eventName: 'REMOVE', userIdentity: { PrincipalId: 'dynamodb.amazonaws.com' } },
    ]);
  });
});

describe('a query', () => {
  const found = ({ Items, LastEvaluatedKey }: { Items: Item[]; LastEvaluatedKey?: Item }) => ({
    sorts: Items.map(({ s }) => (s as { S: string }).S).join(''),
    LastEvaluatedKey,
  });

  it.each([true, false])('goes on after its last key, with none twice and none left out: forward %s', (forward) => {
    const { call, put } = world();
    for (const sort of ['c', 'a', 'd', 'b']) put(sort);
    const page = (ExclusiveStartKey?: Item) =>
      found(
        call('Query', {
          KeyConditionExpression: 'p = :p',
          ExpressionAttributeValues: { ':p': { S: 'p' } },
          Limit: 2,
          ScanIndexForward: forward,
          ...(ExclusiveStartKey && { ExclusiveStartKey }),
        }),
      );
    const first = page();
    const second = page(first.LastEvaluatedKey);
    expect([first.sorts, second.sorts]).toEqual(forward ? ['ab', 'cd'] : ['dc', 'ba']);
    // A page that is exactly full says that there may be more.
    expect(found(call('Scan', { Limit: 4 })).LastEvaluatedKey).toBeDefined();
    expect(page(second.LastEvaluatedKey)).toEqual({ sorts: '', LastEvaluatedKey: undefined });
  });

  it('reads at most one megabyte at a time, and a last item that begins in it', () => {
    const { call, put } = world();
    for (const sort of ['a', 'b', 'c', 'd', 'e']) put(sort, { x: { S: 'x'.repeat(300 * 1024) } });
    const page = (ExclusiveStartKey?: Item) =>
      found(
        call('Query', {
          KeyConditionExpression: 'p = :p',
          ExpressionAttributeValues: { ':p': { S: 'p' } },
          ...(ExclusiveStartKey && { ExclusiveStartKey }),
        }),
      );
    const first = page();
    expect([first.sorts, page(first.LastEvaluatedKey).sorts]).toEqual(['abcd', 'e']);
  });

  it('finds an item in its index only under its latest key', () => {
    const { call, put } = world();
    const indexed = (group: string) =>
      call('Query', {
        IndexName: 'by-g',
        KeyConditionExpression: 'g = :g',
        ExpressionAttributeValues: { ':g': { S: group } },
      }).Count;
    put('a', { g: { S: 'old' } });
    put('a', { g: { S: 'new' } });
    put('a', { g: { S: 'new' }, n: { N: '1' } });
    expect([indexed('old'), indexed('new')]).toEqual([0, 1]);
  });
});

describe('an update', () => {
  it('removes elements of a list by their places before the update, and appends after its end', () => {
    const { put, get, update } = world();
    const list = (...texts: string[]) => ({ L: texts.map((S) => ({ S })) });
    put('a', { l: list('0', '1', '2', '3') });
    update('a', 'REMOVE l[0], l[2]');
    expect(get('a')?.l).toEqual(list('1', '3'));
    update('a', 'SET l[9] = :x', { ':x': { S: 'end' } });
    expect(get('a')?.l).toEqual(list('1', '3', 'end'));
  });

  it('removes a set with its last member', () => {
    const { put, get, update } = world();
    put('a', { members: { SS: ['x', 'y'] } });
    update('a', 'DELETE members :some', { ':some': { SS: ['x', 'y'] } });
    expect(get('a')).not.toHaveProperty('members');
  });

  it('compares a missing attribute as different from every value', () => {
    const { call, put } = world();
    const Item = { p: { S: 'p' }, s: { S: 'a' } };
    const guarded = (ConditionExpression: string) => () =>
      call('PutItem', { Item, ConditionExpression, ExpressionAttributeValues: { ':x': { S: 'x' } } });
    put('a');
    expect(guarded('missing = :x')).toThrow('conditional');
    expect(guarded('missing < :x')).toThrow('conditional');
    expect(guarded('missing <> :x')).not.toThrow();
  });
});

describe('an operation', () => {
  it.each(['toString', 'constructor', '__proto__', 'hasOwnProperty', ''])('is unknown if it is called "%s"', (name) => {
    const { call } = world();
    expect(() => call(name)).toThrow(expect.objectContaining({ name: 'UnknownOperationException' }));
  });
});

describe('a request that DynamoDB refuses', () => {
  it.each([
    [
      'too many reads at once',
      'BatchGetItem',
      { RequestItems: { t: { Keys: Array.from({ length: 101 }, keyNumber) } } },
    ],
    [
      'a value that no expression uses',
      'PutItem',
      { Item: keyNumber(null, 1), ExpressionAttributeValues: { ':unused': { S: 'x' } } },
    ],
    ['an item that is too large', 'PutItem', { Item: { ...keyNumber(null, 1), x: { S: 'x'.repeat(400 * 1024) } } }],
  ])('is refused here: %s', (_, operation, input) => {
    const { call } = world();
    expect(() => call(operation, input)).toThrow(/Too many|unused|maximum allowed size/);
  });

  function keyNumber(_: unknown, number: number): Item {
    return { p: { S: 'p' }, s: { S: `s${number}` } };
  }
});

describe('the units of a write', () => {
  it('are one for each kilobyte that has begun, and two entries for an index whose key moved', () => {
    const { units, put } = world();
    // Names and keys have five bytes.
    put('a', { x: { S: 'x'.repeat(1_024 - 5) } });
    put('b', { x: { S: 'x'.repeat(1_025 - 5) } });
    put('c', { g: { S: 'old' } });
    put('c', { g: { S: 'new' } });
    expect(units).toEqual([1, 2, 2, 3]);
  });
});

describe('the engine on a port', () => {
  async function served() {
    const engine = await serveEngine();
    onTestFinished(() => engine.stop());
    const ask = (operation: string, body: string | ReadableStream<Uint8Array>) =>
      fetch(engine.endpoint, {
        method: 'POST',
        headers: { 'x-amz-target': `DynamoDB_20120810.${operation}` },
        body,
        ...(body instanceof ReadableStream && { duplex: 'half' }),
      } as RequestInit);
    await ask('CreateTable', JSON.stringify(definition));
    return { engine, ask };
  }

  it('reads text whose bytes arrive apart', async () => {
    const { ask } = await served();
    const bytes = new TextEncoder().encode(JSON.stringify({ TableName, Item: { p: { S: 'é' }, s: { S: 'ü' } } }));
    const apart = new ReadableStream({
      async start(controller) {
        for (const byte of bytes) {
          controller.enqueue(new Uint8Array([byte]));
          await new Promise((resolve) => setImmediate(resolve));
        }
        controller.close();
      },
    });
    expect((await ask('PutItem', apart)).status).toBe(200);
    const { Items } = (await (await ask('Scan', JSON.stringify({ TableName }))).json()) as { Items: Item[] };
    expect(Items).toEqual([{ p: { S: 'é' }, s: { S: 'ü' } }]);
  });

  it('answers 400 to a wrong request and 500 to a failure of its own, which a client repeats', async () => {
    const { ask } = await served();
    expect((await ask('GetItem', JSON.stringify({ TableName: 'other', Key: {} }))).status).toBe(400);
    expect((await ask('PutItem', '{"TableName":"t"}')).status).toBe(500);
  });

  it('stops although a client keeps its connection open', async () => {
    const { engine } = await served();
    const { hostname, port } = new URL(engine.endpoint);
    const socket = connect(Number(port), hostname);
    await new Promise((resolve) => socket.once('connect', resolve));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await engine.stop();
    await closed;
  });
});

describe('what DynamoDB refuses', () => {
  it('is an attribute without a name, at any depth', () => {
    const { put, update } = world();
    const nameless = { M: { '': { S: 'k' } } };
    for (const value of [nameless, { L: [nameless] }, { M: { m: nameless } }]) {
      expect(() => put('a', { v: value })).toThrow('Attribute name is empty');
      expect(() => update('a', 'SET v = :v', { ':v': value })).toThrow('Attribute name is empty');
    }
  });

  it.each(['toString', 'constructor', '__proto__', 'NoSuchThing'])('is an operation called %s', (operation) => {
    expect(() => new MemoryEngine().call(operation, {})).toThrow(`There is no operation ${operation} here.`);
  });
});
