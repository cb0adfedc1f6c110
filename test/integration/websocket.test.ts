import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { ConnectionTable, type WebsocketLimits } from '../../src/local/connections.ts';
import { type Gateway, type GatewayOptions, startGateway } from '../../src/local/gateway.ts';
import type { Opening, WebsocketHandler } from '../../src/websocket/handler.ts';
import { eventually } from '../support/eventually.ts';

const logged: { message: string; cause: unknown }[] = [];
const logger = { error: (message: string, cause: unknown) => void logged.push({ message, cause }) };
const started: Gateway[] = [];
const clients: WebSocket[] = [];

/** A recorded call of the handler. */
interface Called {
  readonly what: 'connect' | 'message' | 'disconnect';
  readonly connectionId: string;
  readonly opening?: Opening;
}

interface World {
  readonly gateway: Gateway;
  readonly connections: ConnectionTable;
  readonly called: Called[];
  /** Emits an event with the kind of each call when it begins. */
  readonly calls: EventEmitter;
}

const welcome = { status: 200, headers: {}, body: undefined };

async function start(
  answers: Partial<WebsocketHandler> = {},
  limits: Partial<WebsocketLimits> = {},
  more: Partial<GatewayOptions> = {},
): Promise<World> {
  const connections = new ConnectionTable(limits);
  const called: Called[] = [];
  const calls = new EventEmitter();
  const note = (call: Called): void => {
    called.push(call);
    calls.emit(call.what, call);
  };
  const { connect = async () => welcome, message = async () => 'fine', disconnect = async () => {} } = answers;
  const handler: WebsocketHandler = {
    connect: (opening) => {
      note({ what: 'connect', connectionId: opening.connectionId, opening });
      return connect(opening);
    },
    message: (connectionId) => {
      note({ what: 'message', connectionId });
      return message(connectionId);
    },
    disconnect: (connectionId) => {
      note({ what: 'disconnect', connectionId });
      return disconnect(connectionId);
    },
  };
  const gateway = await startGateway({
    host: '127.0.0.1',
    port: 0,
    handler: async () => ({ status: 404, headers: {}, body: 'plain' }),
    logger,
    websocket: { handler, connections },
    ...more,
  });
  started.push(gateway);
  return { gateway, connections, called, calls };
}

function dial(world: World, path = '/v1/watch', headers: Record<string, string> = {}): WebSocket {
  const client = new WebSocket(`${world.gateway.url.replace('http', 'ws')}${path}`, { headers });
  client.on('error', () => undefined);
  clients.push(client);
  return client;
}

async function join(world: World, path?: string): Promise<{ client: WebSocket; connectionId: string }> {
  const connected = once(world.calls, 'connect') as Promise<[Called]>;
  const client = dial(world, path);
  const [[{ connectionId }]] = await Promise.all([connected, once(client, 'open')]);
  return { client, connectionId };
}

/** The status and body with which an upgrade was refused. */
async function refusal(client: WebSocket): Promise<{ status: number | undefined; text: string }> {
  const [, response] = await once(client, 'unexpected-response');
  let text = '';
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode, text };
}

const callsOf = (world: World) => world.called.map(({ what }) => what);

const nextText = async (client: WebSocket): Promise<string> => String((await once(client, 'message'))[0]);

afterEach(async () => {
  for (const client of clients.splice(0)) client.terminate();
  await Promise.all(started.splice(0).map((gateway) => gateway.close()));
  logged.length = 0;
});

