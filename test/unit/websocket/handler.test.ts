import { describe, expect, it } from 'vitest';
import { systemLockContext } from '../../../src/service/context.ts';
import { arrivalOf, type Watcher } from '../../../src/store/watchers.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { apiGatewayWebsocketHandler } from '../../../src/websocket/api-gateway.ts';
import { createWebsocketHandler } from '../../../src/websocket/handler.ts';
import { afterWork, memoryStores, outOfReach } from '../../support/memory-table.ts';

function world({ needsTicket = true } = {}) {
  const time = new VirtualTime();
  const parts = { clock: time, timers: time };
  /** The connections that the stream showed, as the publisher sees them. */
  const arrived: Watcher[] = [];
  const stores = memoryStores({
    ...parts,
    onChange: ({ keys, before, after }) => {
      const eventName = before === undefined ? 'INSERT' : 'MODIFY';
      const arrival = arrivalOf({ eventName, dynamodb: { Keys: keys as never, NewImage: after as never } });
      if (arrival !== undefined) arrived.push(arrival);
    },
  });
  const { table, watchers, sockets, elsewhere } = stores;
  const locks = systemLockContext({ ...stores, ...parts, alone: true });
  const known = () => elsewhere.sockets.connection('c=');
  const logged: { message: string; fields: unknown }[] = [];
  const log = { info: () => {}, error: (message: string, fields: unknown) => void logged.push({ message, fields }) };
  const handler = createWebsocketHandler({ watchers, sockets, locks, needsTicket, log });
  const connect = async (query: Record<string, string>) => {
    const answer = await handler.connect({ requestId: 'request-1', connectionId: 'c=', connectedAt: 7, query });
    return { status: answer.status, body: answer.body === undefined ? undefined : JSON.parse(answer.body) };
  };
  const issue = async (ticket: string) =>
    sockets.issue(ticket, { namespace: 'test', caller: 'me', expiresAt: epochMs(time.now() + 1_000) });
  return { time, table, arrived, known, handler, connect, issue, logged };
}

describe('a connection', () => {
  it.each([
    [{}, 'nothing'],
    [{ lock: 'a' }, { lock: 'a' }],
    [{ prefix: 'a' }, { prefix: 'a' }],
    [{ prefix: '' }, { prefix: '' }],
  ])('opens with a ticket, for its owner and %j', async (query, subject) => {
    const { arrived, known, connect, issue } = world();
    await issue('ticket');
    expect(await connect({ ticket: 'ticket', ...query })).toEqual({ status: 200, body: undefined });
    const watcher = { namespace: 'test', caller: 'me', subject, connectionId: 'c=', connectedAt: 7 };
    expect(arrived).toEqual([watcher]);
    expect(await known()).toEqual({ namespace: 'test', caller: 'me' });
  });

  it.each([
    ['without a ticket', {}, 401, 'unauthorized', 'A ticket is required to open a connection.'],
    ['with a ticket that was never issued', { ticket: 'other' }, 403, 'forbidden', 'The ticket is not valid.'],
  ])('is refused %s', async (_how, query, status, code, detail) => {
    const { arrived, connect, logged } = world();
    const refused = await connect(query);
    expect(refused).toMatchObject({ status, body: { code, instance: 'urn:holdfast:request:request-1' } });
    expect(refused.body.detail).toContain(detail);
    expect([arrived, logged]).toEqual([[], []]);
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
    const { arrived, connect, issue } = world({ needsTicket: false });
    expect(await connect({ namespace: 'test', lock: 'a' })).toEqual({ status: 200, body: undefined });
    expect(arrived).toMatchObject([{ namespace: 'test', caller: 'anonymous', subject: { lock: 'a' } }]);
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
    expect(arrived.at(-1), 'a ticket says who connects').toMatchObject({ caller: 'me', subject: 'nothing' });
  });

  it('is refused and logged if the store fails', async () => {
    const { table, connect, issue, logged } = world();
    await issue('ticket');
    table.meddle('PutItem connection', outOfReach);
    expect(await connect({ ticket: 'ticket' })).toMatchObject({ status: 503, body: { code: 'unavailable' } });
    expect(logged).toMatchObject([{ message: 'connect', fields: { requestId: 'request-1', code: 'unavailable' } }]);
  });

  it('is refused without its ticket in the log if the ticket can not be looked up', async () => {
    const { table, connect, logged } = world();
    table.meddle('UpdateItem ticket', outOfReach);
    expect(await connect({ ticket: 'secret-ticket' })).toMatchObject({ status: 503 });
    expect(logged).toHaveLength(1);
    expect(JSON.stringify(logged)).not.toContain('secret-ticket');
  });

  it('is forgotten before its waits become absent, so that none of them parks on it again', async () => {
    const { table, known, connect, issue, handler } = world();
    await issue('ticket');
    await connect({ ticket: 'ticket' });
    const knownMeanwhile: unknown[] = [];
    table.meddle(
      'Query',
      afterWork(async () => knownMeanwhile.push(await known())),
    );
    await handler.disconnect('c=');
    expect(knownMeanwhile).toEqual([undefined]);
  });

  it('that ended before is left alone', async () => {
    const { table, handler } = world();
    await handler.disconnect('never opened');
    expect(table.take()).toEqual(['GetItem connection']);
  });
});

describe('the adapter for API Gateway', () => {
  it('opens, answers and closes', async () => {
    const { arrived, known, handler, issue } = world();
    const handle = apiGatewayWebsocketHandler(handler);
    const event = (routeKey: string, query?: Record<string, string>) => ({
      requestContext: { routeKey, connectionId: 'c=', connectedAt: 7, requestId: 'request-1' },
      queryStringParameters: query,
    });
    await issue('ticket');
    expect(await handle(event('$connect', { ticket: 'ticket' }))).toEqual({ statusCode: 200, headers: {} });
    expect(arrived).toMatchObject([{ connectedAt: 7 }]);
    expect(await handle(event('$default'))).toEqual({
      statusCode: 200,
      body: JSON.stringify({ type: 'connected', connectionId: 'c=' }),
    });
    expect(await handle(event('$disconnect'))).toEqual({ statusCode: 200 });
    expect(await known()).toBeUndefined();
    expect(await handle(event('$connect'))).toMatchObject({
      statusCode: 401,
      headers: { 'content-type': 'application/problem+json', 'x-request-id': 'request-1' },
      body: expect.stringContaining('unauthorized'),
    });
  });
});
