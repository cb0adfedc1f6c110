/** Waiting by push, from the outside: tickets, parked waits of the SDK, and connections that break. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { Holdfast } from '../../src/client/index.ts';
import { eventually } from '../support/eventually.ts';
import { lockAt, newLeaseId, patient, startService, type TestService } from '../support/service.ts';

let service: TestService;
const clients: Holdfast[] = [];
const sockets: WebSocket[] = [];
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  for (const socket of sockets) socket.terminate();
  await service.stop();
});

interface Counted {
  readonly locks: Holdfast;
  /** Requests that were sent, by their last word. */
  readonly sent: string[];
  open: number;
}

function clientAt(url: string, more: object = {}): Counted {
  const sent: string[] = [];
  const counted = { sent, open: 0 };
  const locks = new Holdfast({
    url,
    namespace: 'test',
    patience: patient,
    fetch: async (input, init) => {
      sent.push(new URL(String(input)).pathname.split('/').at(-1) ?? '');
      counted.open += 1;
      try {
        return await fetch(input, init);
      } finally {
        counted.open -= 1;
      }
    },
    ...more,
  });
  clients.push(locks);
  return Object.assign(counted, { locks });
}

/** The first message may come with the very bytes that open the connection, so it is listened for from the beginning. */
async function dial(path: string): Promise<{ socket: WebSocket; first: Record<string, string> }> {
  const socket = new WebSocket(`${service.url.replace('http', 'ws')}${path}`);
  socket.on('error', () => undefined);
  sockets.push(socket);
  const [text] = await once(socket, 'message');
  return { socket, first: JSON.parse(String(text)) };
}

const statusOf = async (url: string): Promise<number | undefined> => {
  const socket = new WebSocket(url);
  socket.on('error', () => undefined);
  sockets.push(socket);
  const [, response] = await once(socket, 'unexpected-response');
  return response.statusCode;
};

async function connectionOf(namespace = 'test'): Promise<{ socket: WebSocket; connectionId: string }> {
  const { body } = await service.call('POST', `/v1/${namespace}/tickets`, {});
  const { socket, first } = await dial(`/v1/watch?ticket=${body.ticket}`);
  return { socket, connectionId: first.connectionId as string };
}

const queueDepthOf = async (name: string): Promise<number> =>
  (await lockAt(service.call, name).inspect()).body.queueDepth;

describe.concurrent('a ticket', () => {
  it('opens one connection, once, which gets its id without asking', async () => {
    const { status, body } = await service.call('POST', '/v1/test/tickets', {});
    expect([status, body]).toMatchObject([
      201,
      { expiresInMs: 60_000, url: expect.stringMatching(/^ws:.*\/v1\/watch$/) },
    ]);
    const { first } = await dial(`/v1/watch?ticket=${body.ticket}`);
    expect(first).toEqual({
      type: 'connected',
      connectionId: expect.stringMatching(/.+/),
    });
    expect(await statusOf(`${body.url}?ticket=${body.ticket}`)).toBe(403);
  });

  it('is refused if it was made up', async () => {
    expect(await statusOf(`${service.url.replace('http', 'ws')}/v1/watch?ticket=made-up`)).toBe(403);
  });

  it('replaces the token if one is required, and is not given without it', async () => {
    const guarded = await startService({ token: 'right' });
    try {
      const watch = `${guarded.url.replace('http', 'ws')}/v1/watch`;
      expect((await guarded.call('POST', '/v1/test/tickets', {})).status).toBe(401);
      expect(await statusOf(`${watch}?namespace=test&prefix=`)).toBe(401);
      const headers = { authorization: 'Bearer right' };
      const { body } = await guarded.call('POST', '/v1/test/tickets', {}, { headers });
      const socket = new WebSocket(`${watch}?ticket=${body.ticket}&prefix=`);
      sockets.push(socket);
      await once(socket, 'open');
    } finally {
      await guarded.stop();
    }
  });

  it('is not given to the page of another site', async () => {
    const headers = { origin: 'https://evil.example' };
    expect((await service.call('POST', '/v1/test/tickets', {}, { headers })).status).toBe(403);
  });

  it('lets its connection watch its own namespace', async () => {
    const { body } = await service.call('POST', '/v1/mine/tickets', {});
    const { socket } = await dial(`/v1/watch?ticket=${body.ticket}&prefix=`);
    const seen: string[] = [];
    socket.on('message', (text) => seen.push(JSON.parse(String(text)).lock));
    await lockAt(service.call, 'elsewhere', 'other').acquire();
    await lockAt(service.call, 'here', 'mine').acquire();
    await eventually(() => expect(seen).toEqual(['here']));
  });
});