describe('connect', () => {
  it('gives the handler the caller and the query', async () => {
    const world = await start();
    const { connectionId } = await join(world, '/v1/watch?namespace=a&lock=c%20d');
    expect(connectionId).toMatch(/^[A-Za-z0-9_-]{15}=$/);
    expect(world.called).toMatchObject([
      {
        what: 'connect',
        opening: {
          connectionId,
          query: { namespace: 'a', lock: 'c d' },
          connectedAt: expect.any(Number),
          requestId: expect.any(String),
        },
      },
    ]);
  });

  it('refuses the upgrade with the handler’s own status and body', async () => {
    const headers = { 'content-type': 'application/problem+json' };
    const world = await start({ connect: async () => ({ status: 400, headers, body: '{"code":"invalid-request"}' }) });
    expect(await refusal(dial(world))).toEqual({ status: 400, text: '{"code":"invalid-request"}' });
    expect([world.connections.size, world.called.length]).toEqual([0, 1]);
  });

  it.each<[string, WebsocketHandler['connect'], number]>([
    ['throws', () => Promise.reject(new Error('broken')), 500],
    [
      'returns a header that HTTP forbids',
      async () => ({ ...welcome, status: 403, headers: { 'x-a': 'b\r\nc' } }),
      500,
    ],
    ['never answers', () => new Promise(() => undefined), 504],
  ])('refuses the upgrade when the handler %s', async (_title, connect, status) => {
    const world = await start({ connect }, { answerMs: 20 }, { limits: { closeGraceMs: 20 } });
    expect((await refusal(dial(world))).status).toBe(status);
  });

  it('requires the token if one is set', async () => {
    const world = await start({}, {}, { token: 'right' });
    expect((await refusal(dial(world))).status).toBe(401);
    expect(world.called).toEqual([]);
    await once(dial(world, '/v1/watch', { authorization: 'Bearer right' }), 'open');
  });

  it('refuses the page of another site, because no same-origin policy stops it from opening a WebSocket', async () => {
    const world = await start();
    expect((await refusal(dial(world, '/v1/watch', { origin: 'https://evil.example' }))).status).toBe(403);
    await once(dial(world, '/v1/watch', { origin: 'http://localhost:3000' }), 'open');
  });

  it('leaves other paths to the handler of ordinary requests', async () => {
    const world = await start();
    expect(await refusal(dial(world, '/v1/other'))).toEqual({ status: 404, text: 'plain' });
    expect(world.called).toEqual([]);
  });

  it('takes the name of the protocol in any case', async () => {
    const world = await start();
    const socket = connect(world.gateway.port, '127.0.0.1');
    const upgrade = 'Connection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n';
    socket.write(
      `GET /v1/watch HTTP/1.1\r\nHost: localhost\r\n${upgrade}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    );
    const [answer] = await once(socket, 'data');
    expect(String(answer)).toMatch(/^HTTP\/1.1 101 /);
    socket.destroy();
  });

  it('is followed by disconnect if the handshake was wrong', async () => {
    const world = await start();
    const disconnected = once(world.calls, 'disconnect');
    const socket = connect(world.gateway.port, '127.0.0.1');
    socket.write('GET /v1/watch HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
    const [chunk] = await once(socket, 'data');
    expect(String(chunk)).toMatch(/^HTTP\/1\.1 400 /);
    await disconnected;
    socket.destroy();
  });
});

describe('message', () => {
  it('is answered, each in its turn', async () => {
    let number = 0;
    const { client } = await join(await start({ message: async () => String(++number) }));
    const received: string[] = [];
    client.on('message', (text) => received.push(String(text)));
    for (let index = 0; index < 100; index += 1) client.send(`grüße ${index}`);
    client.send(Buffer.from([0xff, 0]));
    while (received.length < 101) await once(client, 'message');
    expect(received).toEqual(Array.from({ length: 101 }, (_, index) => String(index + 1)));
  });

  it('is answered by an error when the handler fails, and the connection goes on', async () => {
    let isBroken = true;
    const world = await start({
      message: async () => {
        if (isBroken) throw new Error('secret');
        return 'fine';
      },
    });
    const { client, connectionId } = await join(world);
    client.send('x');
    expect(JSON.parse(await nextText(client))).toEqual({
      message: 'Internal server error',
      connectionId,
      requestId: expect.any(String),
    });
    isBroken = false;
    client.send('x');
    expect(await nextText(client)).toBe('fine');
  });

  it('is not followed by another one while the handler works', async () => {
    let answer: (text: string) => void = () => expect.unreachable();
    const world = await start({
      message: () =>
        new Promise((resolve) => {
          answer = resolve;
        }),
    });
    const { client } = await join(world);
    const [connection] = world.connections;
    client.send('x');
    await once(world.calls, 'message');
    expect(connection?.socket.isPaused).toBe(true);
    answer('y');
    expect(await nextText(client)).toBe('y');
    expect(connection?.socket.isPaused).toBe(false);
  });

  it('may be as large as API Gateway allows, in frames of the largest size', async () => {
    const { client } = await join(await start());
    for (const fin of [false, false, false, true]) client.send('x'.repeat(32_768), { fin });
    expect(await nextText(client)).toBe('fine');
  });

  it.each([
    ['a frame', (client: WebSocket) => client.send('x'.repeat(32_769))],
    ['a frame beyond any message', (client: WebSocket) => client.send('x'.repeat(1_000_000))],
    [
      'a message',
      (client: WebSocket) => {
        for (let index = 0; index < 5; index += 1) client.send('x'.repeat(32_768), { fin: index === 4 });
      },
    ],
  ])('closes with 1009 after %s that is too large', async (_title, send) => {
    const world = await start();
    const { client } = await join(world);
    const disconnected = once(world.calls, 'disconnect');
    send(client);
    expect((await once(client, 'close'))[0]).toBe(1009);
    await disconnected;
    expect(callsOf(world)).toEqual(['connect', 'disconnect']);
  });
});

describe('disconnect', () => {
  it.each([
    ['says goodbye', (client: WebSocket) => client.close(4000, 'bye')],
    ['breaks off', (client: WebSocket) => client.terminate()],
  ])('comes once when the client %s', async (_title, leave) => {
    const world = await start();
    const { client, connectionId } = await join(world);
    const disconnected = once(world.calls, 'disconnect') as Promise<[Called]>;
    leave(client);
    const [call] = await disconnected;
    expect(call.connectionId).toBe(connectionId);
    expect(await world.connections.post(connectionId, 'x')).toBe('gone');
    await world.gateway.close();
    expect(callsOf(world)).toEqual(['connect', 'disconnect']);
  });

  it('comes after the last message was answered, although the connection is gone before', async () => {
    const answer = Promise.withResolvers<string>();
    const world = await start({ message: () => answer.promise }, { closingMs: 10 });
    const { client, connectionId } = await join(world);
    const [messaged, ended] = [once(world.calls, 'message'), once(world.calls, 'disconnect')];
    client.send('work');
    await messaged;
    world.connections.close(connectionId);
    await eventually(() => expect(world.connections.size).toBe(0));
    expect(callsOf(world)).toEqual(['connect', 'message']);
    answer.resolve('late');
    await ended;
  });

  it('comes for a client that vanished without closing', async () => {
    const world = await start({}, { heartbeatMs: 20 });
    const disconnected = once(world.calls, 'disconnect') as Promise<[Called]>;
    // A raw socket does the handshake and then never answers a ping, like a laptop with a closed lid.
    const socket = connect(world.gateway.port, '127.0.0.1');
    socket.write('GET /v1/watch HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n');
    socket.write('sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n');
    socket.on('error', () => undefined);
    await disconnected;
    socket.destroy();
  });

  it('does not come for a client that answers its pings', async () => {
    // Long enough that even a busy machine delivers a pong between two pings.
    const world = await start({}, { heartbeatMs: 1_500 });
    const { client, connectionId } = await join(world);
    for (let pings = 0; pings < 3; pings += 1) await once(client, 'ping');
    expect(await world.connections.post(connectionId, 'still here')).toBe('sent');
    expect(callsOf(world)).toEqual(['connect']);
  });

  it.each([
    ['was silent for too long', { idleMs: 30 }],
    ['lived for too long', { lifeMs: 30 }],
  ])('comes when the connection %s', async (_title, limits) => {
    const world = await start({}, { heartbeatMs: 10, ...limits });
    const { client } = await join(world);
    expect((await once(client, 'close'))[0]).toBe(1001);
    if (!callsOf(world).includes('disconnect')) await once(world.calls, 'disconnect');
  });

  it('comes for every connection, and is waited for, when the gateway closes', async () => {
    let finished = 0;
    const world = await start({
      disconnect: async () => {
        await new Promise((resolve) => setImmediate(resolve));
        finished += 1;
      },
    });
    const joined = [await join(world), await join(world), await join(world)];
    const codes = Promise.all(joined.map(async ({ client }) => (await once(client, 'close'))[0]));
    await world.gateway.close();
    expect([await codes, finished]).toEqual([[1001, 1001, 1001], 3]);
  });
});

describe('close', () => {
  it('ends the connection of a peer that does not close it, and of one that is still connecting', async () => {
    const world = await start(
      { connect: ({ query }) => (query.lock === 'slow' ? new Promise(() => undefined) : Promise.resolve(welcome)) },
      { closingMs: 3_600_000 },
      { limits: { closeGraceMs: 30 } },
    );
    const { client } = await join(world);
    client.pause();
    const connecting = once(world.calls, 'connect');
    dial(world, '/v1/watch?lock=slow');
    await connecting;
    await world.gateway.close();
    expect(callsOf(world)).toEqual(['connect', 'connect', 'disconnect']);
  });
});

describe('connections', () => {
  it('post to one client and to no other', async () => {
    const world = await start();
    const one = await join(world);
    const other = await join(world);
    other.client.on('message', () => expect.unreachable());
    expect(await world.connections.post(one.connectionId, '{"type":"granted"}')).toBe('sent');
    expect(await nextText(one.client)).toBe('{"type":"granted"}');
  });

  it('say that a connection that never existed is gone', async () => {
    const world = await start();
    expect(await world.connections.post('AAAAAAAAAAAAAAA=', 'x')).toBe('gone');
    world.connections.close('AAAAAAAAAAAAAAA=');
  });

  it('can’t post before a connection is open, as when deployed', async () => {
    let world: World;
    let posted: string | undefined;
    world = await start({
      connect: async ({ connectionId }) => {
        posted = await world.connections.post(connectionId, 'too early');
        return welcome;
      },
    });
    await join(world);
    expect(posted).toBe('gone');
  });

  it('refuse a message that API Gateway would not deliver', async () => {
    const world = await start();
    const { connectionId } = await join(world);
    await expect(world.connections.post(connectionId, 'x'.repeat(131_073))).rejects.toThrow(RangeError);
  });

  it('close one connection', async () => {
    const world = await start();
    const { client, connectionId } = await join(world);
    world.connections.close(connectionId);
    expect((await once(client, 'close'))[0]).toBe(1000);
  });

  it('drop a client that does not read, before it fills the memory', async () => {
    const world = await start();
    const { client, connectionId } = await join(world);
    const disconnected = once(world.calls, 'disconnect') as Promise<[Called]>;
    client.pause();
    const text = 'x'.repeat(100_000);
    let sentBytes = 0;
    while ((await world.connections.post(connectionId, text)) === 'sent') {
      sentBytes += text.length;
      // The kernel buffers some megabytes on both sides of a loopback socket before the service has to hold data back.
      expect(sentBytes).toBeLessThan(64 * 1024 * 1024);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await disconnected)[0].connectionId).toBe(connectionId);
    expect(await world.connections.post(connectionId, 'x')).toBe('gone');
  });
});
