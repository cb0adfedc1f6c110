import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import * as responses from '../../src/contract/locks.ts';
import { type OperationContract, operations, problem } from '../../src/contract/operations.ts';
import { decodePath } from '../../src/http/api-gateway.ts';
import { problemsOf } from '../../src/http/openapi.ts';
import { matchPath } from '../../src/http/router.ts';
import { untilIndexesFollow } from '../support/engine.ts';
import { type Answer, lockAt, newLeaseId, startService, type TestService } from '../support/service.ts';

let service: TestService;
beforeAll(async () => {
  // A short poll, so that a test gets a 202 without a long wait.
  service = await startService({ pollMs: 200 });
});
afterAll(() => service.stop());

/** Every answer keeps the common rules. They are checked with each call of this file. */
async function call(method: string, path: string, body?: unknown, init?: RequestInit): Promise<Answer> {
  const answer = await service.call(method, path, body, init);
  const { status, headers } = answer;
  expect(headers.get('x-request-id'), 'every response can be named').toMatch(/.+/);
  const retryAfterMs: unknown = answer.body?.retryAfterMs;
  expect(headers.get('retry-after')).toBe(
    typeof retryAfterMs === 'number' ? String(Math.ceil(retryAfterMs / 1_000)) : null,
  );
  if (status < 400) expect(headers.get('content-type')).toBe('application/json');
  else {
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(problem.parse(answer.body)).toMatchObject({ status, instance: expect.stringMatching(/.+/) });
  }
  expectListed(method, path, answer);
  return answer;
}

/** The answer of an operation must be one that the contract lists for it. */
function expectListed(method: string, path: string, { status, body }: Answer): void {
  const operation = matchPath(decodePath(path.split('?')[0] ?? ''))?.operations.get(method);
  if (operation === undefined) return;
  const contract: OperationContract = operations[operation];
  if (status >= 400) expect(problemsOf(contract), operation).toContain(body.code);
  else expect(Object.keys({ ...contract.answers, ...contract.bareAnswers }), operation).toContain(String(status));
}

const newLock = (name: string = randomUUID()) => lockAt(call, name);
const characters = (length: number) => 'x'.repeat(length);

/** Expects a 400 that names the field, and says in the same message what is allowed and what came. */
function expectRefusal(answer: Answer, field: string, allowed: string, got?: string): void {
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 400, body: { code: 'invalid-request' } });
  const error = answer.body.errors.find((each: { field: string }) => each.field === field);
  expect(error, `no error about ${field} in ${JSON.stringify(answer.body.errors)}`).toBeDefined();
  expect(error.message).toContain(allowed);
  if (got !== undefined) expect(error.message).toContain(got);
  expect(answer.body.detail).toContain(answer.body.errors[0].field);
}

/** The schema drops unknown fields. If it drops nothing, the answer is exactly what is published. */
function expectPublished(schema: z.ZodType, body: unknown): void {
  expect(schema.parse(body)).toEqual(body);
}

const ref = (length: number) => ({ type: 'event', ref: characters(length) });
/** As JSON, the text is inside the six more characters of {"a":""}. */
const metadataOf = (bytes: number) => ({ a: characters(bytes - 8) });

