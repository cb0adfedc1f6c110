/** Every operation through the deployed HTTP API. */
import { strict as assert } from 'node:assert';
import { type Answer, type Caller, eventually } from './callers.ts';
import type { Deployed } from './deployment.ts';
import type { Services } from './services.ts';

export interface Scene {
  readonly caller: Caller;
  readonly deployed: Deployed;
  readonly services: Services;
  /** What the emulator and the functions have logged so far. */
  log(): string;
}

export type Checks = Readonly<Record<string, (scene: Scene) => Promise<void>>>;

export const ok = ({ status, body }: Answer, expected = 200): Answer['body'] => {
  assert.equal(status, expected, JSON.stringify(body));
  return body;
};

export const lease = (name: string): string => `${name}-lease-000000001`;

/** The checks by their names, in the order in which they run. */
export const requestChecks: Checks = {
  'health and the OpenAPI document': async ({ caller }) => {
    assert.equal(ok(await caller.get('/v1/health')).status, 'ok');
    assert.equal(ok(await caller.get('/v1/openapi.json')).openapi, '3.1.0');
    assert.equal((await caller.get('/v1/orders/nothing')).body.code, 'not-found');
  },

  'acquire, refuse, renew, check, inspect, list, release': async ({ caller }) => {
    const lock = '/v1/orders/locks/wallet:42';
    const { fence } = ok(await caller.post(`${lock}/acquire`, { leaseId: lease('first') }));
    assert.equal((await caller.post(`${lock}/acquire`)).body.code, 'lock-held');
    assert.equal(ok(await caller.post(`${lock}/renew`, { leaseId: lease('first') })).fence, fence);
    assert.equal(ok(await caller.get(`${lock}/check?fence=${fence}`)).valid, true);
    assert.equal(ok(await caller.get(lock)).state, 'held');
    assert.equal(ok(await caller.get('/v1/orders/locks?state=held')).locks[0].lock, 'wallet:42');
    assert.equal(ok(await caller.post(`${lock}/release`, { leaseId: lease('first') })).released, true);
  },

  'a long poll that ends with the release of another': async ({ caller }) => {
    const lock = '/v1/orders/locks/polled';
    const { fence } = ok(await caller.post(`${lock}/acquire`, { leaseId: lease('first') }));
    const waiting = caller.post(`${lock}/acquire`, { leaseId: lease('second'), waitMs: 20_000 });
    await eventually('a waiter', async () => ok(await caller.get(lock)).queueDepth === 1 || undefined);
    ok(await caller.post(`${lock}/release`, { leaseId: lease('first') }));
    const granted = ok(await waiting);
    assert.equal(granted.status, 'granted');
    assert.ok(granted.fence > fence);
  },

  revoke: async ({ caller }) => {
    const { fence } = ok(await caller.post('/v1/orders/locks/stuck/acquire'));
    assert.equal(ok(await caller.post('/v1/orders/locks/stuck/revoke', { fence, reason: 'smoke' })).revoked, true);
  },

  'several locks at once': async ({ caller }) => {
    const asked = { locks: ['x', 'y'], leaseId: lease('many') };
    assert.equal(ok(await caller.post('/v1/jobs/multi-locks/acquire', asked)).grants.length, 2);
    ok(await caller.post('/v1/jobs/multi-locks/renew', asked));
    assert.equal(ok(await caller.post('/v1/jobs/multi-locks/release', asked)).released.length, 2);
  },

  'a session and its locks': async ({ caller }) => {
    const { sessionId } = ok(await caller.post('/v1/jobs/sessions', { ttlMs: 30_000 }), 201);
    ok(await caller.post('/v1/jobs/locks/held-by-session/acquire', { sessionId }));
    ok(await caller.post(`/v1/jobs/sessions/${sessionId}/keepalive`));
    assert.equal(ok(await caller.get(`/v1/jobs/sessions/${sessionId}`)).locks.length, 1);
    assert.equal(ok(await caller.call('DELETE', `/v1/jobs/sessions/${sessionId}`)).ended, true);
    ok(await caller.post('/v1/jobs/locks/held-by-session/acquire'));
  },

  records: async ({ caller }) => {
    const record = '/v1/jobs/records/cursor';
    const { version } = ok(await caller.call('PUT', record, { value: 1 }, { 'if-none-match': '*' }), 201);
    assert.equal(ok(await caller.get(record)).value, 1);
    ok(await caller.call('DELETE', record, undefined, { 'if-match': `"${version}"` }));
  },
};
