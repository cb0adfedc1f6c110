import { describe, expect, it } from 'vitest';
import { membersOf } from '../../../src/record/json-text.ts';

describe('membersOf', () => {
  it.each([
    '1e400',
    '12345678901234567890',
    '0.1000',
    '-0',
    'null',
    'true',
    '""',
    '"}"',
    '"\\"}"',
    '"\\\\"',
    '"\\ud800"',
    '"𝄞 é \u2028"',
    '{"b":1,"a":2,"b":3}',
    '{"__proto__":{"x":1}}',
    '[ 1 ,\n\t2 ]',
    '{"a":"]}","b":["\\\\",{"c":"["}]}',
    '[[],{},[{}]]',
  ])('cuts out %s as it came', (value) => {
    expect(JSON.parse(value)).not.toBeUndefined();
    expect(membersOf(`{"value":${value}}`)).toEqual([{ name: 'value', text: value }]);
    expect(membersOf(` {\r\n "value"\t: ${value}\n} `)).toEqual([{ name: 'value', text: value }]);
  });

  it('names every member in order, equal names as often as they come', () => {
    expect(membersOf('{"a":1,"\\u0061":[2],"__proto__":{}}')).toEqual([
      { name: 'a', text: '1' },
      { name: 'a', text: '[2]' },
      { name: '__proto__', text: '{}' },
    ]);
  });

  it('finds nothing in an empty object', () => {
    expect(membersOf(' { } ')).toEqual([]);
  });

  it('is not exhausted by depth', () => {
    const deep = `${'['.repeat(131_000)}${']'.repeat(131_000)}`;
    expect(membersOf(`{"value":${deep}}`)[0]?.text).toBe(deep);
  });

  it.each(['', '{', '{"a"', '{"a":', '{"a":[', '{"a":"', '{"a":1', '[1', 'null'])(
    'fails on %j instead of guessing',
    (text) => {
      const why = `Expected the text of a JSON object, but got ${text.length} characters of something else.`;
      expect(() => membersOf(text)).toThrow(new TypeError(why));
    },
  );
});
