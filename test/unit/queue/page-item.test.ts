/** Each write to a page, compared with the rules in `pages.ts`. */
import { describe, expect, it } from 'vitest';
import type { Notify, Waiter } from '../../../src/lock/state.ts';
import { fromText, notifyIn, toNotifyItem } from '../../../src/queue/claim-item.ts';
import {
  appendTo,
  attendIn,
  changedAtOf,
  close,
  fromPageItem,
  leave,
  pageItemKey,
  pageKeyOf,
  stepAwayIn,
} from '../../../src/queue/page-item.ts';
import * as rules from '../../../src/queue/pages.ts';
import { after } from '../../../src/time/clock.ts';
import { ItemInMemory } from '../../support/item-in-memory.ts';
import { startOfTime } from '../../support/lock-worlds.ts';

const key = { lock: { namespace: 'shop', name: 'order:7' }, number: 12 };
const sizes = { front: 2, page: 3 };
const onSocket = { type: 'websocket', connectionId: 'one' } as const;
const inMs = (ms: number) => after(startOfTime, ms);
const waiterOf = (leaseId: string, more: Partial<Waiter> = {}): Waiter => ({
  leaseId,
  owner: 'me',
  permits: 1,
  leaseMs: 1_000,
  queuedAt: startOfTime,
  deadlineAt: inMs(60_000),
  presentUntil: inMs(10_000),
  ...more,
});

/** One page, as an item and as the rules see it. Each step is done to both. */
class PageStory {
  readonly table = new ItemInMemory(pageItemKey(key));
  page: rules.Page = rules.emptyPage(key.number);

  get read(): rules.Page {
    return fromPageItem(key, this.table.item);
  }

  /** True if the write is applied. The rules must say the same. */
  #step(update: Parameters<ItemInMemory['apply']>[0], next: rules.Page | undefined): boolean {
    const before = this.table.item;
    const applied = this.table.apply(update);
    expect(applied).toBe(next !== undefined);
    if (next === undefined) expect(this.table.item).toEqual(before);
    this.page = next ?? this.page;
    expect(this.read).toStrictEqual(this.page);
    return applied;
  }

  join(waiter: Waiter, fence = 5): boolean {
    return this.#step(appendTo({ waiter, fence }, sizes), rules.append(this.page, { waiter, fence }, sizes));
  }

  attend(attendance: rules.Attendance): boolean {
    return this.#step(attendIn(attendance), rules.attendIn(this.page, attendance));
  }

  stepAway(absence: rules.Absence): boolean {
    return this.#step(stepAwayIn(absence), rules.stepAwayIn(this.page, absence));
  }

  leave(leaseId: string, how: rules.LeftHow): boolean {
    return this.#step(leave(leaseId, how, inMs(7)), rules.leaveIn(this.page, leaseId, how));
  }

  close(ms = 9): this {
    this.#step(close(inMs(ms)), rules.close(this.page, inMs(ms)));
    return this;
  }
}

const with2 = () => {
  const story = new PageStory();
  expect([story.join(waiterOf('a')), story.join(waiterOf('b', { notify: onSocket }), 6)]).toEqual([true, true]);
  return story;
};

