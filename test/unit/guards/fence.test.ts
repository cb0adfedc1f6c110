import { describe, expect, it } from 'vitest';
import { StaleFenceError as SdkStaleFenceError } from '../../../src/client/index.ts';
import { checkFence, isStaleFence, readFloor, throwIfStale } from '../../../src/guards/fence.ts';
import * as guards from '../../../src/guards/index.ts';
import { StaleFenceError } from '../../../src/guards/index.ts';

describe('checkFence', () => {
  it.each([1, 1_800_000_000_034, Number.MAX_SAFE_INTEGER])('accepts %d', (fence) => {
    expect(checkFence(fence)).toBe(fence);
  });

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '34', 34n, null, undefined, {}])(
    'refuses %s',
    (fence) => {
      expect(() => checkFence(fence)).toThrow(TypeError);
    },
  );

  it('says what it expected and what it got', () => {
    expect(() => checkFence('34')).toThrow(
      'A fence is a positive integer of at most 9007199254740991, as a grant carries it in `fence`; got the string "34".',
    );
    expect(() => checkFence(1.5)).toThrow('got 1.5.');
    expect(() => checkFence(undefined)).toThrow('got undefined.');
  });
});

describe('readFloor', () => {
  it.each([34, 34n, '34'])('reads %s as drivers return it', (stored) => {
    expect(readFloor(stored, 'here')).toBe(34);
  });

  it.each([null, '', 'soon', '1e3', '-1', '34.5', '9007199254740993', 2 ** 53, {}])(
    'throws on %s, and never treats it as no floor',
    (stored) => {
      expect(() => readFloor(stored, 'column "fence"')).toThrow(/column "fence"/);
    },
  );

  it.each([
    [null, 'object null'],
    [undefined, 'undefined undefined'],
    ['soon', 'string soon'],
    [-1, 'number -1'],
    [true, 'boolean true'],
    // Its text would be digits.
    [[34], '[34]'],
    [{ S: '34' }, '{"S":"34"}'],
  ])('says what it found instead: %j', (stored, found) => {
    expect(() => readFloor(stored, 'here')).toThrow(
      `Expected the floor in here to be an integer from 0 to 9007199254740991; found ${found}.`,
    );
  });
});

describe('throwIfStale', () => {
  it('throws a stale outcome as the error that the SDK throws for a record, with the floor', () => {
    const stale = { kind: 'stale', fence: 33, floor: 34 } as const;
    expect(() => throwIfStale(stale)).toThrow(StaleFenceError);
    expect(() => throwIfStale(stale)).toThrow(SdkStaleFenceError);
    expect(() => throwIfStale(stale)).toThrow(expect.objectContaining({ code: 'stale-fence', floor: 34 }));
    expect(() => throwIfStale(stale)).toThrow(/fence 33.*seen 34/);
  });

  it('returns every other outcome', () => {
    const written = { kind: 'written', etag: '"x"' } as const;
    expect(throwIfStale(written)).toBe(written);
  });
});

describe('isStaleFence', () => {
  it('knows the error by its code, from any copy of the package', () => {
    expect(isStaleFence(new StaleFenceError('refused', 34))).toBe(true);
    expect(isStaleFence(Object.assign(new Error('elsewhere'), { code: 'stale-fence' }))).toBe(true);
    expect(isStaleFence(new Error('stale-fence'))).toBe(false);
    expect(isStaleFence({ code: 'stale-fence' })).toBe(false);
  });
});

describe('every guard', () => {
  const bad = Number.NaN;
  it.each([
    ['fenceDynamoDB', () => guards.fenceDynamoDB({ Put: { TableName: 't', Item: {} } }, { fence: bad })],
    ['tombstoneDynamoDB', () => guards.tombstoneDynamoDB({ TableName: 't', Key: {} }, { fence: bad })],
    ['judgeDynamoDBError', () => guards.judgeDynamoDBError(new Error(), { fence: bad })],
    ['fencedUpdate', () => guards.fencedUpdate({ dialect: 'mysql', table: 't', key: { id: 1 }, set: {}, fence: bad })],
    ['fencedUpsert', () => guards.fencedUpsert({ dialect: 'mysql', table: 't', key: { id: 1 }, set: {}, fence: bad })],
    ['raiseFloor', () => guards.raiseFloor({ dialect: 'sqlite', resource: 'r', fence: bad })],
    ['fencedSet', () => guards.fencedSet({ key: 'k', value: 'v', fence: bad })],
    ['raiseRedisFloor', () => guards.raiseRedisFloor({ resource: 'r', fence: bad })],
  ])('checks its fence before anything is sent: %s', (_name, build) => {
    expect(build).toThrow('A fence is a positive integer');
  });
});