describe.concurrent('a wait on a connection', () => {
  it('is refused if the connection belongs to another namespace or does not exist', async () => {
    const { connectionId } = await connectionOf('other');
    const lock = lockAt(service.call, 'foreign');
    await lock.acquire();
    for (const id of [connectionId, 'made-up=']) {
      const notify = { type: 'websocket', connectionId: id };
      expect(await lock.acquire({ waitMs: 60_000, notify })).toMatchObject({
        status: 403,
        body: { code: 'forbidden' },
      });
    }
    expect(await queueDepthOf('foreign')).toBe(0);
  });

  it('gets a message about its grant, and about its end', async () => {
    const { socket, connectionId } = await connectionOf();
    const lock = lockAt(service.call, 'told');
    const { body: held } = await lock.acquire();
    const notify = { type: 'websocket', connectionId };
    const [first, second] = [newLeaseId(), newLeaseId()];
    await lock.acquire({ leaseId: first, waitMs: 60_000, notify });
    await lock.acquire({ leaseId: second, waitMs: 60_000, notify });
    const messages: object[] = [];
    socket.on('message', (text) => messages.push(JSON.parse(String(text))));
    await lock.release(second);
    await eventually(() =>
      expect(messages).toContainEqual({ type: 'wait-ended', lock: 'told', leaseId: second, reason: 'cancelled' }),
    );
    await lock.release(held.leaseId);
    await eventually(() =>
      expect(messages).toContainEqual(expect.objectContaining({ type: 'granted', leaseId: first })),
    );
  });

  it('has left the queue five seconds after its connection ended, and is not granted', async () => {
    const { socket, connectionId } = await connectionOf();
    const lock = lockAt(service.call, 'gone');
    const { body: held } = await lock.acquire();
    const dead = newLeaseId();
    await lock.acquire({ leaseId: dead, waitMs: 60_000, notify: { type: 'websocket', connectionId } });
    expect(await queueDepthOf('gone')).toBe(1);
    socket.terminate();
    await eventually(async () => expect(await queueDepthOf('gone')).toBe(0));
    await lock.release(held.leaseId);
    expect((await lock.inspect()).body).toMatchObject({ state: 'free' });
  });

  it('keeps its place if it comes back on another connection', async () => {
    const one = await connectionOf();
    const lock = lockAt(service.call, 'back');
    const { body: held } = await lock.acquire();
    const leaseId = newLeaseId();
    const parkOn = (connectionId: string) =>
      lock.acquire({ leaseId, waitMs: 60_000, notify: { type: 'websocket', connectionId } });
    await parkOn(one.connectionId);
    const other = await connectionOf();
    const told = once(other.socket, 'message');
    expect((await parkOn(other.connectionId)).body).toMatchObject({ status: 'waiting', position: 1 });
    // The end of the first connection arrives after the wait has moved. It must not make the waiter absent.
    one.socket.terminate();
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    expect(await queueDepthOf('back')).toBe(1);
    await lock.release(held.leaseId);
    expect(JSON.parse(String((await told)[0]))).toMatchObject({ type: 'granted', leaseId });
  });
});