describe('a page', () => {
  it('has these attributes', () => {
    const story = new PageStory();
    story.join(waiterOf('a', { sessionId: 'session-1', leaseMs: null, lockDelayMs: 5 }));
    const month = 30 * 86_400;
    expect(story.table.item).toEqual({
      pk: 'shop/page/order:7#12',
      sk: 'page',
      w: [JSON.stringify(['a', 'me', 1, null, startOfTime, 60_000, { s: 'session-1', d: 5 }])],
      'k-a': inMs(10_000),
      f: 5,
      at: startOfTime,
      lv: 1,
      ttl: startOfTime / 1_000 + month,
    });
    story.join(waiterOf('b', { queuedAt: inMs(1_000), notify: onSocket }), 6);
    expect(story.table.item).toMatchObject({
      w: [expect.any(String), JSON.stringify(['b', 'me', 1, 1_000, inMs(1_000), 59_000])],
      'k-b': inMs(10_000),
      'n-b': toNotifyItem(onSocket),
      n: 'parked',
      f: 6,
      at: inMs(1_000),
      ttl: startOfTime / 1_000 + 1 + month,
    });
    story.close(2_000);
    expect(story.table.item).toMatchObject({ c: inMs(2_000), at: inMs(2_000), ttl: startOfTime / 1_000 + 2 + month });
    expect(changedAtOf(story.table.item)).toBe(inMs(2_000));
  });

  it('takes a lease once, and nobody if it is full or closed', () => {
    const story = with2();
    expect(story.join(waiterOf('a'))).toBe(false);
    expect(story.join(waiterOf('c'))).toBe(true);
    expect(story.join(waiterOf('d'))).toBe(false);
    expect(with2().close().join(waiterOf('c'))).toBe(false);
  });

  it('takes a lease again after its wait ended, at its end and as it waits now, but not after it was released', () => {
    const story = with2();
    story.leave('b', 'gave-up');
    expect(story.table.item).toMatchObject({ 'k-b': -1, at: inMs(7) });
    expect(story.join(waiterOf('b', { queuedAt: inMs(8) }))).toBe(true);
    expect(story.table.item).not.toHaveProperty('n-b');
    const released = with2();
    released.leave('a', 'released');
    expect(released.table.item).toMatchObject({ 'k-a': 0 });
    expect(released.join(waiterOf('a'))).toBe(false);
  });

  it('lets a waiter ask again, and wait in another way', () => {
    const story = with2();
    expect(story.attend({ leaseId: 'a', presentUntil: inMs(20_000), notify: onSocket })).toBe(true);
    const onAnother = { ...onSocket, connectionId: 'two' };
    expect(story.attend({ leaseId: 'a', presentUntil: inMs(20_000), notify: onAnother })).toBe(true);
    expect(story.table.item).toMatchObject({ 'n-a': toNotifyItem(onAnother) });
    expect(story.attend({ leaseId: 'b', presentUntil: inMs(90_000) })).toBe(true);
    expect(story.table.item).not.toHaveProperty('n-b');
    expect(story.attend({ leaseId: 'stranger', presentUntil: inMs(20_000) })).toBe(false);
    story.leave('a', 'gave-up');
    expect(story.attend({ leaseId: 'a', presentUntil: inMs(20_000) })).toBe(false);
    expect(
      with2()
        .close()
        .attend({ leaseId: 'a', presentUntil: inMs(20_000) }),
    ).toBe(false);
  });

  it('is marked as soon as one of its waiters is parked, because the notifier gets only such pages', () => {
    const story = new PageStory();
    story.join(waiterOf('a'));
    expect(story.table.item).not.toHaveProperty('n');
    story.attend({ leaseId: 'a', presentUntil: inMs(20_000), notify: onSocket });
    expect(story.table.item).toMatchObject({ n: 'parked', 'n-a': toNotifyItem(onSocket) });
  });

  it('lets a waiter step away from what it waits on, and never for longer', () => {
    const story = with2();
    expect(story.stepAway({ leaseId: 'b', presentUntil: inMs(5_000) })).toBe(false);
    expect(story.stepAway({ leaseId: 'b', presentUntil: inMs(5_000), connectionId: 'two' })).toBe(false);
    expect(story.stepAway({ leaseId: 'b', presentUntil: inMs(5_000), connectionId: 'one' })).toBe(true);
    expect(story.stepAway({ leaseId: 'a', presentUntil: inMs(10_000) })).toBe(false);
    expect(story.stepAway({ leaseId: 'a', presentUntil: inMs(5_000) })).toBe(true);
    expect(
      with2()
        .close()
        .stepAway({ leaseId: 'a', presentUntil: inMs(5_000) }),
    ).toBe(false);
  });

  it('lets a waiter leave once, and nobody if it is closed', () => {
    const story = with2();
    expect(story.leave('a', 'released')).toBe(true);
    expect(story.leave('a', 'gave-up')).toBe(false);
    expect(story.leave('stranger', 'gave-up')).toBe(false);
    expect(story.leave('b', 'gave-up')).toBe(true);
    expect(with2().close().leave('a', 'released')).toBe(false);
  });

  it('is closed once, even if nobody joined it', () => {
    const story = new PageStory().close(9).close(20);
    expect(story.table.item).toMatchObject({ c: inMs(9), at: inMs(9), lv: 1 });
    expect(changedAtOf(story.table.item)).toBe(inMs(9));
  });

  it('that was never written is empty', () => {
    expect(fromPageItem(key, undefined)).toEqual(rules.emptyPage(12));
    expect([changedAtOf(undefined), changedAtOf({})]).toEqual([0, 0]);
  });

  it.each<[string, object, string]>([
    ['of a newer layout', { lv: 2 }, 'a newer release wrote it (layout 2)'],
    ['whose waiters are not a list', { w: 'x' }, '"w" should be a list and is a string'],
    ['with a waiter that is not a string', { w: [5] }, '"w" should be a string and is a number'],
    ['with a waiter without its presence', { 'k-a': undefined }, '"k-a" should be a whole number and is missing'],
    ['that was closed at no instant', { c: 'now' }, '"c" should be a whole number and is a string'],
    ['with a fence that is a string', { f: 'x' }, '"f" should be a whole number and is a string'],
    ['with a notification that is not a list', { 'n-b': 'x' }, '"n-b" should be a list and is a string'],
  ])('%s fails closed and says why', (_what, damage, why) => {
    const item = { ...with2().table.item, ...damage };
    expect(() => fromPageItem(key, item)).toThrow(why);
  });
});

