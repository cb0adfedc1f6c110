/** Every way to be notified, by the functions that the stream, the timers and the sockets start. */
import { strict as assert } from 'node:assert';
import { Holdfast } from '../../src/client/index.ts';
import { type Caller, eventually, Socket, TextSocket } from './callers.ts';
import { type Checks, lease, ok } from './smoke.ts';

/** The address of a ticket's one connection. */
async function ticketUrl(caller: Caller, more: Readonly<Record<string, string>> = {}): Promise<string> {
  const { url, ticket } = ok(await caller.post('/v1/orders/tickets'), 201);
  return `${url}?${new URLSearchParams({ ticket, ...more })}`;
}

const untilQueued = (caller: Caller, lock: string, depth: number) =>
  eventually(`a queue of ${depth}`, async () => ok(await caller.get(lock)).queueDepth === depth || undefined);

export const notifyChecks: Checks = {
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

  'a durable function, suspended until its callback is completed': async ({ caller, deployed, services }) => {
    const lock = '/v1/orders/locks/by-callback';
    const { fence } = ok(await caller.post(`${lock}/acquire`, { leaseId: lease('first') }));
    const { url, durableFunctionName } = deployed;
    const { output } = await services.startDurable(durableFunctionName, { url, lock: 'by-callback' });
    await untilQueued(caller, lock, 1);
    ok(await caller.post(`${lock}/release`, { leaseId: lease('first') }));
    assert.ok(((await output()).fence as number) > fence);
    assert.equal(ok(await caller.get(lock)).state, 'free');
  },

  'a ticket opens one connection, once': async ({ caller, deployed }) => {
    const url = await ticketUrl(caller);
    const first = new Socket(url);
    first.onOpen(() => first.send('hello'));
    await first.message('connected');
    for (const refused of [url, `${deployed.watchUrl}?ticket=made-up`, `${deployed.watchUrl}?namespace=orders&prefix=`])
      await new Socket(refused).message('error');
    first.close();
  },

  'a waiter on a connection, and watching': async ({ caller }) => {
    const socket = new Socket(await ticketUrl(caller, { prefix: '' }));
    const { connectionId } = await socket.message('connected');
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

  'a connection that ends takes its waiter out of the queue': async ({ caller }) => {
    const socket = new Socket(await ticketUrl(caller, { lock: 'left' }));
    const { connectionId } = await socket.message('connected');
    const lock = '/v1/orders/locks/left';
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('first') }));
    const notify = { type: 'websocket', connectionId };
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('second'), waitMs: 600_000, notify }), 202);
    socket.close();
    await untilQueued(caller, lock, 0);
  },

  'the SDK waits by push': async ({ caller, deployed }) => {
    const lock = '/v1/orders/locks/by-push';
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('first') }));
    const locks = new Holdfast({ url: deployed.url, namespace: 'orders', webSocket: TextSocket });
    let answers = 0;
    const onWaiting = () => {
      answers += 1;
    };
    const waiting = locks.acquire('by-push', { waitMs: 60_000, onWaiting });
    // The first answer ends its poll, the second parks it.
    await eventually('a parked waiter', () => answers >= 2 || undefined);
    ok(await caller.post(`${lock}/release`, { leaseId: lease('first') }));
    const held = await waiting;
    assert.equal(answers, 2, 'The waiter looked for itself: nobody told it.');
    assert.equal((await held.release()).released, true);
    await locks.close();
  },

  'expiry by timer, where nobody polls, and nothing left for the notifier to tell sockets': async ({ caller, log }) => {
    const lock = '/v1/orders/locks/expiring';
    const { fence } = ok(await caller.post(`${lock}/acquire`, { leaseMs: 1_500 }));
    const notify = { type: 'event', ref: 'order-2' };
    ok(await caller.post(`${lock}/acquire`, { leaseId: lease('second'), waitMs: 60_000, notify }), 202);
    await eventually('the next holder', async () => {
      const { body } = await caller.get(`${lock}`);
      return body.fence > fence && body.state === 'held' ? true : undefined;
    });
    // The log has the notifier's lines. It reads in order, so it has seen the releases above by now. Those delivered to the sockets themselves.
    await eventually('a delivery by the notifier', () => deliveriesOf('expiring', log()).length > 0 || undefined);
    for (const name of ['by-socket', 'by-push']) assert.deepEqual(deliveriesOf(name, log()), []);
  },

  history: async ({ caller }) => {
    const types = await eventually('a history', async () => {
      const { events } = ok(await caller.get('/v1/orders/locks/by-event/history'));
      return events.length >= 4 ? (events as { type: string }[]).map(({ type }) => type) : undefined;
    });
    assert.deepEqual(types.slice(0, 4).sort(), ['granted', 'granted', 'queued', 'released']);
  },
};

/** The lines of a log that say that a grant of this lock was delivered. */
const deliveriesOf = (lock: string, log: string): string[] =>
  log.split('\n').filter((line) => line.includes('A grant was delivered') && line.includes(`"lock":"${lock}"`));
