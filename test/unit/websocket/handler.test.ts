import { describe, expect, it } from 'vitest';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { apiGatewayWebsocketHandler } from '../../../src/websocket/api-gateway.ts';
import { createWebsocketHandler } from '../../../src/websocket/handler.ts';
import { MemorySockets, MemoryWatchers } from '../../support/memory-stores.ts';

function world({ needsTicket = true } = {}) {
  const time = new VirtualTime();
  const { locks } = memoryService(time, seededRandom(1), () => {}).service;
  const watchers = new MemoryWatchers();
  const sockets = new MemorySockets((id) => watchers.find(id));
  const logged: { message: string; fields: unknown }[] = [];
  const log = { info: () => {}, error: (message: string, fields: unknown) => void logged.push({ message, fields }) };
  const handler = createWebsocketHandler({ watchers, sockets, locks, needsTicket, log });
  const connect = async (query: Record<string, string>) => {
    const answer = await handler.connect({ requestId: 'request-1', connectionId: 'c=', connectedAt: 7, query });
    return { status: answer.status, body: answer.body === undefined ? undefined : JSON.parse(answer.body) };
  };
  const issue = async (ticket: string) =>
    sockets.issue(ticket, { namespace: 'test', caller: 'me', expiresAt: epochMs(time.now() + 1_000) });
  return { time, watchers, sockets, handler, connect, issue, logged };
}

