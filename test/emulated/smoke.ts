/** Every operation once through the deployed HTTP API, and every way to be notified. */
import { strict as assert } from 'node:assert';
import { type Answer, type Caller, eventually, Socket } from './callers.ts';
import type { Deployed } from './deployment.ts';
import type { Services } from './services.ts';

export interface Scene {
  readonly caller: Caller;
  readonly deployed: Deployed;
  readonly services: Services;
}

const ok = ({ status, body }: Answer, expected = 200): Answer['body'] => {
  assert.equal(status, expected, JSON.stringify(body));
  return body;
};

const lease = (name: string): string => `${name}-lease-000000001`;

/** The checks by their names, in the order in which they run. */
export const checks: Readonly<Record<string, (scene: Scene) => Promise<void>>> = {
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

  'a parked waiter by event, and events on the bus': async ({ caller, deployed, services }) => {
    const heard = await services.listen(deployed.busName);
    const lock = '/v1/orders/locks/by-event';
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('first') }));
    const notify = { type: 'event', ref: 'order-1' };
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('second'), waitMs: 60_000, notify }), 202);
    ok(await caller.post(`${lock}/release`, { leaseId: lease('first') }));
    const find = (type: string) =>
      eventually(`an event ${type}`, async () => (await heard()).find((event) => event['detail-type'] === type));
    const { detail } = (await find('granted-to-waiter')) as { detail: Record<string, unknown> };
    assert.equal(detail.ref, 'order-1');
    assert.ok(!JSON.stringify(await heard()).includes(lease('second')), 'An event carries a lease.');
    await find('released');
  },

  'a parked waiter by task token': async ({ caller, services }) => {
    const lock = '/v1/orders/locks/by-task';
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('first') }));
    const { token, output } = await services.startTask();
    const notify = { type: 'task-token', token };
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('second'), waitMs: 60_000, notify }), 202);
    ok(await caller.post(`${lock}/release`, { leaseId: lease('first') }));
    assert.equal((await output()).leaseId, lease('second'));
  },

  'a parked waiter by WebSocket, and watching': async ({ caller, deployed }) => {
    const socket = new Socket(`${deployed.watchUrl}?namespace=orders&prefix=`);
    const { connectionId } = await socket.message('connected');
    socket.send('anything');
    const lock = '/v1/orders/locks/by-socket';
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('first') }));
    const notify = { type: 'websocket', connectionId };
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('second'), waitMs: 60_000, notify }), 202);
    ok(await caller.post(`${lock}/release`, { leaseId: lease('first') }));
    // Both the message to the waiter and the event for watchers are called `granted`; only the first has a lease.
    await eventually('the grant', () => socket.messages.find(({ leaseId }) => leaseId === lease('second')));
    await eventually('an event', () =>
      socket.messages.find(({ type, lock: name }) => type === 'released' && name === 'by-socket'),
    );
    socket.close();
  },

  'expiry by timer, where nobody polls': async ({ caller }) => {
    const lock = '/v1/orders/locks/expiring';
    const { fence } = ok(await caller.post(`${lock}/acquire`, { leaseMs: 1_500 }));
    const notify = { type: 'event', ref: 'order-2' };
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('second'), waitMs: 60_000, notify }), 202);
    await eventually('the next holder', async () => {
      const { body } = await caller.get(`${lock}`);
      return body.fence > fence && body.state === 'held' ? true : undefined;
    });
  },

  history: async ({ caller }) => {
    const types = await eventually('a history', async () => {
      const { events } = ok(await caller.get('/v1/orders/locks/by-event/history'));
      return events.length >= 4 ? (events as { type: string }[]).map(({ type }) => type) : undefined;
    });
    assert.deepEqual(types.slice(0, 4).sort(), ['granted', 'granted', 'queued', 'released']);
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

  'nothing was left uncalled': async ({ caller }) => {
    assert.deepEqual(caller.uncalled(), []);
  },
};
