/** What the engine tells about changes: to its stream, and to `onChange`. */
import { describe, expect, it } from 'vitest';
import { type Change, streamLimitsDefault } from '../../../src/engine/change-stream.ts';
import type { Item } from '../../../src/engine/values.ts';
import { world } from './world.ts';

describe('the stream', () => {
  it('has one record for each change, in seconds, and none for a write that changes nothing', () => {
    const { put, iterator, records } = world();
    put('a', { n: { N: '1' } });
    put('a', { n: { N: '1' } });
    put('a', { n: { N: '2' } });
    const found = records(iterator('TRIM_HORIZON'));
    expect(found.map(({ eventName }) => eventName)).toEqual(['INSERT', 'MODIFY']);
    expect(found[0]?.dynamodb.ApproximateCreationDateTime).toBe(1_900_000_000);
  });

  it('keeps the latest records, and refuses a position before them', () => {
    const { put, iterator, records } = world({ streamLimits: { recordsMax: 10 } });
    const first = iterator('TRIM_HORIZON');
    for (let turn = 0; turn < 25; turn++) put('a', { n: { N: String(turn) } });
    expect(records(iterator('TRIM_HORIZON'))).toHaveLength(10);
    expect(() => records(first)).toThrow('no longer kept');
    const oldest = records(iterator('TRIM_HORIZON'))[0]?.dynamodb.SequenceNumber ?? '';
    expect(records(iterator('AT_SEQUENCE_NUMBER', oldest))[0]?.dynamodb.SequenceNumber).toBe(oldest);
    const before = String(Number(oldest) - 1);
    expect(records(iterator('AFTER_SEQUENCE_NUMBER', before))[0]?.dynamodb.SequenceNumber).toBe(oldest);
  });

  it('refuses a sequence number that it has not reached', () => {
    const { put, iterator } = world();
    put('a');
    expect(() => iterator('AFTER_SEQUENCE_NUMBER', '2')).toThrow('Invalid SequenceNumber');
  });

  it('keeps a day at most', () => {
    const { clock, put, iterator, records } = world();
    put('a');
    clock.ms += streamLimitsDefault.ageMsMax - 1;
    put('b');
    expect(records(iterator('TRIM_HORIZON'))).toHaveLength(2);
    clock.ms += 1;
    put('c');
    expect(records(iterator('TRIM_HORIZON'))).toHaveLength(2);
  });

  it('keeps images up to a size, of old and new items', () => {
    const { put, iterator, records } = world({ streamLimits: { bytesMax: 3_000 } });
    for (const sort of ['a', 'b', 'c', 'd']) put(sort, { x: { S: 'x'.repeat(900) } });
    expect(records(iterator('TRIM_HORIZON'))).toHaveLength(3);
    put('d', { x: { S: 'y'.repeat(900) } });
    expect(records(iterator('TRIM_HORIZON')).map(({ eventName }) => eventName)).toEqual(['INSERT', 'MODIFY']);
  });
});

describe('onChange', () => {
  function watched() {
    const changes: Change[] = [];
    const onChange = (change: Change) => void changes.push(change);
    return { changes, ...world({ onChange }) };
  }

  it('is called before the answer, with the keys and both images', () => {
    const { changes, put, call, keyOf, update } = watched();
    put('a', { n: { N: '1' } });
    update('a', 'SET n = n + :one', { ':one': { N: '1' } });
    call('DeleteItem', { Key: keyOf('a') });
    const [one, two] = ['1', '2'].map((N) => ({ ...keyOf('a'), n: { N } }));
    expect(changes.map(({ keys, before, after, byTtl }) => ({ keys, before, after, byTtl }))).toEqual([
      { keys: keyOf('a'), before: undefined, after: one, byTtl: false },
      { keys: keyOf('a'), before: one, after: two, byTtl: false },
      { keys: keyOf('a'), before: two, after: undefined, byTtl: false },
    ]);
  });

  it('is not called for a refused write, nor for one that changes nothing', () => {
    const { changes, put, call, keyOf } = watched();
    put('a');
    put('a');
    call('DeleteItem', { Key: keyOf('b') });
    const refused = { Key: keyOf('a'), ConditionExpression: 'attribute_not_exists(p)' };
    expect(() => call('DeleteItem', refused)).toThrow('conditional');
    expect(changes).toHaveLength(1);
  });

  it('says if the time to live was over', () => {
    const { changes, clock, engine, call, put } = watched();
    call('UpdateTimeToLive', { TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: true } });
    put('a', { ttl: { N: String(clock.ms / 1_000 - 1) } });
    engine.collectExpired();
    expect(changes.at(-1)).toMatchObject({ byTtl: true, after: undefined });
  });

  it('sees all writes of a transaction, and may write by itself', () => {
    const seen: unknown[] = [];
    const { engine, call, put, get, keyOf } = world({
      onChange: ({ keys, number }) => {
        seen.push([number, (keys.s as { S: string }).S, get('b') !== undefined]);
        if (number === 1) put('c');
      },
    });
    const Put = (sort: string) => ({ Put: { TableName: 't', Item: keyOf(sort) } });
    call('TransactWriteItems', { TransactItems: [Put('a'), Put('b')] });
    expect(seen).toEqual([
      [1, 'a', true],
      [3, 'c', true],
      [2, 'b', true],
    ]);
    engine.collectExpired();
    expect(seen).toHaveLength(3);
  });
});

describe('an image', () => {
  /** A write to a frozen object throws. */
  function frozen<T>(value: T): T {
    if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
    return value;
  }

  it('never changes after its write, whatever is written later', () => {
    const images: Item[] = [];
    const { put, update, call } = world({
      onChange: ({ before, after }) => {
        for (const image of [before, after]) if (image !== undefined) images.push(frozen(image));
      },
    });
    put('a', {
      l: { L: [{ M: { k: { N: '1' }, gone: { S: 'x' } } }, { S: 'second' }] },
      m: { M: { inner: { M: { k: { N: '1' } } } } },
      set: { SS: ['x', 'y'] },
    });
    const before = structuredClone(call('Scan').Items);
    const one = { ':one': { N: '1' } };
    update('a', 'SET l[0].k = l[0].k + :one, m.inner.k = :one, l[9] = :one', one);
    update('a', 'REMOVE l[1], l[0].gone ADD n :one', one);
    update('a', 'ADD #set :x', { ':x': { SS: ['z'] } }, { '#set': 'set' });
    update('a', 'DELETE #set :x', { ':x': { SS: ['x', 'y', 'z'] } }, { '#set': 'set' });
    expect(images[0]).toEqual(before[0]);
    expect(call('Scan').Items[0]).toEqual({
      p: { S: 'p' },
      s: { S: 'a' },
      l: { L: [{ M: { k: { N: '2' } } }, { N: '1' }] },
      m: { M: { inner: { M: { k: { N: '1' } } } } },
      n: { N: '1' },
    });
  });

  it('shares with the image before it what did not change', () => {
    const changes: Change[] = [];
    const { put, update } = world({ onChange: (change) => void changes.push(change) });
    put('a', { large: { L: [{ S: 'x' }] }, n: { N: '1' } });
    update('a', 'SET n = :two', { ':two': { N: '2' } });
    expect(changes[1]?.after?.large).toBe(changes[1]?.before?.large);
  });
});
