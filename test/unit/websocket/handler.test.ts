import { describe, expect, it } from 'vitest';
import type { LockContext } from '../../../src/service/context.ts';
import type { Connection, SocketStore } from '../../../src/store/socket-store.ts';
import type { Watcher, WatcherStore } from '../../../src/store/watcher-store.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { apiGatewayWebsocketHandler } from '../../../src/websocket/api-gateway.ts';
import { createWebsocketHandler } from '../../../src/websocket/handler.ts';

const owner: Connection = { namespace: 'orders', caller: 'worker' };

/** A handler whose stores note what it does. One ticket is good. */
function world({ needsTicket = true, redeem }: { needsTicket?: boolean; redeem?: SocketStore['redeem'] } = {}) {
  const added: Watcher[] = [];
  const done: string[] = [];
  const lines: object[] = [];
  const watchers: WatcherStore = {
    add: async (watcher) => void added.push(watcher),
    welcome: async () => true,
    welcomed: async () => [],
    remove: async (id) => void done.push(`remove ${id}`),
  };
  const sockets: SocketStore = {
    issue: async () => {},
    redeem: redeem ?? (async (ticket, now) => (ticket === 'good' && now === 5 ? owner : undefined)),
    connection: async (id) => (id === 'open' ? owner : undefined),
    noteWait: async () => {},
    waitsOn: async (id, namespace) => {
      done.push(`waits of ${id} in ${namespace}`);
      return [];
    },
  };
  const locks = { clock: { now: () => epochMs(5) } } as LockContext;
  const log = { info: () => {}, error: (...line: object[]) => void lines.push(line) };
  const handler = createWebsocketHandler({ watchers, sockets, locks, needsTicket, log: log as never });
  const connect = (query: Record<string, string>) =>
    handler.connect({ requestId: 'r', connectionId: 'c', connectedAt: 7, query });
  return { handler, connect, added, done, lines };
}

describe('connecting', () => {
  it.each([
    [{ lock: 'a' }, { lock: 'a' }],
    [{ prefix: '' }, { prefix: '' }],
    [{}, 'nothing'],
  ])('with a ticket counts as the caller of the ticket, for %j', async (wanted, subject) => {
    const { connect, added } = world();
    expect(await connect({ ticket: 'good', ...wanted })).toEqual({ status: 200, headers: {}, body: undefined });
    expect(added).toEqual([{ ...owner, connectionId: 'c', connectedAt: 7, subject }]);
  });

  it.each([
    ['needs a ticket', {}, 401],
    ['needs a good ticket', { ticket: 'bad' }, 403],
    ['takes one lock or a prefix', { ticket: 'good', lock: 'a', prefix: 'b' }, 400],
    ['takes nothing else', { ticket: 'good', namespace: 'orders' }, 400],
  ])('%s', async (_, query, status) => {
    const { connect, added, lines } = world();
    expect(await connect(query as Record<string, string>)).toMatchObject({ status });
    expect([added, lines]).toEqual([[], []]);
  });

  it('says no more about a ticket than that it is not valid, and logs none', async () => {
    const redeem = () => Promise.reject(new Error('broken'));
    const { connect, lines } = world({ redeem });
    expect(await connect({ ticket: 'secret-ticket' })).toMatchObject({ status: 500 });
    expect(lines).toHaveLength(1);
    expect(JSON.stringify(lines)).not.toContain('secret-ticket');
  });

  it('without a ticket is for callers of this machine, who must name what they watch', async () => {
    const { connect, added } = world({ needsTicket: false });
    expect(await connect({ namespace: 'orders', lock: 'a' })).toMatchObject({ status: 200 });
    expect(added).toMatchObject([{ namespace: 'orders', caller: 'anonymous', subject: { lock: 'a' } }]);
    expect(await connect({ namespace: 'orders' })).toMatchObject({ status: 400 });
    expect(await connect({ namespace: 'orders', lock: 'a', prefix: 'a' })).toMatchObject({ status: 400 });
    // A ticket that is given counts.
    expect(await connect({ ticket: 'bad' })).toMatchObject({ status: 403 });
    expect(await connect({ ticket: 'good' })).toMatchObject({ status: 200 });
  });
});

describe('the end of a connection', () => {
  it('removes the watcher first, and then makes its waits absent', async () => {
    const { handler, done } = world();
    await handler.disconnect('open');
    expect(done).toEqual(['remove open', 'waits of open in orders']);
  });

  it('does nothing if the connection is not known', async () => {
    const { handler, done } = world();
    await handler.disconnect('other');
    expect(done).toEqual([]);
  });
});

describe('the adapter for API Gateway', () => {
  const event = (routeKey: string, query?: Record<string, string>) => ({
    requestContext: { routeKey, connectionId: 'open', connectedAt: 7, requestId: 'r' },
    queryStringParameters: query,
  });

  it('passes on the answer to each route', async () => {
    const { handler, done } = world();
    const adapter = apiGatewayWebsocketHandler(handler);
    expect(await adapter(event('$connect', { ticket: 'good' }))).toEqual({ statusCode: 200, headers: {} });
    const refused = await adapter(event('$connect'));
    expect(refused).toMatchObject({ statusCode: 401, body: expect.stringContaining('unauthorized') });
    const connected = { type: 'connected', connectionId: 'open' };
    expect(await adapter(event('$default'))).toEqual({ statusCode: 200, body: JSON.stringify(connected) });
    expect(done).toEqual([]);
    expect(await adapter(event('$disconnect'))).toEqual({ statusCode: 200 });
    expect(done).toHaveLength(2);
  });
});
