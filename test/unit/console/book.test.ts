import { describe, expect, it } from 'vitest';
import { busyness, LockBook, ordered, settled, totalsOf } from '../../../src/console/model/book.ts';
import { rowsSeen } from '../../../src/console/model/rows.ts';
import { event, holder, start, summary } from './example.ts';

const now = start + 60_000;

function bookWith(...locks: ReturnType<typeof summary>[]): LockBook {
  const book = new LockBook();
  book.takeList(locks, now);
  return book;
}

const book = bookWith(
  summary('a-idle'),
  summary('b-held', { state: 'held', holders: [holder('ada', 1, 50_000)] }),
  summary('c-crowd', { state: 'held', holders: [holder('ada', 1, 55_000)], queueDepth: 40, longestWaitMs: 2_000 }),
  summary('d-slow', { state: 'held', holders: [holder('ada', 1, 1_000)], queueDepth: 1, longestWaitMs: 30_000 }),
);

const order = (sortBy: 'busy' | 'waiters' | 'wait' | 'hold' | 'name', prefix = '', shown = 'all' as const) =>
  ordered(book, { prefix, shown, sortBy }, now);

describe('the list of locks', () => {
  it('sorts as asked, and by name if two are equal', () => {
    expect(order('busy')).toEqual(['c-crowd', 'd-slow', 'b-held', 'a-idle']);
    expect(order('waiters')).toEqual(['c-crowd', 'd-slow', 'a-idle', 'b-held']);
    expect(order('wait').slice(0, 2)).toEqual(['d-slow', 'c-crowd']);
    expect(order('hold').slice(0, 2)).toEqual(['d-slow', 'b-held']);
    expect(order('name')).toEqual(['a-idle', 'b-held', 'c-crowd', 'd-slow']);
  });

  it('shows the locks with a prefix, and those of a kind', () => {
    expect(order('name', 'c-')).toEqual(['c-crowd']);
    const of = (shown: 'held' | 'waited' | 'free') => ordered(book, { prefix: '', shown, sortBy: 'name' }, now);
    expect([of('held').length, of('waited').length, of('free')]).toEqual([3, 2, ['a-idle']]);
  });

  it('does not move rows while somebody reads them', () => {
    expect(settled(['b', 'a', 'gone'], ['a', 'new', 'b'])).toEqual(['b', 'a', 'new']);
  });

  it('says which locks changed without an event', () => {
    const known = bookWith(summary('same'), summary('other'));
    expect(known.takeList([summary('same'), summary('other', { fence: 2 }), summary('fresh')], now + 1)).toEqual([
      'other',
    ]);
  });

  it('adds a lock that is known only from an event', () => {
    const empty = new LockBook();
    empty.takeEvent(event('granted', 'ada', 0));
    expect(empty.get('wallet:42')?.holders).toMatchObject([{ owner: 'ada' }]);
  });

  it('adds no lock from an event if it already has as many as a list may have', () => {
    const full = bookWith(...Array.from({ length: 5_000 }, (_, index) => summary(`lock-${index}`)));
    full.takeEvent(event('granted', 'ada', 60_000));
    expect([full.size, full.get('wallet:42')]).toEqual([5_000, undefined]);
  });

  it('finds many waiters busier than one holder, and an idle lock not busy', () => {
    const of = (lock: string) => busyness(book.get(lock) as NonNullable<ReturnType<LockBook['get']>>, now);
    expect(of('c-crowd')).toBeGreaterThan(0.75);
    expect(of('b-held')).toBeLessThan(0.3);
    expect(of('a-idle')).toBe(0);
  });

  it('sums up', () => {
    expect(totalsOf(book, now)).toEqual({ locks: 4, held: 3, waited: 2, waiters: 41, longestWaitMs: 30_000 });
  });
});

describe('the rows that are drawn', () => {
  it('are the visible ones and a few around them, in a list of any length', () => {
    const { first, end } = rowsSeen(50_000, 600, 50, 10_000);
    expect([first, end]).toEqual([992, 1_020]);
    expect(rowsSeen(0, 600, 50, 3)).toEqual({ first: 0, end: 3 });
    expect(rowsSeen(9_999_999, 600, 50, 3)).toEqual({ first: 3, end: 3 });
  });
});
