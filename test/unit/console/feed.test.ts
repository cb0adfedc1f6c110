import { describe, expect, it } from 'vitest';
import { Feed, filtered } from '../../../src/console/model/feed.ts';
import { event } from './example.ts';

const owners = (feed: Feed) => feed.events.map(({ owner }) => owner);

describe('the feed', () => {
  it('shows the newest first, each once, even if the history adds older ones later', () => {
    const feed = new Feed();
    feed.take([event('queued', 'one', 1_000), event('queued', 'three', 3_000)]);
    feed.take([event('queued', 'three', 3_000), event('queued', 'two', 2_000)]);
    expect(owners(feed)).toEqual(['three', 'two', 'one']);
  });

  it('does not change while it is stopped, counts new events, and shows them when resumed', () => {
    const feed = new Feed();
    feed.take([event('queued', 'one', 1_000)]);
    feed.stop();
    feed.take([event('queued', 'two', 2_000), event('queued', 'three', 3_000)]);
    expect([owners(feed), feed.missed, feed.isStopped]).toEqual([['one'], 2, true]);
    feed.resume();
    expect([owners(feed), feed.missed]).toEqual([['three', 'two', 'one'], 0]);
  });

  it('forgets the oldest', () => {
    const feed = new Feed();
    for (let at = 0; at < 2_500; at++) feed.take([event('queued', String(at), at)]);
    expect([feed.events.length, feed.events[0]?.owner, feed.events.at(-1)?.owner]).toEqual([2_000, '2499', '500']);
  });

  it('can be filtered by type, and by part of a lock or an owner', () => {
    const events = [event('queued', 'Ada', 1), event('granted', 'bob', 2, { lock: 'stock' })];
    const of = (types: string[], text: string) =>
      filtered(events, { types: new Set(types) as never, text }).map(({ owner }) => owner);
    expect([of(['granted'], ''), of([], 'ada'), of([], 'STOCK'), of(['queued'], 'stock')]).toEqual([
      ['bob'],
      ['Ada'],
      ['bob'],
      [],
    ]);
  });
});
