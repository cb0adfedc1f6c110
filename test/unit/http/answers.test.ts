/** Every operation over HTTP, on the service in memory: the whole answer, field by field. */
import { describe, expect, it } from 'vitest';
import { createHandler } from '../../../src/http/handler.ts';
import { refusalOf } from '../../../src/http/locks.ts';
import { requestOfNode } from '../../../src/http/node-http.ts';
import { anonymous } from '../../../src/http/request.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { inspect } from '../../../src/service/look.ts';
import { publicSessionId } from '../../../src/session/public-id.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { memoryStores } from '../../support/memory-table.ts';

const leaseId = 'lease-of-a-caller-0';
const theirs = 'lease-of-another-00';

// biome-ignore lint/suspicious/noExplicitAny: the tests compare what callers get.
type Body = any;

function world() {
  const time = new VirtualTime();
  const { service } = memoryService(time, seededRandom(1), () => {});
  const { sockets: store, watchers } = memoryStores({ clock: time }).elsewhere;
  const connectedAt = time.now();
  void watchers.add({ namespace: 'test', caller: 'anonymous', connectionId: 'open=', connectedAt, subject: 'nothing' });
  const sockets = { store, url: (host?: string) => `wss://${host}/watch` };
  const lines: object[] = [];
  const info = (_: string, fields: object = {}) => lines.push(fields);
  const handle = createHandler({ ...service, sockets }, { info, error: () => {} });
  const call = async (
    line: string,
    body?: object | string,
    headers: Record<string, string> = {},
    caller = anonymous,
  ) => {
    const [method = '', target = ''] = line.split(' ');
    const answer = await handle({
      ...requestOfNode({
        id: 'request-1',
        method,
        target: `/v1/test${target}`,
        headers: { host: 'here', ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
        body: body === undefined ? undefined : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
        gone: () => new AbortController().signal,
      }),
      caller,
    });
    return { ...answer, body: (answer.body === undefined ? undefined : JSON.parse(answer.body)) as Body };
  };
  const take = (name: string, more: object = {}) => call(`POST /locks/${name}/acquire`, { leaseId, ...more });
  const iso = (ms: number) => new Date(time.now() + ms).toISOString();
  return { time, service, sockets: store, call, take, iso, lines };
}

/** Two callers: one holds the lock, the other asks. */
async function heldWorld(more: object = {}) {
  const here = world();
  const { body: held } = await here.take('a', { leaseId: theirs, owner: 'they', leaseMs: 60_000, ...more });
  return { ...here, held };
}

describe('acquire', () => {
  it('answers a grant with its fence and its time', async () => {
    const { take, iso } = world();
    const { status, body, headers } = await take('a', { leaseMs: 5_000, metadata: { job: 'nightly' } });
    expect(status).toBe(200);
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'x-request-id': 'request-1' });
    expect(body).toEqual({
      status: 'granted',
      lock: 'a',
      leaseId,
      fence: expect.any(Number),
      limit: 1,
      permits: 1,
      leaseMs: 5_000,
      remainingMs: 5_000,
      expiresAt: iso(5_000),
      waitedMs: 0,
      metadata: { job: 'nightly' },
    });
  });

  it('answers readers and parts of a lock with what they hold', async () => {
    const { take } = world();
    expect((await take('readers', { mode: 'shared' })).body).toMatchObject({
      mode: 'shared',
      permits: 1,
      limit: 1_024,
    });
    expect((await take('rooms', { limit: 5, permits: 2 })).body).toMatchObject({ permits: 2, limit: 5 });
  });

  it('makes a lease if none was sent, and names the caller if no owner was sent', async () => {
    const { call } = world();
    const { body } = await call('POST /locks/a/acquire');
    expect(body).toMatchObject({ leaseId: expect.stringMatching(/^lease-/), leaseMs: lockLimits.leaseMsDefault });
    expect((await call('GET /locks/a')).body.holders).toMatchObject([{ owner: 'anonymous' }]);
  });

  it('is refused with the holders, the queue and when to try again', async () => {
    const { take, held } = await heldWorld();
    const { status, body, headers } = await take('a');
    expect(status).toBe(409);
    expect(headers).toMatchObject({ 'content-type': 'application/problem+json', 'retry-after': '2' });
    expect(body).toEqual({
      type: 'urn:holdfast:problem:lock-held',
      title: expect.any(String),
      status: 409,
      detail: 'a is held by they.',
      code: 'lock-held',
      holders: [{ owner: 'they', fence: held.fence, remainingMs: 60_000 }],
      queueDepth: 0,
      retryAfterMs: 2_000,
      instance: 'urn:holdfast:request:request-1',
    });
  });

  it('waits in the queue, and is told its place and how long it may wait', async () => {
    const { time, take, held } = await heldWorld();
    const waiting = take('a', { waitMs: 60_000, pollMs: 1_000 });
    await time.advance(1_000);
    expect(await waiting).toMatchObject({ status: 202, headers: { 'retry-after': '0' } });
    expect((await waiting).body).toEqual({
      status: 'waiting',
      lock: 'a',
      leaseId,
      position: 1,
      queueDepth: 1,
      holders: [{ owner: 'they', fence: held.fence, remainingMs: 59_000 }],
      etaMs: null,
      waitRemainingMs: 59_000,
      retryAfterMs: 0,
    });
  });

  it('says how long it waited when it is granted, and when its time is over', async () => {
    const { time, call, take } = await heldWorld();
    const first = take('a', { waitMs: 60_000 });
    const second = take('a', { leaseId: 'lease-of-a-second-0', waitMs: 1_500 });
    await time.advance(1_500);
    expect((await second).body).toMatchObject({
      status: 409,
      code: 'wait-timeout',
      detail: 'a was not granted within 1500 ms.',
      holders: [{ owner: 'they' }],
      queueDepth: 1,
      waitedMs: 1_500,
    });
    await call('POST /locks/a/release', { leaseId: theirs });
    await time.settle();
    expect((await first).body).toMatchObject({ status: 'granted', waitedMs: 1_500 });
  });

  it('is refused if it names another limit than the one in use', async () => {
    const { take } = await heldWorld({ limit: 3 });
    expect((await take('a', { limit: 4 })).body).toMatchObject({
      code: 'limit-mismatch',
      detail: 'a is in use with a limit of 3.',
      limit: 3,
    });
  });

  it('is refused with a lease that has ended', async () => {
    const { call, take } = world();
    await take('a');
    await call('POST /locks/a/release', { leaseId });
    expect((await take('a')).body).toMatchObject({ status: 409, code: 'lease-lost', reason: 'released' });
  });

  it('is refused to others while the lock is kept for its waiters', async () => {
    const { take, time } = await heldWorld({ limit: 2, permits: 2, leaseMs: 1_000 });
    const parked = { limit: 2, permits: 2, waitMs: 60_000, notify: { type: 'event', ref: 'somebody' } };
    expect((await take('a', parked)).body).toMatchObject({ status: 'waiting', etaMs: null });
    await time.advance(1_000 + lockLimits.graceMs);
    const { body } = await take('a', { leaseId: 'lease-of-a-third-00', limit: 2, permits: 1 });
    expect(body).toMatchObject({ code: 'lock-held', queueDepth: expect.any(Number) });
  });

  it('parks on the caller’s own connection, and on no other', async () => {
    const { take } = await heldWorld();
    const on = (connectionId: string) => take('a', { waitMs: 60_000, notify: { type: 'websocket', connectionId } });
    expect(await on('other=')).toMatchObject({ status: 403, body: { code: 'forbidden' } });
    expect(await on('open=')).toMatchObject({ status: 202, body: { position: 1, waitRemainingMs: 60_000 } });
  });
});

