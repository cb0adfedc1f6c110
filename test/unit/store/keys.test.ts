import { describe, expect, it } from 'vitest';
import { nameRules } from '../../../src/contract/limits.ts';
import { lockItemKey } from '../../../src/queue/lock-item.ts';
import { pageItemKey, pageKeyOf } from '../../../src/queue/page-item.ts';
import { connectionKey } from '../../../src/store/watchers.ts';

describe('the keys of items', () => {
  it('of connections never overlap with those of a namespace', () => {
    const { pk } = connectionKey('abc=');
    const [first = ''] = pk.split('/');
    expect(nameRules.namespace.pattern.test(first)).toBe(false);
    expect(lockItemKey({ namespace: 'connection', name: 'abc=' }).pk.startsWith(pk)).toBe(false);
  });

  it('of pages belong to exactly one lock', () => {
    const page = { lock: { namespace: 'a', name: 'b' }, number: 12 };
    expect(pageKeyOf(pageItemKey(page))).toEqual(page);
    expect(pageKeyOf({ ...lockItemKey(page.lock) })).toBeUndefined();
    expect(nameRules.resource.pattern.test('b#12')).toBe(false);
  });
});
