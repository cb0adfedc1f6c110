import { describe, expect, it } from 'vitest';
import { agoOf, clockOf, countOf, momentOf, spanOf, wholeSpanOf } from '../../../src/console/model/words.ts';
import { addressOf, readRoute } from '../../../src/console/page/route.ts';

describe('words for people', () => {
  it.each([
    [0, '0 ms'],
    [850, '850 ms'],
    [3_249, '3.2 s'],
    [59_999, '59 s'],
    [250_000, '4 min 10 s'],
    [3_600_000, '1 h'],
    [90_061_000, '1 d 1 h'],
  ])('say %i ms as %s', (ms, words) => expect(spanOf(ms)).toBe(words));

  it('write times that change every second without fractions', () => {
    expect([wholeSpanOf(100), wholeSpanOf(0), wholeSpanOf(61_000), agoOf(200), agoOf(2_900)]).toEqual([
      '1 s',
      '0 s',
      '1 min 1 s',
      'just now',
      '2 s ago',
    ]);
  });

  it('write a time with its date if it is another day', () => {
    const noon = new Date(2026, 10, 17, 12, 5, 9).getTime();
    expect([clockOf(noon), momentOf(noon, noon + 3_600_000), momentOf(noon, noon + 24 * 3_600_000)]).toEqual([
      '12:05:09',
      '12:05:09',
      '2026-11-17 12:05:09',
    ]);
  });

  it('count', () => expect([countOf(1, 'lock'), countOf(12_345, 'lock')]).toEqual(['1 lock', '12,345 locks']));
});

describe('the address', () => {
  it('restores the view', () => {
    const route = {
      namespace: 'payments',
      view: 'locks',
      name: 'wallet:42+x=~@',
      query: { prefix: 'w:', sort: 'wait' },
    } as const;
    const { namespace, view, name, query } = route;
    expect(readRoute(addressOf(view, name, query, namespace), 'default')).toEqual(route);
  });

  it('falls back to the namespace that the console was started with', () => {
    expect(readRoute('', 'demo')).toEqual({ namespace: 'demo', view: 'locks', name: '', query: {} });
    expect(readRoute('#/a/nonsense', 'demo')).toMatchObject({ namespace: 'a', view: 'locks' });
    expect(readRoute('#/a/locks/%E0%A4%A', 'demo').name).toBe('%E0%A4%A');
  });
});