describe('renew, release and revoke', () => {
  it('answer with the new end, with how the release went, and that it was revoked', async () => {
    const { time, call, take, iso } = world();
    const { fence } = (await take('a', { leaseMs: 5_000 })).body;
    await time.advance(1_000);
    const renewed = await call('POST /locks/a/renew', { leaseId, leaseMs: 8_000 });
    expect(renewed.body).toMatchObject({ status: 'granted', fence, remainingMs: 8_000, expiresAt: iso(8_000) });
    expect(await call('POST /locks/a/release', { leaseId })).toMatchObject({
      status: 200,
      body: { released: true, reason: 'ok' },
    });
    expect((await call('POST /locks/a/release', { leaseId })).body).toEqual({
      released: false,
      reason: 'already_released',
    });
    const again = (await take('a', { leaseId: theirs })).body;
    expect((await call('POST /locks/a/revoke', { fence: again.fence, reason: 'stuck' })).body).toEqual({
      revoked: true,
    });
  });

  it.each([
    ['not_owner', 'lease-of-nobody-000', 'This lease does not hold the lock, and is not among the leases'],
    ['released', leaseId, 'The lease was released before this request.'],
    ['revoked', theirs, 'The lease was revoked by anonymous: "stuck".'],
  ])('are refused if the lease is lost: %s', async (reason, lease, detail) => {
    const { call, take } = world();
    await take('a');
    await call('POST /locks/a/release', { leaseId });
    const { fence } = (await take('a', { leaseId: theirs })).body;
    await call('POST /locks/a/revoke', { fence, reason: 'stuck' });
    const { status, body } = await call('POST /locks/a/renew', { leaseId: lease });
    expect([status, body.code, body.reason]).toEqual([409, 'lease-lost', reason]);
    expect(body.detail).toContain(detail);
    if (reason === 'released') return;
    expect((await call('POST /locks/a/release', { leaseId: lease })).body).toMatchObject({ released: false, reason });
  });

  it.each([
    [
      'the authenticated caller, whatever name it gives',
      'arn:aws:sts::1:assumed-role/ops/olga',
      'arn:aws:sts::1:assumed-role/ops/olga',
    ],
    ['the name that a caller gives, where nobody is authenticated', anonymous, 'olga@desk:7'],
  ])('record who revoked and why: %s', async (_, caller, by) => {
    const { call, take, lines } = world();
    const { fence } = (await take('a')).body;
    await call('POST /locks/a/revoke', { fence, reason: 'stuck', by: 'olga@desk:7' }, {}, caller);
    expect(lines.at(-1)).toMatchObject({ fence, reason: 'stuck', by });
    expect((await call('POST /locks/a/renew', { leaseId })).body).toMatchObject({
      reason: 'revoked',
      revokedBy: by,
      revokedReason: 'stuck',
      detail: `The lease was revoked by ${by}: "stuck".`,
    });
    expect((await call('GET /locks/a/history')).body.events).toMatchObject([
      { type: 'revoked', by, reason: 'stuck' },
      { type: 'granted' },
    ]);
  });

  it('refuse to revoke a fence that does not hold the lock', async () => {
    const { call, take } = world();
    const { fence } = (await take('a')).body;
    expect((await call('POST /locks/a/revoke', { fence: fence + 1, reason: 'stuck' })).body).toMatchObject({
      code: 'lease-lost',
      reason: 'not_owner',
    });
  });

  it('say that a lease has expired', async () => {
    const { time, call, take } = world();
    await take('a', { leaseMs: 1_000 });
    await time.advance(1_000);
    expect((await call('POST /locks/a/renew', { leaseId })).body).toMatchObject({ reason: 'expired' });
  });
});

