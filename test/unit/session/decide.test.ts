import { describe, expect, it } from 'vitest';
import { decideSession, isOpen, isOverdue, sessionFactOf } from '../../../src/session/decide.ts';
import type { SessionState } from '../../../src/session/state.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { startOfTime } from '../../support/lock-worlds.ts';

const graceMs = 250;
const ttlMs = 10_000;
const at = (ms: number) => ({ now: epochMs(startOfTime + ms), graceMs });
const open: SessionState = {
  sessionId: 'session-1',
  owner: 'me',
  ttlMs,
  createdAt: startOfTime,
  expiresAt: epochMs(startOfTime + ttlMs),
  waits: [],
};
const ended: SessionState = { ...open, ended: { at: startOfTime, how: 'ended' } };

describe('a session', () => {
  it('is open to its owner up to the last millisecond of its time', () => {
    expect(isOpen(open, at(ttlMs - 1))).toBe(true);
    expect(isOpen(open, at(ttlMs))).toBe(false);
    expect(isOpen(ended, at(0))).toBe(false);
    expect(isOpen(undefined, at(0))).toBe(false);
  });

  it('is over for others only after its end plus the grace, unless it was ended', () => {
    expect(isOverdue(open, at(ttlMs + graceMs - 1))).toBe(false);
    expect(isOverdue(open, at(ttlMs + graceMs))).toBe(true);
    expect(isOverdue(ended, at(ttlMs + graceMs))).toBe(false);
  });
});

describe('keepalive', () => {
  it('gives the session its whole time again, from now', () => {
    const { next, answer } = decideSession(open, { kind: 'keepalive' }, at(4_000));
    expect(next).toEqual({ ...open, expiresAt: startOfTime + 4_000 + ttlMs });
    expect(answer).toEqual({ kind: 'alive' });
  });

  it('changes nothing if it would not move the end', () => {
    for (const lateMs of [0, -3_000]) {
      const { next, answer } = decideSession(open, { kind: 'keepalive' }, at(lateMs));
      expect(next).toBe(open);
      expect(answer).toEqual({ kind: 'alive' });
    }
  });

  it('does not bring back a session from the instant of its end on', () => {
    const { next, answer } = decideSession(open, { kind: 'keepalive' }, at(ttlMs));
    expect(next).toBe(open);
    expect(answer).toEqual({ kind: 'lost' });
  });
});

describe('end', () => {
  it('ends the session now, even after its time', () => {
    for (const ms of [0, ttlMs + graceMs]) {
      const { next, answer } = decideSession(open, { kind: 'end' }, at(ms));
      expect(next).toEqual({ ...open, ended: { at: startOfTime + ms, how: 'ended' } });
      expect(answer).toEqual({ kind: 'ended' });
    }
  });
});

describe('expire', () => {
  it('leaves a session alone up to the last millisecond of the grace', () => {
    const { next, answer } = decideSession(open, { kind: 'expire' }, at(ttlMs + graceMs - 1));
    expect(next).toBe(open);
    expect(answer).toEqual({ kind: 'alive' });
  });

  it('marks it dead after that', () => {
    const { next, answer } = decideSession(open, { kind: 'expire' }, at(ttlMs + graceMs));
    expect(next).toEqual({ ...open, ended: { at: startOfTime + ttlMs + graceMs, how: 'expired' } });
    expect(answer).toEqual({ kind: 'ended' });
  });
});

describe('any command', () => {
  const kinds = [{ kind: 'keepalive' }, { kind: 'end' }, { kind: 'expire' }] as const;

  it.each(kinds)('$kind changes nothing once the session has ended, or if there is none', (command) => {
    for (const gone of [ended, undefined]) {
      const { next, answer } = decideSession(gone, command, at(ttlMs + graceMs));
      expect(next).toBe(gone);
      expect(answer).toEqual({ kind: 'lost' });
    }
  });
});

describe('what a lock is told about a session', () => {
  it('is its end if it lives, how it ended if it does not, and that it ended if it is not known', () => {
    expect(sessionFactOf(open)).toEqual({ alive: true, expiresAt: open.expiresAt });
    const expired = { at: epochMs(startOfTime + 7), how: 'expired' } as const;
    expect(sessionFactOf({ ...open, ended: expired })).toEqual({
      alive: false,
      endedAt: startOfTime + 7,
      how: 'expired',
    });
    expect(sessionFactOf(undefined)).toEqual({ alive: false, endedAt: 0, how: 'ended' });
  });
});