describe('POST acquire', () => {
  it.each([
    ['leaseMs', { leaseMs: 1_000 }],
    ['leaseMs', { leaseMs: 86_400_000 }],
    ['waitMs', { waitMs: 0 }],
    ['waitMs', { waitMs: 900_000 }],
    ['waitMs', { waitMs: 86_400_000, notify: ref(1) }],
    ['leaseId', { leaseId: 'Az09_-'.padEnd(16, '0') }],
    ['leaseId', { leaseId: 'Az09_-'.padEnd(128, '0') }],
    ['owner', { owner: 'x' }],
    ['owner', { owner: characters(128) }],
    ['limit', { limit: 1 }],
    ['limit', { limit: 1_000 }],
    ['permits', { permits: 1 }],
    ['permits', { limit: 1_000, permits: 1_000 }],
    ['mode', { mode: 'exclusive' }],
    ['mode', { mode: 'shared' }],
    ['lockDelayMs', { lockDelayMs: 0 }],
    ['lockDelayMs', { lockDelayMs: 60_000 }],
    ['tier', { tier: 'correctness' }],
    ['tier', { tier: 'efficiency' }],
    ['notify', { waitMs: 1, notify: ref(256) }],
    ['notify', { waitMs: 1, notify: { type: 'task-token', token: 'token' } }],
    ['notify', { waitMs: 1, notify: { type: 'task-token', token: 't'.repeat(2_048) } }],
    ['metadata', { metadata: {} }],
    ['metadata', { metadata: metadataOf(1_024) }],
  ])('accepts %s at its limits', async (_field, body: object) => {
    const leaseId = newLeaseId().replaceAll('-', '_');
    const answer = await newLock().acquire({ leaseId: `${leaseId}`, ...body });
    expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200, body: { status: 'granted' } });
    expectPublished(responses.granted, answer.body);
  });

  it.each([
    ['leaseMs', { leaseMs: 999 }, 'an integer from 1000 to 86400000', 'got 999'],
    ['leaseMs', { leaseMs: 86_400_001 }, 'an integer from 1000 to 86400000', 'got 86400001'],
    ['leaseMs', { leaseMs: 1_000.5 }, 'an integer from 1000 to 86400000', 'got 1000.5'],
    ['leaseMs', { leaseMs: '1000' }, 'an integer from 1000 to 86400000', 'got "1000"'],
    ['leaseMs', { leaseMs: null }, 'an integer from 1000 to 86400000', 'got null'],
    ['leaseMs', { leaseMs: 5_000, sessionId: 'some-session' }, 'not allowed together with sessionId', 'got 5000'],
    ['waitMs', { waitMs: -1 }, 'an integer from 0 to', 'got -1'],
    ['waitMs', { waitMs: 900_001 }, 'an integer from 0 to 900000', 'got 900001'],
    ['waitMs', { waitMs: 86_400_001, notify: ref(1) }, 'an integer from 0 to 86400000', 'got 86400001'],
    ['waitMs', { notify: ref(1) }, 'must be above 0 together with notify', undefined],
    ['leaseId', { leaseId: characters(15) }, '16 to 128', 'a string of 15 characters'],
    ['leaseId', { leaseId: characters(129) }, '16 to 128', 'a string of 129 characters'],
    ['leaseId', { leaseId: `${characters(15)}.` }, '16 to 128', 'a string of 16 characters'],
    ['leaseId', { leaseId: 1234567890123456 }, '16 to 128', 'got'],
    ['owner', { owner: '' }, '1 to 128 characters', 'got ""'],
    ['owner', { owner: characters(129) }, '1 to 128 characters', 'got "xxx'],
    ['limit', { limit: 0 }, 'an integer from 1 to 1000', 'got 0'],
    ['limit', { limit: 1_001 }, 'an integer from 1 to 1000', 'got 1001'],
    ['limit', { limit: 5, mode: 'shared' }, 'not allowed together with mode', 'got 5'],
    ['permits', { permits: 0 }, 'an integer from 1 to 1000', 'got 0'],
    ['permits', { permits: 2 }, 'at most the limit, which is 1', 'got 2'],
    ['permits', { limit: 5, permits: 6 }, 'at most the limit, which is 5', 'got 6'],
    ['permits', { permits: 1, mode: 'exclusive' }, 'not allowed together with mode', 'got 1'],
    ['mode', { mode: 'upgradable' }, 'exclusive or shared', 'got "upgradable"'],
    ['sessionId', { sessionId: 'not a name' }, 'starting with a letter or digit', 'a string of 10 characters'],
    ['lockDelayMs', { lockDelayMs: -1 }, 'an integer from 0 to 60000', 'got -1'],
    ['lockDelayMs', { lockDelayMs: 60_001 }, 'an integer from 0 to 60000', 'got 60001'],
    ['tier', { tier: 'best' }, 'correctness or efficiency', 'got "best"'],
    ['notify.ref', { waitMs: 1, notify: ref(0) }, '1 to 256 characters', 'got ""'],
    ['notify.ref', { waitMs: 1, notify: ref(257) }, '1 to 256 characters', 'got "xxx'],
    ['notify.ref', { waitMs: 1, notify: { type: 'event' } }, '1 to 256 characters', 'is required'],
    [
      'notify.type',
      { waitMs: 1, notify: { type: 'pigeon' } },
      'event, task-token, durable-callback or websocket',
      'got "pigeon"',
    ],
    ['notify.more', { waitMs: 1, notify: { ...ref(1), more: 1 } }, 'is not a known field', undefined],
    ['metadata', { metadata: metadataOf(1_025) }, 'at most 1024 bytes', 'got an object'],
    ['metadata', { metadata: ['a'] }, 'an object of strings', 'got a list of 1'],
    ['metadata.a', { metadata: { a: 1 } }, 'must be a string', 'got 1'],
    ['leasems', { leasems: 5_000 }, 'is not a known field', undefined],
    ['constructor', { constructor: 1 }, 'is not a known field', undefined],
  ])('refuses %s in %o and says what is allowed', async (field, body: object, allowed, got) => {
    const lock = newLock();
    expectRefusal(await lock.acquire(body), field, allowed, got);
    expect((await lock.inspect()).body.fence, 'a refused request takes nothing').toBe(0);
  });

  it('names every wrong field at once', async () => {
    const { body } = await newLock().acquire({ leaseMs: 1, waitMs: -1, nonsense: true });
    const named = body.errors.map(({ field }: { field: string }) => field);
    expect(new Set(named)).toEqual(new Set(['leaseMs', 'waitMs', 'nonsense']));
  });

  it('refuses a key that would reach a prototype', async () => {
    // Not as an object literal, which would set the prototype instead of the key.
    const answer = await call('POST', `/v1/test/locks/${randomUUID()}/acquire`, '{"__proto__":{"leaseMs":1000}}');
    expectRefusal(answer, '__proto__', 'is not a known field');
    const metadata = '{"metadata":{"__proto__":"lost","kept":"yes"}}';
    expectRefusal(
      await call('POST', `/v1/test/locks/${randomUUID()}/acquire`, metadata),
      'metadata.__proto__',
      'is not a known field',
    );
  });

  it('treats a missing body as one with every default', async () => {
    const sentAt = Date.now();
    const answer = await call('POST', `/v1/test/locks/${randomUUID()}/acquire`);
    expect(answer).toMatchObject({
      status: 200,
      body: { status: 'granted', leaseMs: 30_000, limit: 1, permits: 1, waitedMs: 0 },
    });
    expect(answer.body.leaseId).toMatch(/^[A-Za-z0-9_-]{16,128}$/);
    expect(Date.parse(answer.body.expiresAt)).toBeGreaterThanOrEqual(sentAt + 30_000);
  });

  it('answers 410 under a session that does not exist', async () => {
    expect(await newLock().acquire({ sessionId: 'never-opened' })).toMatchObject({
      status: 410,
      body: { code: 'session-lost' },
    });
  });

  it('answers 202 when the poll ends, and 409 to a caller that does not wait', async () => {
    const lock = newLock();
    await lock.acquire({ owner: 'holder' });
    const waiting = await lock.acquire({ waitMs: 30_000 });
    expect(waiting.status).toBe(202);
    expectPublished(responses.waiting, waiting.body);
    const held = await lock.acquire();
    expect(held).toMatchObject({
      status: 409,
      body: { code: 'lock-held', holders: [{ owner: 'holder' }], queueDepth: 1, retryAfterMs: expect.any(Number) },
    });
  });
});