describe('looking at locks', () => {
  it('finds the fence of each holder valid, and names all holders in a refusal', async () => {
    const { call, take } = world();
    const one = await take('rooms', { limit: 2, owner: 'one' });
    const two = await take('rooms', { limit: 2, owner: 'two', leaseId: theirs });
    for (const { body } of [one, two])
      expect((await call(`GET /locks/rooms/check?fence=${body.fence}`)).body).toMatchObject({ valid: true });
    const { body } = await take('rooms', { limit: 2, leaseId: 'lease-of-a-third-00' });
    expect(body).toMatchObject({ code: 'lock-held', detail: 'rooms is held by one, two.' });
  });

  it('shows the first hundred waiters, and how many there are', async () => {
    const { call, take } = await heldWorld();
    const notify = { type: 'event', ref: 'r' };
    for (let number = 0; number < 101; number++)
      await take('a', { leaseId: `waiter-${String(number).padStart(10, '0')}`, waitMs: 60_000, notify });
    const { queue, queueDepth } = (await call('GET /locks/a')).body;
    expect([queue.length, queueDepth]).toEqual([100, 101]);
  });

  it('refuses a caller if the queue is full, and says when to try again', async () => {
    const { service } = await heldWorld();
    const { state, facts } = await inspect(service.locks, { namespace: 'test', name: 'a' });
    const refusal = refusalOf('a', { answer: { kind: 'queue-full' }, state, facts });
    expect([refusal.code, refusal.fields]).toEqual(['queue-full', { retryAfterMs: 2_000 }]);
    expect(refusal.message).toContain('the queue of a');
  });

  it('shows a lock that was never used, and one that is held, without any secret', async () => {
    const { time, call, take, held, iso } = await heldWorld({ metadata: { job: 'nightly' } });
    expect((await call('GET /locks/unused')).body).toEqual({
      lock: 'unused',
      state: 'free',
      fence: 0,
      limit: 1,
      holders: [],
      queue: [],
      queueDepth: 0,
    });
    void take('a', { waitMs: 60_000, owner: 'me' });
    await time.settle();
    const acquiredAt = iso(0);
    await time.advance(1_000);
    const { body } = await call('GET /locks/a');
    expect(body).toEqual({
      lock: 'a',
      state: 'held',
      fence: held.fence,
      limit: 1,
      holders: [
        { owner: 'they', fence: held.fence, permits: 1, acquiredAt, remainingMs: 59_000, metadata: { job: 'nightly' } },
      ],
      queue: [{ owner: 'me', position: 1, waitingMs: 1_000, permits: 1 }],
      queueDepth: 1,
    });
  });

  it('checks a fence: valid until the instant of its end', async () => {
    const { time, call, held } = await heldWorld({ leaseMs: 1_000 });
    const check = async (fence: number) => (await call(`GET /locks/a/check?fence=${fence}`)).body;
    expect(await check(held.fence)).toEqual({ valid: true, fence: held.fence, state: 'held' });
    expect(await check(held.fence - 1)).toMatchObject({ valid: false, state: 'held' });
    await time.advance(999);
    expect(await check(held.fence)).toMatchObject({ valid: true });
    await time.advance(1);
    expect(await check(held.fence), 'its end has come, and the grace has not').toMatchObject({
      valid: false,
      state: 'held',
    });
    await time.advance(lockLimits.graceMs);
    expect(await check(held.fence)).toMatchObject({ valid: false, state: 'free' });
  });

  it('counts a lease under a session as long as the session lives', async () => {
    const { call, take } = world();
    const { sessionId } = (await call('POST /sessions', { ttlMs: 10_000 })).body;
    const { fence } = (await take('a', { sessionId })).body;
    expect((await call(`GET /locks/a/check?fence=${fence}`)).body).toMatchObject({ valid: true });
    expect((await call('GET /locks/a')).body.holders).toMatchObject([{ sessionId: publicSessionId(sessionId) }]);
  });

  it('lists locks page by page, each with its depth and its longest wait', async () => {
    const { time, call, take, held } = await heldWorld();
    await take('b', { leaseMs: 60_000 });
    void take('a', { waitMs: 60_000 });
    await time.advance(2_000);
    const first = (await call('GET /locks?limit=1')).body;
    expect(first).toEqual({
      locks: [
        {
          lock: 'a',
          state: 'held',
          fence: held.fence,
          limit: 1,
          holders: [expect.objectContaining({ owner: 'they', remainingMs: 58_000 })],
          queueDepth: 1,
          longestWaitMs: 2_000,
        },
      ],
      cursor: Buffer.from('a').toString('base64url'),
    });
    const second = (await call(`GET /locks?limit=5&cursor=${first.cursor}`)).body;
    expect(second.locks).toMatchObject([{ lock: 'b', queueDepth: 0, longestWaitMs: 0 }]);
    expect(second).not.toHaveProperty('cursor');
    expect((await call('GET /locks?state=free')).body.locks).toEqual([]);
    expect((await call('GET /locks?prefix=b')).body.locks).toHaveLength(1);
    expect((await call('GET /locks?cursor=KioqKg')).body).toMatchObject({ code: 'invalid-request' });
  });

  it('shows the history page by page, newest first', async () => {
    const { time, call, take, iso } = world();
    await take('a');
    await time.advance(100);
    await call('POST /locks/a/release', { leaseId });
    await time.settle();
    const first = (await call('GET /locks/a/history?limit=1')).body;
    expect(first.events).toEqual([
      { at: iso(0), type: 'released', owner: 'anonymous', fence: expect.any(Number), heldMs: 100 },
    ]);
    const second = (await call(`GET /locks/a/history?limit=5&cursor=${first.cursor}`)).body;
    expect(second.events).toMatchObject([{ at: iso(-100), type: 'granted', waitedMs: 0 }]);
    expect(second).not.toHaveProperty('cursor');
    expect((await call('GET /locks/a/history?cursor=KioqKg')).body).toMatchObject({
      code: 'invalid-request',
      detail: expect.stringContaining('must be a cursor from an earlier page'),
    });
  });
});