describe('a connection', () => {
  it.each([
    [{}, 'nothing'],
    [{ lock: 'a' }, { lock: 'a' }],
    [{ prefix: 'a' }, { prefix: 'a' }],
    [{ prefix: '' }, { prefix: '' }],
  ])('opens with a ticket, for its owner and %j', async (query, subject) => {
    const { watchers, connect, issue } = world();
    await issue('ticket');
    expect(await connect({ ticket: 'ticket', ...query })).toEqual({ status: 200, body: undefined });
    expect(watchers.find('c=')).toEqual({
      namespace: 'test',
      caller: 'me',
      subject,
      connectionId: 'c=',
      connectedAt: 7,
    });
  });

  it.each([
    ['without a ticket', {}, 401, 'unauthorized', 'A ticket is required to open a connection.'],
    ['with a ticket that was never issued', { ticket: 'other' }, 403, 'forbidden', 'The ticket is not valid.'],
  ])('is refused %s', async (_how, query, status, code, detail) => {
    const { watchers, connect, logged } = world();
    const refused = await connect(query);
    expect(refused).toMatchObject({ status, body: { code, instance: 'urn:holdfast:request:request-1' } });
    expect(refused.body.detail).toContain(detail);
    expect([watchers.size, logged]).toEqual([0, []]);
  });

  it('is refused with a ticket that was used or is too old', async () => {
    const { time, connect, issue } = world();
    await issue('once');
    await connect({ ticket: 'once' });
    expect((await connect({ ticket: 'once' })).status).toBe(403);
    await issue('late');
    await time.advance(1_000);
    expect((await connect({ ticket: 'late' })).status).toBe(403);
  });

  it.each([
    [{ ticket: 'ticket', lock: 'a', prefix: 'a' }, 'lock', 'must not be given together with prefix'],
    [{ ticket: 'ticket', lock: 'not a name' }, 'lock', 'must be'],
    [{ ticket: 'ticket', prefix: 'not a prefix' }, 'prefix', 'must be'],
    [{ ticket: 'ticket', namespace: 'test' }, 'namespace', 'is not a known field'],
    [{ ticket: 'x'.repeat(129) }, 'ticket', ''],
  ])('is refused with the query %j, and its ticket is still good', async (query, field, message) => {
    const { connect, issue } = world();
    await issue('ticket');
    const { status, body } = await connect(query);
    expect([status, body.code, body.errors[0].field]).toEqual([400, 'invalid-request', field]);
    expect(body.errors[0].message).toContain(message);
    expect((await connect({ ticket: 'ticket' })).status).toBe(200);
  });

  it('needs no ticket where every program is trusted, but then a namespace and what it watches', async () => {
    const { watchers, connect, issue } = world({ needsTicket: false });
    expect(await connect({ namespace: 'test', lock: 'a' })).toEqual({ status: 200, body: undefined });
    expect(watchers.find('c=')).toMatchObject({ namespace: 'test', caller: 'anonymous', subject: { lock: 'a' } });
    for (const query of [{ namespace: 'test' }, { namespace: 'test', lock: 'a', prefix: 'a' }])
      expect(await connect(query as never)).toMatchObject({
        status: 400,
        body: {
          errors: [{ field: 'lock', message: expect.stringContaining('if prefix is not, and not together with it') }],
        },
      });
    expect((await connect({ lock: 'a' })).body.errors).toMatchObject([{ field: 'namespace' }]);
    await issue('ticket');
    expect((await connect({ ticket: 'ticket' })).status).toBe(200);
    expect(watchers.find('c='), 'a ticket says who connects').toMatchObject({ caller: 'me', subject: 'nothing' });
  });

  it('is refused and logged if the store fails', async () => {
    const { watchers, connect, issue, logged } = world();
    await issue('ticket');
    watchers.add = () => Promise.reject(new TypeError('a fault in the code'));
    expect(await connect({ ticket: 'ticket' })).toMatchObject({ status: 500, body: { code: 'internal' } });
    expect(logged).toEqual([
      {
        message: 'connect',
        fields: { requestId: 'request-1', code: 'internal', error: 'TypeError: a fault in the code' },
      },
    ]);
  });

  it('is refused without its ticket in the log if the ticket can not be looked up', async () => {
    const { sockets, connect, logged } = world();
    sockets.redeem = () => Promise.reject(new Error('broken'));
    expect(await connect({ ticket: 'secret-ticket' })).toMatchObject({ status: 500 });
    expect(logged).toHaveLength(1);
    expect(JSON.stringify(logged)).not.toContain('secret-ticket');
  });

  it('is forgotten before its waits become absent, so that none of them parks on it again', async () => {
    const { watchers, sockets, connect, issue, handler } = world();
    await issue('ticket');
    await connect({ ticket: 'ticket' });
    const knownMeanwhile: unknown[] = [];
    sockets.waitsOn = async () => {
      knownMeanwhile.push(watchers.find('c='));
      return [];
    };
    await handler.disconnect('c=');
    expect(knownMeanwhile).toEqual([undefined]);
  });

  it('that ended before is left alone', async () => {
    const { watchers, handler } = world();
    watchers.remove = () => Promise.reject(new Error('There is nothing to remove.'));
    await handler.disconnect('never opened');
  });
});

describe('the adapter for API Gateway', () => {
  it('opens, answers and closes', async () => {
    const { watchers, handler, issue } = world();
    const handle = apiGatewayWebsocketHandler(handler);
    const event = (routeKey: string, query?: Record<string, string>) => ({
      requestContext: { routeKey, connectionId: 'c=', connectedAt: 7, requestId: 'request-1' },
      queryStringParameters: query,
    });
    await issue('ticket');
    expect(await handle(event('$connect', { ticket: 'ticket' }))).toEqual({ statusCode: 200, headers: {} });
    expect(watchers.find('c=')).toMatchObject({ connectedAt: 7 });
    expect(await handle(event('$default'))).toEqual({
      statusCode: 200,
      body: JSON.stringify({ type: 'connected', connectionId: 'c=' }),
    });
    expect(await handle(event('$disconnect'))).toEqual({ statusCode: 200 });
    expect(watchers.find('c=')).toBeUndefined();
    expect(await handle(event('$connect'))).toMatchObject({
      statusCode: 401,
      headers: { 'content-type': 'application/problem+json', 'x-request-id': 'request-1' },
      body: expect.stringContaining('unauthorized'),
    });
  });
});
