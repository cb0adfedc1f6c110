/** How long something is held: under a session, or not at all. */
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { LeaseLostError, UnavailableError } from '../../../src/client/errors.ts';
import { openTenure, SessionTenure, type Tenure } from '../../../src/client/tenure.ts';

function session(verify: () => Promise<unknown> = async () => undefined) {
  const lost = new AbortController();
  const own = { alive: true, leftMs: 5_000 };
  const tenure: Tenure = {
    ...openTenure(),
    signal: lost.signal,
    isAlive: () => own.alive,
    remainingMs: () => own.leftMs,
  };
  return { own, lost, held: new SessionTenure('wallet', tenure, verify), tenure };
}

describe('a hold under a session', () => {
  it('lasts as long as the session', () => {
    const { own, held } = session();
    expect([held.isAlive(), held.remainingMs(), held.signal.aborted]).toEqual([true, 5_000, false]);
    own.alive = false;
    expect([held.isAlive(), held.remainingMs()]).toEqual([false, 0]);
  });

  it('is lost with the session, and its error says why', () => {
    const { lost, held } = session();
    lost.abort(new Error('no keepalive'));
    expect([held.isAlive(), held.remainingMs()]).toEqual([false, 0]);
    expect(held.signal.reason).toMatchObject({
      message: 'The session that holds wallet is over.',
      reason: 'session_lost',
      cause: { message: 'no keepalive' },
    });
  });

  it('is lost at once if the session is', () => {
    const { lost, tenure } = session();
    lost.abort(new Error('before'));
    expect(new SessionTenure('wallet', tenure, async () => undefined).signal.aborted).toBe(true);
  });

  it('is not lost any more after its end, and leaves no listener behind', () => {
    const { lost, held } = session();
    expect(getEventListeners(lost.signal, 'abort')).toHaveLength(1);
    held.end();
    expect(getEventListeners(lost.signal, 'abort')).toEqual([]);
    held.lose(new LeaseLostError('late', 'expired'));
    lost.abort();
    expect([held.isAlive(), held.remainingMs(), held.signal.aborted]).toEqual([false, 0, false]);
  });

  it('is lost once, with the first reason', () => {
    const { lost, held } = session();
    held.lose(new LeaseLostError('first', 'revoked'));
    expect(getEventListeners(lost.signal, 'abort')).toEqual([]);
    held.lose(new LeaseLostError('second', 'expired'));
    expect([held.isAlive(), held.signal.reason.message]).toEqual([false, 'first']);
  });

  it('is renewed by a look at the service, and lost only if the service says so', async () => {
    const failures = [new UnavailableError('away'), new LeaseLostError('gone', 'revoked')];
    const { held } = session(() => Promise.reject(failures.shift()));
    await expect(held.renew()).rejects.toThrow('away');
    expect(held.isAlive()).toBe(true);
    await expect(held.renew()).rejects.toThrow('gone');
    expect(held.signal.reason).toMatchObject({ reason: 'revoked' });
    await expect(session().held.renew()).resolves.toBeUndefined();
  });
});

describe('a hold that failed open', () => {
  it('never counts as held, and nothing can be done with it', async () => {
    const tenure = openTenure();
    await tenure.renew();
    tenure.lose(new LeaseLostError('m', 'expired'));
    tenure.end();
    expect([tenure.isAlive(), tenure.remainingMs(), tenure.signal.aborted]).toEqual([false, 0, false]);
  });
});
