import { describe, expect, it, vi } from 'vitest';
import {
  evalArguments,
  fencedCall,
  fencedSet,
  floorKey,
  raiseRedisFloor,
  readReply,
  runFenced,
} from '../../../src/guards/redis.ts';

describe('floorKey', () => {
  it.each([
    ['report', '{report}:fence'],
    ['{tenant}:report', '{tenant}:report:fence'],
    ['a{b', '{a{b}:fence'],
  ])('keeps the floor of %s in %s', (key, expected) => {
    expect(floorKey(key)).toBe(expected);
  });

  it.each(['', 'a}b', '{}a', 'a}{b'])('refuses "%s", for which no name would share its slot', (key) => {
    expect(() => floorKey(key)).toThrow('hash tag');
  });
});

describe('evalArguments', () => {
  const call = fencedCall({ lua: 'return 1', resource: 'r', keys: ['r'], arguments: ['x'], fence: 34 });
  it('lists script, number of keys, keys and arguments, floor and fence first', () => {
    expect(evalArguments(call)).toEqual(['EVAL', 'return 1', '2', '{r}:fence', 'r', '34', 'x']);
    expect(evalArguments(call, 'abc')).toEqual(['EVALSHA', 'abc', '2', '{r}:fence', 'r', '34', 'x']);
  });

  it('sends the end of a value only if there is one', () => {
    expect(fencedSet({ key: 'k', value: 'v', fence: 34 }).arguments).toEqual(['34', 'v']);
    expect(fencedSet({ key: 'k', value: 'v', fence: 34, ttlMs: 5 }).arguments).toEqual(['34', 'v', '5']);
  });
});

describe('readReply', () => {
  const call = raiseRedisFloor({ resource: 'r', fence: 33 });
  it.each([['34'], [Buffer.from('34')], [34]])('reads the floor %o as clients give it', (floor) => {
    expect(readReply(call, [0, floor])).toEqual({ kind: 'stale', fence: 33, floor: 34 });
  });

  it.each([null, 'OK', [], [2, '34'], ['x']])('throws on %o, which no fenced script returns', (reply) => {
    expect(() => readReply(call, reply)).toThrow(TypeError);
  });
});

describe('runFenced', () => {
  it('throws an error of the server, and does not send the script again', async () => {
    const send = vi.fn(async () =>
      Promise.reject(new Error('READONLY You can not write against a read only replica.')),
    );
    await expect(runFenced(send, raiseRedisFloor({ resource: 'r', fence: 33 }))).rejects.toThrow('READONLY');
    expect(send).toHaveBeenCalledTimes(1);
  });
});