describe.concurrent('the SDK', () => {
  it('waits parked after two seconds, on one socket without an open request, and gets its grant at once', async () => {
    const holder = clientAt(service.url);
    const waiter = clientAt(service.url);
    const names = ['push:1', 'push:2', 'push:3'];
    const held = await Promise.all(names.map((name) => holder.locks.acquire(name)));
    const places: number[] = [];
    const onWaiting = ({ position }: { position: number }) => places.push(position);
    const waiting = names.map((name) => waiter.locks.acquire(name, { waitMs: 60_000, onWaiting }));
    await eventually(() => expect(places).toHaveLength(6));
    expect(waiter.open).toBe(0);
    expect(waiter.sent.filter((word) => word === 'tickets')).toHaveLength(1);
    const before = waiter.sent.length;
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(waiter.sent.length).toBe(before);
    for (const lock of held) await lock.release();
    const taken = await Promise.all(waiting);
    expect(taken.map(({ fence }, index) => fence > (held[index]?.fence ?? 0))).toEqual([true, true, true]);
    // Told, and not found by a look: nothing but the renewals was sent.
    expect(waiter.sent.slice(before)).toEqual(['renew', 'renew', 'renew']);
  });

  it('throws WaitTimeoutError when the wait is over', async () => {
    const holder = clientAt(service.url);
    await holder.locks.acquire('push:late');
    const waiting = clientAt(service.url).locks.acquire('push:late', { waitMs: 3_500 });
    await expect(waiting).rejects.toMatchObject({ code: 'wait-timeout' });
  });

  it('gives up its place when its signal fires', async () => {
    const holder = clientAt(service.url);
    await holder.locks.acquire('push:left');
    const leave = new AbortController();
    const places: number[] = [];
    const waiting = clientAt(service.url).locks.acquire('push:left', {
      waitMs: 60_000,
      signal: leave.signal,
      // First by the poll, then parked.
      onWaiting: ({ position }) => places.push(position),
    });
    waiting.catch(() => undefined);
    await eventually(() => expect(places).toHaveLength(2));
    leave.abort();
    await expect(waiting).rejects.toThrow();
    await eventually(async () => expect(await queueDepthOf('push:left')).toBe(0));
  });

  it('waits by long polling if no WebSocket can be opened, without an error', async () => {
    const holder = clientAt(service.url);
    const held = await holder.locks.acquire('push:none');
    class Broken {
      constructor() {
        throw new Error('Nothing opens here.');
      }
    }
    const waiter = clientAt(service.url, { webSocket: Broken });
    const waiting = waiter.locks.acquire('push:none', { waitMs: 60_000 });
    await eventually(() => expect(waiter.sent).toEqual(['acquire', 'tickets', 'acquire']));
    await held.release();
    await waiting;
    // Granted to the poll that was open.
    expect(waiter.sent).toHaveLength(3);
  });

  it('gets its grant through a proxy that delays everything', async () => {
    const held = await clientAt(service.url).locks.acquire('push:slow');
    const proxy = await startProxy(Number(new URL(service.url).port), 150);
    try {
      const waiter = clientAt(`http://127.0.0.1:${proxy.port}`);
      const places: number[] = [];
      const onWaiting = ({ position }: { position: number }) => places.push(position);
      const waiting = waiter.locks.acquire('push:slow', { waitMs: 60_000, onWaiting });
      // The end of the poll, and then parked. On a busy machine the socket may open only after a second poll.
      await eventually(() => {
        expect(places.length).toBeGreaterThanOrEqual(2);
        expect(waiter.open).toBe(0);
      });
      const before = waiter.sent.length;
      await held.release();
      const taken = await waiting;
      // Told, and not found by a look: nothing but the renewal was asked for.
      expect(waiter.sent.slice(before)).toEqual(['renew']);
      await taken.release();
      expect(new Set(places)).toEqual(new Set([1]));
    } finally {
      proxy.close();
    }
  });

  it('goes on in its place through a proxy that cuts every connection', async () => {
    const holder = clientAt(service.url);
    const held = await holder.locks.acquire('push:cut');
    const proxy = await startProxy(Number(new URL(service.url).port));
    try {
      const waiter = clientAt(`http://127.0.0.1:${proxy.port}`);
      const places: number[] = [];
      const waiting = waiter.locks.acquire('push:cut', {
        waitMs: 60_000,
        onWaiting: ({ position }) => places.push(position),
      });
      await eventually(async () => expect(await queueDepthOf('push:cut')).toBe(1));
      const behind = clientAt(service.url).locks.acquire('push:cut', { waitMs: 60_000 });
      await eventually(() => expect(places.length).toBeGreaterThanOrEqual(2));
      for (let cut = 1; cut <= 3; cut++) {
        proxy.cut();
        await eventually(() => expect(places.length).toBeGreaterThanOrEqual(2 + cut));
      }
      expect(new Set(places)).toEqual(new Set([1]));
      await held.release();
      const taken = await waiting;
      await taken.release();
      await (await behind).release();
    } finally {
      proxy.close();
    }
  });
});

async function startProxy(target: number, delayMs = 0): Promise<{ port: number; cut: () => void; close: () => void }> {
  const open = new Set<Socket>();
  const server: Server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => {
        open.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    const pass = (from: Socket, to: Socket) =>
      from.on('data', (chunk) => setTimeout(() => to.writable && to.write(chunk), delayMs));
    pass(near, far);
    pass(far, near);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    port: (server.address() as { port: number }).port,
    cut,
    close: () => {
      cut();
      server.close();
    },
  };
}
