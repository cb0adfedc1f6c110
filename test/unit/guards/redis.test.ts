import { createHash } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import {
  evalArguments,
  fencedCall,
  fencedSet,
  fenceScript,
  floorKey,
  raiseRedisFloor,
  readReply,
  runFenced,
} from '../../../src/guards/redis.ts';

describe('floorKey', () => {
  it.each([
    ['report', '{report}:fence'],
    ['{tenant}:report', '{tenant}:report:fence'],
    ['report:{tenant}', 'report:{tenant}:fence'],
    ['a{b', '{a{b}:fence'],
  ])('keeps the floor of %s in %s', (key, expected) => {
    expect(floorKey(key)).toBe(expected);
  });

  it.each(['', 'a}b', '{}a', '{}{tag}', 'a}{b'])('refuses "%s", for which no name would share its slot', (key) => {
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

  it('has the floor as its first key, and no other key or argument unless the caller gives one', () => {
    expect(fencedSet({ key: 'k', value: 'v', fence: 34 }).keys).toEqual(['{k}:fence', 'k']);
    expect(fencedCall({ lua: 'return 1', resource: 'r', fence: 34 })).toEqual({
      ...{ lua: 'return 1', keys: ['{r}:fence'], arguments: ['34'], fence: 34 },
    });
  });
});

describe('a fenced script', () => {
  // The integration suite runs the scripts on a Redis, if there is one. Here they are compared with what was reviewed.
  const guarded = (body: string) => `local fence = tonumber(ARGV[1])
local stored = redis.call('GET', KEYS[1])
local floor = tonumber(stored or '0')
if not floor then return redis.error_reply('ERR the floor at ' .. KEYS[1] .. ' is not an integer') end
if floor > fence then return {0, stored} end
redis.call('SET', KEYS[1], ARGV[1])
local function guarded(KEYS, ARGV)
${body}
end
return {1, ARGV[1], guarded({unpack(KEYS, 2)}, {unpack(ARGV, 2)})}
`;

  it('refuses a fence below the floor, raises the floor, and only then does its own work', () => {
    expect(fenceScript('return 7')).toBe(guarded('return 7'));
    expect(raiseRedisFloor({ resource: 'r', fence: 33 }).lua).toBe(guarded('return true'));
    expect(fencedSet({ key: 'k', value: 'v', fence: 33 }).lua).toBe(
      guarded(`if ARGV[2] then return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return redis.call('SET', KEYS[1], ARGV[1])`),
    );
  });
});

describe('readReply', () => {
  const call = raiseRedisFloor({ resource: 'r', fence: 33 });
  it.each([['34'], [Buffer.from('34')], [34]])('reads the floor %o as clients give it', (floor) => {
    expect(readReply(call, [0, floor])).toEqual({ kind: 'stale', fence: 33, floor: 34 });
  });

  it.each([[null], ['OK'], [[]], [[2, '34']], [['x']]])('throws on %j, which no fenced script returns', (reply) => {
    expect(() => readReply(call, reply)).toThrow(
      `Expected the reply of a fenced script; got ${JSON.stringify(reply)}.`,
    );
  });

  it('names the key whose floor it cannot read', () => {
    expect(() => readReply(call, [0, 'soon'])).toThrow('key {r}:fence');
  });

  it('returns what the script returned', () => {
    expect(readReply(call, [1, '33', 'OK'])).toEqual({ kind: 'written', reply: 'OK' });
    expect(readReply(call, ['1', '33'])).toEqual({ kind: 'written', reply: null });
  });
});

describe('runFenced', () => {
  it('sends the digest of its script, and the script itself only if the server does not know it', async () => {
    const call = fencedCall({ lua: 'return 1', resource: 'r', fence: 34 });
    const sent: unknown[] = [];
    let isKnown = false;
    const send = async (words: unknown[]) => {
      sent.push(words.slice(0, 2));
      if (words[0] === 'EVALSHA' && !isKnown) throw new Error('NOSCRIPT No matching script.');
      isKnown = true;
      return [1, '34', 7];
    };
    expect(await runFenced(send, call)).toEqual({ kind: 'written', reply: 7 });
    expect(await runFenced(send, call)).toEqual({ kind: 'written', reply: 7 });
    const digest = createHash('sha1').update('return 1').digest('hex');
    expect(sent).toEqual([
      ['EVALSHA', digest],
      ['EVAL', 'return 1'],
      ['EVALSHA', digest],
    ]);
  });

  it('throws what is no error as it is', async () => {
    const call = raiseRedisFloor({ resource: 'r', fence: 33 });
    await expect(runFenced(() => Promise.reject('NOSCRIPT'), call)).rejects.toBe('NOSCRIPT');
  });

  it('throws an error of the server, and does not send the script again', async () => {
    const send = vi.fn(async () =>
      Promise.reject(new Error('READONLY You can not write against a read only replica.')),
    );
    await expect(runFenced(send, raiseRedisFloor({ resource: 'r', fence: 33 }))).rejects.toThrow('READONLY');
    expect(send).toHaveBeenCalledTimes(1);
  });
});