describe('several locks', () => {
  const both = (more: object = {}) => ({ leaseId, locks: ['b', { name: 'a' }], ...more });

  it('are granted together, in the order asked, with one end', async () => {
    const { call, iso } = world();
    const { status, body } = await call('POST /multi-locks/acquire', both({ leaseMs: 5_000 }));
    expect(status).toBe(200);
    expect(body).toEqual({
      status: 'granted',
      leaseId,
      grants: [
        { lock: 'b', fence: expect.any(Number) },
        { lock: 'a', fence: expect.any(Number) },
      ],
      remainingMs: 5_000,
      expiresAt: iso(5_000),
      waitedMs: 0,
    });
  });

  it('have the earliest end of their leases', async () => {
    const { time, call, take, iso } = world();
    await take('a', { leaseMs: 5_000 });
    await time.advance(1_000);
    const { body } = await call('POST /multi-locks/acquire', both({ leaseMs: 5_000 }));
    expect(body).toMatchObject({ remainingMs: 4_000, expiresAt: iso(4_000) });
  });

  it('are renewed together and released one by one', async () => {
    const { time, call, iso } = world();
    await call('POST /multi-locks/acquire', both({ leaseMs: 5_000 }));
    await time.advance(1_000);
    const names = { leaseId, locks: ['a', 'b'] };
    const renewed = (await call('POST /multi-locks/renew', { ...names, leaseMs: 8_000 })).body;
    expect(renewed).toMatchObject({
      status: 'granted',
      leaseId,
      remainingMs: 8_000,
      expiresAt: iso(8_000),
      waitedMs: 0,
    });
    expect(renewed.grants).toMatchObject([{ lock: 'a' }, { lock: 'b' }]);
    await call('POST /locks/a/release', { leaseId });
    expect((await call('POST /multi-locks/release', { leaseId, locks: ['a', 'b', 'c'] })).body).toEqual({
      released: ['b'],
      failed: [
        { lock: 'a', reason: 'already_released' },
        { lock: 'c', reason: 'not_owner' },
      ],
    });
    expect((await call('POST /multi-locks/renew', names)).body).toMatchObject({
      code: 'lease-lost',
      blockedBy: ['a', 'b'],
    });
  });

  it('are refused with the names of those that are held, and when to try again', async () => {
    const { call } = await heldWorld();
    const { status, body } = await call('POST /multi-locks/acquire', both());
    expect(status).toBe(409);
    expect(body).toMatchObject({
      code: 'lock-held',
      detail: 'a is held by they.',
      blockedBy: ['a'],
      retryAfterMs: 2_000,
      queueDepth: 0,
      holders: [{ owner: 'they', remainingMs: 60_000 }],
    });
  });

  it('are refused first for what a wait would not change', async () => {
    const { call, take } = await heldWorld();
    await take('b', { leaseId: theirs, limit: 3 });
    const locks = ['a', { name: 'b', limit: 4 }];
    expect((await call('POST /multi-locks/acquire', both({ locks }))).body).toMatchObject({
      code: 'limit-mismatch',
      blockedBy: ['a', 'b'],
    });
  });

  it('wait for the lock that blocks them, and say how long they may still wait and have waited', async () => {
    const { time, service, call } = await heldWorld();
    const waiting = call('POST /multi-locks/acquire', both({ waitMs: 30_000 }));
    await time.advance(service.locks.pollMs);
    const { status, body } = await waiting;
    expect(status).toBe(202);
    expect(body).toMatchObject({
      status: 'waiting',
      leaseId,
      position: 1,
      blockedBy: ['a'],
      waitRemainingMs: 30_000 - service.locks.pollMs,
    });
    expect(body).not.toHaveProperty('lock');
    const again = call('POST /multi-locks/acquire', both({ waitMs: 30_000 - service.locks.pollMs }));
    await time.advance(10_000);
    expect((await again).body).toMatchObject({ code: 'wait-timeout', blockedBy: ['a'], waitedMs: 30_000 });
  });

  it('say how long they waited for all of them, and that nothing is held', async () => {
    const { time, call } = await heldWorld();
    const waiting = call('POST /multi-locks/acquire', both({ waitMs: 1_000 }));
    await time.advance(2_000);
    expect((await waiting).body).toMatchObject({
      code: 'wait-timeout',
      detail: 'a was not granted within 1000 ms; nothing is held.',
      waitedMs: 1_000,
    });
  });

  it('show the owner that was sent, or the caller', async () => {
    const { call } = world();
    const ownerOf = async (name: string) => (await call(`GET /locks/${name}`)).body.holders[0].owner;
    await call('POST /multi-locks/acquire', { locks: ['mine'], owner: 'me' });
    await call('POST /multi-locks/acquire', { locks: ['ours'] });
    expect([await ownerOf('mine'), await ownerOf('ours')]).toEqual(['me', 'anonymous']);
  });

  it.each(['a', 'b'])('end with the lease that ends first, if %s has a longer one', async (longer) => {
    const { call, iso } = world();
    await call('POST /multi-locks/acquire', both({ leaseMs: 5_000 }));
    await call(`POST /locks/${longer}/renew`, { leaseId, leaseMs: 60_000 });
    const { body } = await call('POST /multi-locks/acquire', both());
    expect(body).toMatchObject({ remainingMs: 5_000, expiresAt: iso(5_000) });
  });

  it('are refused under a session that is over', async () => {
    const { call } = world();
    expect((await call('POST /multi-locks/acquire', both({ sessionId: 'no-such-session-00' }))).body).toMatchObject({
      status: 410,
      code: 'session-lost',
    });
  });
});