describe('Retry-After', () => {
  it('counts seconds, rounded up, so nobody retries too early', async () => {
    const lock = newLock();
    await lock.acquire({ leaseMs: 1_000 });
    const { body, headers } = await lock.acquire();
    // The lease plus its grace: more than one second, less than two.
    expect(Number(headers.get('retry-after')) * 1_000).toBeGreaterThanOrEqual(body.retryAfterMs);
  });
});

describe('a body', () => {
  const path = () => `/v1/test/locks/${randomUUID()}/acquire`;

  it.each(['{', '{"leaseMs":}', 'lease', '{"a":1}}'])('that is not JSON is refused: %s', async (text) => {
    expect(await call('POST', path(), text)).toMatchObject({
      status: 400,
      body: { code: 'invalid-request', errors: [{ field: 'body', message: 'must be JSON' }] },
    });
  });

  it.each(['[]', '"text"', '1', 'null', 'true'])('that is no object is refused: %s', async (text) => {
    expect(await call('POST', path(), text)).toMatchObject({
      status: 400,
      body: { code: 'invalid-request', errors: [{ field: 'body' }] },
    });
  });

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp'])(
    'of type %s is refused',
    async (type) => {
      expect(await call('POST', path(), '{}', { headers: { 'content-type': type } })).toMatchObject({
        status: 415,
        body: { code: 'unsupported-media-type', detail: expect.stringContaining(type) },
      });
    },
  );

  it.each(['application/json; charset=utf-8', 'Application/JSON'])('of type %s is accepted', async (type) => {
    expect((await call('POST', path(), '{}', { headers: { 'content-type': type } })).status).toBe(200);
  });

  it('is accepted up to 64 KiB and refused above', async () => {
    const padded = (bytes: number) => `{${' '.repeat(bytes - 2)}}`;
    expect((await call('POST', path(), padded(64 * 1024))).status).toBe(200);
    expect(await call('POST', path(), padded(64 * 1024 + 1))).toMatchObject({
      status: 413,
      body: { code: 'too-large' },
    });
  });
});