describe('the key of a page', () => {
  it('is read back, and from no other item', () => {
    expect(pageKeyOf(pageItemKey(key))).toEqual(key);
    const { pk } = pageItemKey(key);
    for (const other of [
      { pk, sk: 'lock' },
      ...[
        'shop/page/order:7',
        'shop/page/order:7#',
        'shop/page/#12',
        '/page/a#12',
        `x/${pk}`,
        `${pk}x`,
        'page/a#1',
      ].map((another) => ({ pk: another, sk: 'page' })),
    ]) {
      expect(pageKeyOf(other)).toBeUndefined();
    }
  });
});

describe('a waiter as a string', () => {
  it.each<[string, string]>([
    ['no JSON', 'a waiter is not a list'],
    ['{}', 'a waiter is not a list'],
    ['[5]', '"queuedAt" should be a whole number and is missing'],
    ['["a",5,1,1,1,1]', '"a waiter" should be a string and is a number'],
    ['[5,"me",1,1,1,1]', '"a waiter" should be a string and is a number'],
    ['["a","me","x",1,1,1]', '"permits" should be a whole number and is a string'],
    ['["a","me",1,"x",1,1]', '"leaseMs" should be a whole number and is a string'],
    ['["a","me",1,1,1,"x"]', '"waitMs" should be a whole number and is a string'],
    ['["a","me",1,1,1,1,[]]', '"extras" should be a map and is a list'],
    ['["a","me",1,1,1,1,{"r":"both"}]', '"r" is none of exclusive, shared'],
    ['["a","me",1,1,1,1,{"m":{"job":5}}]', '"m" should be a string and is a number'],
  ])('that is %s is refused', (written, why) => {
    expect(() => fromText(written)).toThrow(why);
  });
});

describe('a way to be notified', () => {
  it.each<Notify>([
    { type: 'event', ref: 'ref' },
    { type: 'task-token', token: 'token' },
    { type: 'task-token', token: 'token', always: true },
    { type: 'durable-callback', id: 'id', leaseId: 'secret', always: true },
    { type: 'websocket', connectionId: 'one', leaseId: 'secret' },
  ])('comes back as it was: %o', (notify) => {
    expect(notifyIn({ n: toNotifyItem(notify) }, 'n')).toStrictEqual(notify);
  });

  it('is refused if it is of no known type, or without its address', () => {
    expect(() => notifyIn({ n: ['m', 'x'] }, 'n')).toThrow('"letter" is none of e, t, d, w');
    expect(() => notifyIn({ n: ['e'] }, 'n')).toThrow('"n" should be a string and is missing');
    expect(notifyIn({ n: ['t', 'token', null, 'yes'] }, 'n')).toStrictEqual({ type: 'task-token', token: 'token' });
  });
});