describe('a session', () => {
  it('is opened, kept alive, shown with its locks and ended', async () => {
    const { time, call, take, iso } = world();
    const opened = await call('POST /sessions', { ttlMs: 10_000, owner: 'me' });
    const { sessionId } = opened.body;
    expect(opened.status).toBe(201);
    expect(opened.body).toEqual({ sessionId, ttlMs: 10_000, remainingMs: 10_000, expiresAt: iso(10_000) });
    await time.advance(4_000);
    expect((await call(`POST /sessions/${sessionId}/keepalive`)).body).toMatchObject({ remainingMs: 10_000 });
    const { fence, ...grant } = (await take('a', { sessionId })).body;
    expect(grant).toMatchObject({ sessionId, remainingMs: 10_000, expiresAt: iso(10_000) });
    expect(grant).not.toHaveProperty('leaseMs');
    await time.advance(1_000);
    expect((await call(`GET /sessions/${sessionId}`)).body).toEqual({
      sessionId,
      ttlMs: 10_000,
      remainingMs: 9_000,
      expiresAt: iso(9_000),
      owner: 'me',
      locks: [{ lock: 'a', fence }],
    });
    expect((await call(`DELETE /sessions/${sessionId}`)).body).toEqual({ ended: true, released: 1 });
    expect((await call(`DELETE /sessions/${sessionId}`)).body).toEqual({ ended: false });
    for (const line of [`GET /sessions/${sessionId}`, `POST /sessions/${sessionId}/keepalive`])
      expect(await call(line)).toMatchObject({ status: 410, body: { code: 'session-lost' } });
    expect((await take('b', { sessionId })).body).toMatchObject({ status: 410, code: 'session-lost' });
  });

  it('has the caller as its owner if none was sent', async () => {
    const { call } = world();
    const { sessionId } = (await call('POST /sessions', { ttlMs: 10_000 })).body;
    expect((await call(`GET /sessions/${sessionId}`)).body).toMatchObject({ owner: 'anonymous', locks: [] });
  });

  it('waits for as many locks as it may, and is told so with the next one', async () => {
    const { call, take } = world();
    const { sessionId } = (await call('POST /sessions', { ttlMs: 60_000 })).body;
    const notify = { type: 'event', ref: 'me' };
    const waits: number[] = [];
    for (let index = 0; index < 50; index++) {
      await take(`a${index}`, { leaseId: theirs });
      waits.push((await take(`a${index}`, { sessionId, waitMs: 10_000, notify })).status);
    }
    expect(new Set(waits)).toEqual(new Set([202]));
    await take('b', { leaseId: theirs });
    expect((await take('b', { sessionId, waitMs: 10_000, notify })).body).toMatchObject({
      status: 429,
      code: 'queue-full',
      detail: 'The session waits for 50 locks, which is the maximum.',
      retryAfterMs: expect.any(Number),
    });
    expect((await call('GET /locks/b')).body).toMatchObject({ queueDepth: 0 });
  });

  it('in a deadlock gets the cycle', async () => {
    const { time, call, take } = world();
    const open = async (owner: string) => (await call('POST /sessions', { ttlMs: 60_000, owner })).body.sessionId;
    const [one, other] = [await open('one'), await open('other')];
    await take('a', { sessionId: one, owner: 'one' });
    await take('b', { leaseId: theirs, sessionId: other, owner: 'other' });
    void take('b', { sessionId: one, owner: 'one', waitMs: 10_000 });
    await time.advance(10);
    const victim = take('a', { leaseId: theirs, sessionId: other, owner: 'other', waitMs: 10_000 });
    await time.advance(10);
    expect((await victim).body).toMatchObject({
      status: 409,
      code: 'deadlock',
      cycle: [
        { owner: 'other', waitsFor: 'a' },
        { owner: 'one', waitsFor: 'b' },
      ],
    });
  });
});