describe('a path', () => {
  it.each(['/', '/v1', '/v2/health', '/v1/test/nothing', '/v1/test/locks/', '/v1/test/locks/a/steal', '/V1/health'])(
    '%s that is no route is not found',
    async (path) => {
      for (const method of ['GET', 'POST'])
        expect(await call(method, path)).toMatchObject({ status: 404, body: { code: 'not-found' } });
    },
  );

  it.each([
    ['POST', '/v1/health', 'GET'],
    ['DELETE', '/v1/test/locks', 'GET'],
    ['DELETE', '/v1/test/locks/a', 'GET'],
    ['GET', '/v1/test/locks/a/acquire', 'POST'],
    ['PUT', '/v1/test/sessions/a', 'GET, DELETE'],
    ['PATCH', '/v1/test/records/a', 'GET, PUT, DELETE'],
    ['GET', '/v1/test/multi-locks/acquire', 'POST'],
  ])('refuses %s at %s, and says what is allowed', async (method, path, allowed) => {
    const answer = await call(method, path);
    expect(answer).toMatchObject({ status: 405, body: { code: 'method-not-allowed' } });
    expect(answer.headers.get('allow')).toBe(allowed);
  });

  it.each(['a', 'Zz09._:@=+~-', `9${characters(254)}`, 'wallet%3A42', 'a%2Bb'])('names a lock as %s', async (name) => {
    const answer = await newLock(name).acquire();
    expect(answer.status).toBe(200);
    expect(answer.body.lock).toBe(decodeURIComponent(name));
  });

  it('means the same lock by a name and by its percent-encoded form', async () => {
    const name = randomUUID();
    await newLock(`a:${name}`).acquire();
    expect((await newLock(`a%3A${name}`).acquire()).body.code).toBe('lock-held');
  });

  it.each(['.a', '-a', ':a', 'a%20b', 'a%00', '%C3%A9', 'a!', characters(256)])(
    'is refused with %s for the name of a lock',
    async (name) => {
      for (const answer of [await newLock(name).acquire(), await newLock(name).inspect()])
        expectRefusal(answer, 'name', 'starting with a letter or digit', 'got');
    },
  );

  it('with an encoded slash is the path with that slash, as behind API Gateway, and names no lock', async () => {
    expect(await newLock('a%2Fb').inspect()).toMatchObject({ status: 404, body: { code: 'not-found' } });
  });

  it.each(['%', '%zz', '%ff'])('is refused with %s, which encodes nothing', async (name) => {
    expectRefusal(await newLock(name).acquire(), 'name', '1 to 255 of A-Z', 'got "%');
  });

  it.each(['a', '0-9', characters(63)])('names a namespace as %s', async (namespace) => {
    expect((await lockAt(call, 'a', namespace).inspect()).status).toBe(200);
  });

  it.each(['-a', 'A', 'a_b', 'a.b', characters(64)])('is refused with %s for a namespace', async (namespace) => {
    expectRefusal(await lockAt(call, 'a', namespace).acquire(), 'ns', '1 to 63 of a-z, 0-9 and -', 'got');
  });
});

