import { describe, expect, it } from 'vitest';
import type { SessionState } from '../../../src/session/state.ts';
import {
  fromSessionItem,
  sessionItemKey,
  sessionPartKey,
  toSessionItem,
  waitName,
} from '../../../src/store/session-item.ts';
import { digestOf } from '../../../src/table/digest.ts';
import { after } from '../../../src/time/clock.ts';
import { startOfTime } from '../../support/lock-worlds.ts';

const key = { namespace: 'shop', sessionId: 'session-secret' };
const digest = digestOf(key.sessionId);
const session: SessionState = {
  sessionId: key.sessionId,
  owner: 'me',
  ttlMs: 30_000,
  createdAt: startOfTime,
  expiresAt: after(startOfTime, 40_000),
  waits: [],
};

describe("a session's item", () => {
  it('has these attributes, and its id in no key', () => {
    const { ttl, ...item } = toSessionItem('shop', session);
    expect(item).toEqual({
      ...{ pk: `shop/session/${digest}`, sk: 'session', id: key.sessionId, o: 'me', ttlMs: 30_000 },
      ...{ c: startOfTime, x: startOfTime + 40_000, k: startOfTime + 10_000 },
    });
    expect(ttl).toBeGreaterThan((startOfTime + 40_000) / 1_000);
    expect(digest).toMatch(/^[A-Za-z0-9_-]{27}$/);
    expect(digest).not.toBe(digestOf('another'));
    expect(sessionItemKey(key).pk).toBe(`shop/session/${digest}`);
    expect(sessionPartKey(key, 'order:7')).toEqual({ pk: 'shop/lock/order:7', sk: `part/${digest}` });
  });

  it('comes back as the session, with its waits and its end', () => {
    const item = toSessionItem('shop', session);
    expect(fromSessionItem(item)).toEqual(session);
    const ended = { ...item, [waitName('l#1')]: 'lease-1', d: startOfTime, dh: 'expired' };
    expect(fromSessionItem(ended)).toEqual({
      ...session,
      ended: { at: startOfTime, how: 'expired' },
      waits: [{ lock: 'l#1', leaseId: 'lease-1' }],
    });
    expect(fromSessionItem({ ...item, d: startOfTime, dh: 'ended' }).ended?.how).toBe('ended');
  });

  it.each<[string, object, string]>([
    ['id', { id: 5 }, '"id" should be a string'],
    ['owner', { o: 5 }, '"o" should be a string'],
    ['time to live', { ttlMs: 'x' }, '"ttlMs" should be a whole number'],
    ['beginning', { c: undefined }, '"c" should be a whole number'],
    ['end', { x: undefined }, '"x" should be a whole number'],
    ['wait', { 'w#lock': 5 }, '"w#lock" should be a string'],
    ['way to end', { d: 1, dh: 'lost' }, '"dh" is none of ended, expired'],
  ])('fails closed with a wrong %s', (_what, damage, why) => {
    expect(() => fromSessionItem({ ...toSessionItem('shop', session), ...damage })).toThrow(why);
  });
});
