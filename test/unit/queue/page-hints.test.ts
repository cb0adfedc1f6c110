import { describe, expect, it } from 'vitest';
import { pageToAsk } from '../../../src/queue/in-page.ts';
import { PageHints } from '../../../src/queue/page-hints.ts';
import { key, leaseOf, longQueue } from './long-queue.ts';

const other = { ...key, name: 'other' };
const lease = leaseOf(1);

describe('what a process saw of pages', () => {
  it('is the page of a waiter, until the waiter has left', () => {
    const hints = new PageHints();
    hints.learnPage(key, lease, 7);
    expect([hints.pageOf(key, lease), hints.pageOf(other, lease)]).toEqual([7, undefined]);
    hints.forgetPage(key, lease);
    expect(hints.pageOf(key, lease)).toBeUndefined();
  });

  it('is the highest page that was full, and all pages before it are full too', () => {
    const hints = new PageHints();
    hints.learnFull(key, 7);
    hints.learnFull(key, 6);
    expect([6, 7, 8].map((page) => hints.isFull(key, page))).toEqual([true, true, false]);
    expect(hints.isFull(other, 7)).toBe(false);
  });

  it('is the number of losses in a row', () => {
    const hints = new PageHints();
    expect([hints.noteLoss(key), hints.noteLoss(key), hints.noteLoss(other)]).toEqual([1, 2, 1]);
    hints.forgetLosses(key);
    expect(hints.noteLoss(key)).toBe(1);
  });
});

describe('the page to ask', () => {
  it('is the one that the command names, or else the one in which the waiter was seen, if it did not move up', async () => {
    const { context, newProcess, first } = await longQueue(3);
    const ask = { kind: 'release', leaseId: leaseOf(3) } as const;
    expect(pageToAsk(context, key, ask)).toBe(first);
    expect(pageToAsk(context, key, { ...ask, place: 99 })).toBe(99);
    expect(pageToAsk(context, key, { ...ask, place: 'new' })).toBeUndefined();
    const seen = context.cache.seen(key)?.state;
    if (seen === undefined) throw new Error('The lock is not known.');
    context.cache.learn(key, { ...seen, rev: seen.rev + 1, behind: { first: first + 1, last: first + 1 } });
    expect(pageToAsk(context, key, ask)).toBeUndefined();
    const unaware = newProcess();
    unaware.hints.learnPage(key, leaseOf(3), 7);
    expect(pageToAsk(unaware, key, ask), 'nothing is known of the lock').toBe(7);
  });
});