describe('POST renew, release and revoke', () => {
  const leaseId = characters(16);

  it.each([
    ['renew', 'leaseId', {}],
    ['renew', 'leaseId', { leaseId: 'short' }],
    ['renew', 'leaseMs', { leaseId, leaseMs: 999 }],
    ['renew', 'leaseMs', { leaseId, leaseMs: 86_400_001 }],
    ['renew', 'owner', { leaseId, owner: 'me' }],
    ['release', 'leaseId', {}],
    ['release', 'leaseId', { leaseId: 5 }],
    ['release', 'fence', { leaseId, fence: 1 }],
    ['revoke', 'fence', { reason: 'stuck' }],
    ['revoke', 'fence', { fence: 0, reason: 'stuck' }],
    ['revoke', 'fence', { fence: 1.5, reason: 'stuck' }],
    ['revoke', 'fence', { fence: '7', reason: 'stuck' }],
    ['revoke', 'fence', { fence: Number.MAX_SAFE_INTEGER + 1, reason: 'stuck' }],
    ['revoke', 'reason', { fence: 1 }],
    ['revoke', 'reason', { fence: 1, reason: '' }],
    ['revoke', 'reason', { fence: 1, reason: characters(257) }],
    ['revoke', 'leaseId', { fence: 1, reason: 'stuck', leaseId }],
  ])('%s refuses %s in %o', async (operation, field, body) => {
    expectRefusal(await call('POST', `/v1/test/locks/${randomUUID()}/${operation}`, body), field, '');
  });

  it('have the published answers', async () => {
    const lock = newLock();
    const { body: grant } = await lock.acquire({ metadata: { job: 'nightly' } });
    expectPublished(responses.granted, grant);
    expectPublished(responses.granted, (await lock.renew({ leaseId: grant.leaseId })).body);
    expectPublished(responses.inspected, (await lock.inspect()).body);
    expectPublished(responses.released, (await lock.release(grant.leaseId)).body);
    const again = await lock.acquire();
    const revoked = await lock.revoke({ fence: again.body.fence, reason: characters(256) });
    expectPublished(responses.revoked, revoked.body);
  });
});

describe('GET a lock', () => {
  it('that was never used shows it free, with the fence 0', async () => {
    const name = randomUUID();
    expect((await newLock(name).inspect()).body).toEqual({
      lock: name,
      state: 'free',
      fence: 0,
      limit: 1,
      holders: [],
      queue: [],
      queueDepth: 0,
    });
  });

  it('check says whether a fence holds now', async () => {
    const lock = newLock();
    const { body: grant } = await lock.acquire();
    const checked = await lock.check(grant.fence);
    expectPublished(responses.checked, checked.body);
    expect(checked.body).toEqual({ valid: true, fence: grant.fence, state: 'held' });
    expect((await lock.check(grant.fence - 1)).body).toMatchObject({ valid: false, state: 'held' });
    await lock.release(grant.leaseId);
    expect((await lock.check(grant.fence)).body).toEqual({ valid: false, fence: grant.fence, state: 'free' });
  });

  it.each(['', '?fence=', '?fence=x', '?fence=-1', '?fence=1.5', '?fence=9007199254740993'])(
    'check refuses the query %s',
    async (query) => {
      expectRefusal(await call('GET', `/v1/test/locks/a/check${query}`), 'fence', 'must be an integer');
    },
  );
});