describe('a ticket', () => {
  it('has the url of the sockets, for the host that was called', async () => {
    const { call } = world();
    expect(await call('POST /tickets')).toMatchObject({
      status: 201,
      body: { ticket: expect.any(String), expiresInMs: 60_000, url: 'wss://here/watch' },
    });
  });

  it('opens a connection of its own namespace and its own caller', async () => {
    const { time, sockets, call } = world();
    const { ticket } = (await call('POST /tickets')).body;
    expect(await sockets.redeem(ticket, time.now())).toEqual({ namespace: 'test', caller: 'anonymous' });
  });
});

describe('a record', () => {
  const create = { 'if-none-match': '*' };

  it('is created, replaced, read and deleted, each with its version', async () => {
    const { time, call, iso } = world();
    const created = await call('PUT /records/r', '{"value": 1.0}', create);
    expect(created).toMatchObject({ status: 201, headers: { etag: '"1"' } });
    expect(created.body).toEqual({ key: 'r', version: 1, fence: null, updatedAt: iso(0) });
    await time.advance(10);
    const replaced = await call('PUT /records/r', '{"value":[1.50],"expiresInMs":5000}', {
      'if-match': '"1"',
      'fence-token': '7',
    });
    expect(replaced).toMatchObject({ status: 200, headers: { etag: '"2"' } });
    expect(replaced.body).toEqual({
      key: 'r',
      version: 2,
      fence: 7,
      updatedAt: iso(0),
      expiresAt: iso(5_000),
      remainingMs: 5_000,
    });
    await time.advance(1_000);
    const read = await call('GET /records/r');
    expect(read).toMatchObject({ status: 200, headers: { etag: '"2"' } });
    expect(read.body).toEqual({ ...replaced.body, value: [1.5], remainingMs: 4_000 });
    for (const known of ['"2"', '*', '"1", "2"'])
      expect(await call('GET /records/r', undefined, { 'if-none-match': known })).toMatchObject({
        status: 304,
        body: undefined,
        headers: { etag: '"2"' },
      });
    expect(await call('GET /records/r', undefined, { 'if-none-match': '"1"' })).toMatchObject({ status: 200 });
    const deleted = await call('DELETE /records/r', undefined, { 'if-match': '*', 'fence-token': '7' });
    expect(deleted).toMatchObject({ status: 200, body: { version: 3, fence: 7 } });
    expect((await call('GET /records/r')).body).toMatchObject({ code: 'not-found', detail: 'There is no record r.' });
  });

  it('is gone at the instant of its end', async () => {
    const { time, call } = world();
    await call('PUT /records/r', { value: 1, expiresInMs: 1_000 }, create);
    await time.advance(999);
    expect((await call('GET /records/r')).body).toMatchObject({ value: 1, remainingMs: 1 });
    await time.advance(1);
    expect((await call('GET /records/r')).status).toBe(404);
  });

  it('is not written without saying what is replaced', async () => {
    const { call } = world();
    expect((await call('PUT /records/r', { value: 1 })).body).toMatchObject({
      status: 428,
      code: 'precondition-required',
      detail: expect.stringContaining('If-Match with a version or *, or If-None-Match: *'),
    });
    expect((await call('DELETE /records/r')).body).toMatchObject({
      code: 'precondition-required',
      detail: expect.stringContaining('A deletion must say'),
    });
  });

  it('is not written over another version, a higher fence, or without a fence once there was one', async () => {
    const { call } = world();
    expect((await call('PUT /records/r', { value: 1 }, { 'if-match': '*' })).body).toMatchObject({
      status: 412,
      version: null,
      detail: 'There is no record r. Nothing was written.',
    });
    await call('PUT /records/r', { value: 1 }, { ...create, 'fence-token': '7' });
    expect((await call('PUT /records/r', { value: 2 }, { 'if-match': '"5"', 'fence-token': '7' })).body).toMatchObject({
      code: 'version-mismatch',
      version: 1,
      detail: 'r exists, in version 1. Nothing was written.',
    });
    expect((await call('PUT /records/r', { value: 2 }, { 'if-match': '*', 'fence-token': '6' })).body).toMatchObject({
      code: 'stale-fence',
      fenceFloor: 7,
      detail: expect.stringContaining('r has accepted fence 7, but this write has fence 6'),
    });
    expect((await call('PUT /records/r', { value: 2 }, { 'if-match': '*' })).body).toMatchObject({
      code: 'precondition-required',
      detail: expect.stringContaining('Fence-Token'),
    });
  });

  it('is written once for each Write-Id', async () => {
    const { call } = world();
    const id = { 'write-id': 'write-of-a-caller-0' };
    const put = (value: number, more: Record<string, string>) => call('PUT /records/r', { value }, { ...more, ...id });
    expect(await put(1, create)).toMatchObject({ status: 201, body: { version: 1 } });
    expect(await put(1, create)).toMatchObject({ status: 201, body: { version: 1 } });
    expect((await put(2, { 'if-match': '*' })).body).toMatchObject({
      code: 'invalid-request',
      errors: [{ field: 'Write-Id' }],
    });
  });

  it.each([
    ['', 'value', 'is required: any JSON, null included'],
    ['{}', 'value', 'is required: any JSON, null included'],
    ['[1]', 'body', 'must be an object with the field value'],
    ['7', 'body', 'must be an object with the field value'],
    ['null', 'body', 'must be an object with the field value'],
    ['{"value":1,"other":2}', 'other', 'is not a known field'],
    ['{"value":1,"value":2}', 'value', 'must be given once'],
    ['{"value":1,"expiresInMs":0}', 'expiresInMs', 'must be'],
    ['{"value":1', 'body', 'must be JSON'],
  ])('is refused with the body %j', async (body, field, message) => {
    const { call } = world();
    const refused = (await call('PUT /records/r', body, create)).body;
    expect(refused).toMatchObject({ code: 'invalid-request', errors: [{ field }] });
    expect(refused.errors[0].message).toContain(message);
  });

  it('is refused above its greatest size, counted in bytes of the value', async () => {
    const { call } = world();
    const put = (bytes: number) => call('PUT /records/r', { value: 'x'.repeat(bytes - 2) }, create);
    const { recordLimits } = await import('../../../src/record/limits.ts');
    expect((await put(recordLimits.valueBytesMax + 1)).body).toMatchObject({
      status: 413,
      detail: `The value has ${recordLimits.valueBytesMax + 1} bytes; ${recordLimits.valueBytesMax} are allowed.`,
    });
    expect((await put(recordLimits.valueBytesMax)).status).toBe(201);
  });
});

describe('the service itself', () => {
  it('tells its health and its whole contract', async () => {
    const { service } = world();
    const handle = createHandler(service, { info: () => {}, error: () => {} });
    const get = (target: string) =>
      handle(
        requestOfNode({
          id: 'request-1',
          method: 'GET',
          target,
          headers: {},
          body: undefined,
          gone: () => new AbortController().signal,
        }),
      );
    expect(JSON.parse((await get('/v1/health')).body ?? '')).toEqual({
      status: 'ok',
      version: 'twin',
      engine: 'memory',
    });
    const document = JSON.parse((await get('/v1/openapi.json')).body ?? '{}');
    expect(document).toMatchObject({ openapi: expect.any(String), info: { version: 'twin' } });
  });

  it('has no tickets without sockets', async () => {
    const { service } = world();
    const handle = createHandler(service, { info: () => {}, error: () => {} });
    const asked = requestOfNode({
      id: 'request-1',
      method: 'POST',
      target: '/v1/test/tickets',
      headers: {},
      body: undefined,
      gone: () => new AbortController().signal,
    });
    expect(JSON.parse((await handle(asked)).body ?? '')).toMatchObject({
      code: 'not-found',
      detail: 'This service has no WebSocket.',
    });
  });
});