describe('GET locks', () => {
  const namespace = `list-${randomUUID()}`;
  const names = Array.from({ length: 12 }, (_, index) => `${index % 2 === 0 ? 'even' : 'odd'}-${index}`).sort();
  const held = names.filter((_, index) => index % 3 === 0);
  type Listed = { lock: string; state: string };

  beforeAll(async () => {
    for (const name of names) {
      const lock = lockAt(call, name, namespace);
      const { body } = await lock.acquire();
      if (!held.includes(name)) await lock.release(body.leaseId);
    }
    await untilIndexesFollow();
  });

  /** Follows the cursor to the end. */
  async function listAll(query: string): Promise<{ names: string[]; pages: number }> {
    const found: string[] = [];
    let cursor: string | undefined;
    let pages = 0;
    do {
      const more = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const { status, body } = await call('GET', `/v1/${namespace}/locks?${query}${more}`);
      expect(status).toBe(200);
      expectPublished(responses.listed, body);
      found.push(...body.locks.map(({ lock }: Listed) => lock));
      cursor = body.cursor;
      pages += 1;
    } while (cursor !== undefined && pages < 100);
    return { names: found, pages };
  }

  it('shows every lock once, in order, over pages of any size', async () => {
    for (const limit of [1, 5, 12, 13]) {
      const all = await listAll(`limit=${limit}`);
      expect(all.names).toEqual(names);
      expect(all.pages).toBeGreaterThanOrEqual(Math.ceil(12 / limit));
    }
  });

  it('shows those with a prefix, those that are held and those that are free, complete over pages', async () => {
    expect((await listAll('prefix=odd-&limit=2')).names).toEqual(names.filter((name) => name.startsWith('odd-')));
    expect((await listAll('state=held&limit=2')).names).toEqual(held);
    expect((await listAll('state=free&limit=2')).names).toEqual(names.filter((name) => !held.includes(name)));
    expect((await listAll('prefix=nothing')).names).toEqual([]);
  });

  it.each([
    ['limit', 'limit=0'],
    ['limit', 'limit=1001'],
    ['limit', 'limit=many'],
    ['state', 'state=stuck'],
    ['prefix', 'prefix=a%2Fb'],
    ['cursor', 'cursor=***'],
    ['cursor', 'cursor='],
    ['cursor', `cursor=${characters(513)}`],
    ['sort', 'sort=name'],
  ])('refuses %s in %s', async (field, query) => {
    expectRefusal(await call('GET', `/v1/${namespace}/locks?${query}`), field, '');
  });
});

describe('a leaseId', () => {
  const secret = 'my-own-secret-lease-0001';

  it('is not repeated by any error, not even to the caller that sent it', async () => {
    const lock = newLock();
    await lock.acquire({ owner: 'holder' });
    const path = `/v1/test/locks/${randomUUID()}`;
    const refusals = [
      await lock.acquire({ leaseId: secret }),
      await lock.renew({ leaseId: secret }),
      await lock.release(secret),
      await lock.acquire({ leaseId: `${secret} ` }),
      await lock.acquire({ leaseId: secret, leaseMs: 1 }),
      await lock.renew({ leaseId: `${secret}!` }),
      await call('POST', `${path}/release`, `{"leaseId":${secret}}`),
      // The JSON parser quotes the text around the error.
      await call('POST', `${path}/release`, `{"leaseId":'secret-lease-0001'}`),
      await call('POST', `${path}/release`, `{"leaseId":"${secret}`),
      await call('POST', `${path}/release`, JSON.stringify({ leaseId: secret }), {
        headers: { 'content-type': 'text/plain' },
      }),
      await call('POST', '/v1/test/multi-locks/release', { leaseId: `${secret}!`, locks: ['a'] }),
    ];
    for (const { status, body } of refusals) {
      expect(status).toBeGreaterThanOrEqual(400);
      expect(JSON.stringify(body)).not.toContain(secret);
      expect(JSON.stringify(body)).not.toContain('secret-l');
    }
  });
});

describe('GET health', () => {
  it('answers as published, and names the engine and the version', async () => {
    const { status, body } = await call('GET', '/v1/health');
    expect(status).toBe(200);
    expectPublished(operations.health.answers[200], body);
  });
});
