import { once } from 'node:events';
import { Agent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Answer, Handler } from '../../src/http/handler.ts';
import type { Request } from '../../src/http/request.ts';
import { type Gateway, type GatewayOptions, startGateway } from '../../src/local/gateway.ts';

const textAnswer = (body: string): Answer => ({ status: 200, headers: { 'content-type': 'text/plain' }, body });

const ok: Handler = async () => textAnswer('ok');

const logged: { message: string; cause: unknown }[] = [];
const logger = { error: (message: string, cause: unknown) => void logged.push({ message, cause }) };
const started: Gateway[] = [];

async function start(handler: Handler, more: Partial<GatewayOptions> = {}): Promise<Gateway> {
  const gateway = await startGateway({ host: '127.0.0.1', port: 0, handler, logger, ...more });
  started.push(gateway);
  return gateway;
}

afterEach(async () => {
  await Promise.all(started.splice(0).map((gateway) => gateway.close()));
  logged.length = 0;
});

/** A handler that holds each call until the test lets it continue. */
function holdCalls() {
  const calls: { request: Request; gone: AbortSignal; answer: (body: string) => void }[] = [];
  const arrivals: ((call: (typeof calls)[number]) => void)[] = [];
  const handler: Handler = (request) =>
    new Promise((resolve) => {
      const call = {
        request,
        get gone() {
          return request.signal as AbortSignal;
        },
        answer: (body: string) => resolve(textAnswer(body)),
      };
      const arrival = arrivals.shift();
      if (arrival === undefined) calls.push(call);
      else arrival(call);
    });
  const next = (): Promise<(typeof calls)[number]> => {
    const call = calls.shift();
    return call === undefined ? new Promise((resolve) => arrivals.push(resolve)) : Promise.resolve(call);
  };
  return { handler, next };
}

const aborted = (signal: AbortSignal): Promise<unknown> => (signal.aborted ? Promise.resolve() : once(signal, 'abort'));

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

async function readAll(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString();
  });
  socket.on('error', () => undefined);
  await once(socket, 'close');
  return text;
}

async function ask(
  gateway: Gateway,
  options: RequestOptions,
  body = '',
): Promise<{ response: IncomingMessage; text: string }> {
  const request = httpRequest({ host: '127.0.0.1', port: gateway.port, agent: false, ...options });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response) text += chunk;
  return { response, text };
}

const get = (path: string, ...headers: string[]): string =>
  [`GET ${path} HTTP/1.1`, 'host: localhost', ...headers, '', ''].join('\r\n');

describe('a request', () => {
  it('reaches the handler in plain form and comes back as its answer', async () => {
    const requests: Request[] = [];
    const gateway = await start(async (request) => {
      requests.push(request);
      return { status: 201, headers: { 'content-type': 'application/json', etag: '"1"' }, body: '{"a":"ü"}' };
    });
    const response = await fetch(`${gateway.url}/v1/orders/locks/%C3%BC/acquire?a=1&a=2`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"owner":"🔒"}',
    });
    expect([response.status, response.headers.get('etag'), await response.json()]).toEqual([201, '"1"', { a: 'ü' }]);
    expect(requests).toMatchObject([
      {
        id: expect.stringMatching(/^[A-Za-z0-9_-]{15}=$/),
        operation: 'acquireLock',
        method: 'POST',
        path: '/v1/orders/locks/ü/acquire',
        parameters: { ns: 'orders', name: 'ü' },
        query: { a: '1,2' },
        headers: { 'content-type': 'application/json' },
        body: '{"owner":"🔒"}',
        caller: 'anonymous',
      },
    ]);
  });

  it('joins a body that arrives in pieces', async () => {
    const gateway = await start(async ({ body = '' }) => textAnswer(body));
    const socket = await open(gateway.port);
    const answer = readAll(socket);
    socket.write('POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\nconnection: close\r\n');
    socket.write('transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n');
    await new Promise((resolve) => setImmediate(resolve));
    socket.write('3\r\ndef\r\n0\r\n\r\n');
    expect(await answer).toMatch(/\r\n\r\nabcdef$/);
  });

  it.each(['HEAD', 'OPTIONS', 'DELETE', 'PATCH'])('reaches the handler with the method %s', async (method) => {
    const gateway = await start(async ({ method }) => textAnswer(method));
    const { response, text } = await ask(gateway, { method, path: '/v1/health' });
    expect(response.headers['content-length']).toBe(String(method.length));
    expect(text).toBe(method === 'HEAD' ? '' : method);
  });

  it('is an ordinary request although it offers another protocol', async () => {
    const gateway = await start(ok);
    const socket = await open(gateway.port);
    const answer = readAll(socket);
    socket.write(get('/v1/health', 'connection: Upgrade, HTTP2-Settings', 'upgrade: h2c', 'http2-settings: AAMAAABk'));
    await once(socket, 'data');
    socket.write(get('/v1/health', 'connection: close'));
    expect((await answer).match(/HTTP\/1\.1 200 OK/g)).toHaveLength(2);
  });
});

describe('a handler that fails', () => {
  it.each<[string, Handler]>([
    ['throws', () => Promise.reject(new Error('secret'))],
    [
      'throws before it returns a promise',
      () => {
        throw new Error('secret');
      },
    ],
    ['returns a header that HTTP forbids', async () => ({ ...textAnswer(''), headers: { 'x-a': 'b\nc' } })],
    ['returns a header name that HTTP forbids', async () => ({ ...textAnswer(''), headers: { 'x a': 'b' } })],
  ])('that %s gets API Gateway’s own 500 and a line in the log', async (_title, handler) => {
    const gateway = await start(handler);
    const response = await fetch(`${gateway.url}/v1/health`);
    expect(response.status).toBe(500);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('x-request-id')).toBeTruthy();
    expect(await response.text()).toBe('{"message":"Internal Server Error"}');
    expect(logged).toEqual([{ message: 'health failed.', cause: expect.any(Error) }]);
  });

  it("gets 504 when its time is up, and the handler's signal aborts", async () => {
    const { handler, next } = holdCalls();
    const gateway = await start(handler, { limits: { answerMs: 20 } });
    const [response, call] = await Promise.all([fetch(gateway.url), next()]);
    expect(response.status).toBe(504);
    expect(await response.text()).toBe('{"message":"Endpoint request timed out"}');
    await aborted(call.gone);
    call.answer('late');
    expect((await Promise.all([fetch(gateway.url), next().then((other) => other.answer('again'))]))[0].status).toBe(
      200,
    );
  });
});

describe('a body beyond the limit', () => {
  const limits = { bodyBytesMax: 1_000 };

  it('is taken up to the last byte that is allowed', async () => {
    const gateway = await start(async ({ body = '' }) => textAnswer(String(body.length)), { limits });
    const response = await fetch(gateway.url, { method: 'POST', body: 'x'.repeat(1_000) });
    expect(await response.text()).toBe('1000');
  });

  it('is refused by its announced length before a byte of it is read', async () => {
    const gateway = await start(() => expect.unreachable(), { limits });
    const socket = await open(gateway.port);
    socket.write('POST /v1/a/locks/b/acquire?x=1 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1001\r\n\r\n');
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    const [head, body] = chunk.toString().split('\r\n\r\n') as [string, string];
    expect(head).toMatch(/^HTTP\/1\.1 413 /);
    expect(JSON.parse(body)).toMatchObject({
      status: 413,
      code: 'too-large',
      instance: expect.stringMatching(/^urn:holdfast:request:/),
      message: 'Request Entity Too Large',
    });
  });

  it('is refused while it streams in, with the connection good for more', async () => {
    const gateway = await start(ok, { limits });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const refused = await ask(
      gateway,
      { agent, method: 'POST', headers: { 'transfer-encoding': 'chunked' } },
      'x'.repeat(100_000),
    );
    expect(refused.response.statusCode).toBe(413);
    expect((await ask(gateway, { agent })).text).toBe('ok');
    agent.destroy();
  });

  it('of 64 MB is answered to a common client', async () => {
    const gateway = await start(() => expect.unreachable());
    const response = await fetch(gateway.url, { method: 'POST', body: Buffer.alloc(64 * 1024 * 1024) });
    expect(response.status).toBe(413);
  });
});

describe('a malformed request', () => {
  it.each([
    ['no HTTP at all', 'GARBAGE\r\n\r\n', 400],
    ['a version that does not exist', 'GET / HTTP/9.9\r\n\r\n', 400],
    ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
    ['two lengths', 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n', 400],
    [
      'a length and chunks',
      'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
      400,
    ],
    [
      'a chunk size that is no number',
      'POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
      400,
    ],
    ['endless headers', get('/', `x-a: ${'y'.repeat(20_000)}`), 431],
    ['headers that stop half-way', 'GET / HTTP/1.1\r\nhost: loc', 408],
    ['a body that stops half-way', 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nab', 408],
  ])('is answered and cut off: %s', async (_title, text, status) => {
    // Only a request that never ends has to reach the limits.
    const limits = status === 408 ? { headersMs: 50, requestMs: 100, checkMs: 10 } : {};
    const gateway = await start(() => expect.unreachable(), { limits });
    const socket = await open(gateway.port);
    const answer = readAll(socket);
    socket.write(text);
    expect(await answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  it('has less time for its headers than for the whole', async () => {
    const gateway = await start(() => expect.unreachable(), {
      limits: { headersMs: 50, requestMs: 3_600_000, checkMs: 10 },
    });
    const socket = await open(gateway.port);
    const answer = readAll(socket);
    socket.write('GET / HTTP/1.1\r\nhost: loc');
    expect(await answer).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('is not answered while another request on its connection waits, because that request would take it for its own answer', async () => {
    const { handler, next } = holdCalls();
    const gateway = await start(handler);
    const socket = await open(gateway.port);
    const answer = readAll(socket);
    socket.write(get('/v1/health'));
    const call = await next();
    socket.write('GARBAGE\r\n\r\n');
    expect(await answer).toBe('');
    await aborted(call.gone);
    call.answer('late');
  });
});

describe('the signal of a request', () => {
  it('aborts when the connection breaks while the handler waits', async () => {
    const { handler, next } = holdCalls();
    const gateway = await start(handler);
    const socket = await open(gateway.port);
    socket.write(get('/v1/health'));
    const call = await next();
    expect(call.gone.aborted).toBe(false);
    const gone = aborted(call.gone);
    socket.destroy();
    await gone;
    call.answer('nobody reads this');
  });

  it('is already aborted for a handler that asks only afterwards', async () => {
    const { handler, next } = holdCalls();
    const gateway = await start(handler);
    const first = await open(gateway.port);
    const second = await open(gateway.port);
    first.write(get('/v1/health'));
    const call = await next();
    second.write(get('/v1/health'));
    const witness = await next();
    const gone = aborted(witness.gone);
    // The connections break in this order, so if the second is known to be gone, the first is too.
    first.destroy();
    await once(first, 'close');
    second.destroy();
    await gone;
    expect(call.gone.aborted).toBe(true);
    call.answer('');
    witness.answer('');
  });

  it('aborts for the request in flight alone on a connection that is kept alive', async () => {
    const { handler, next } = holdCalls();
    const gateway = await start(handler);
    const socket = await open(gateway.port);
    socket.write(get('/v1/health'));
    const first = await next();
    const { gone: firstGone } = first;
    first.answer('one');
    await once(socket, 'data');
    socket.write(get('/v1/health'));
    const second = await next();
    const gone = aborted(second.gone);
    socket.destroy();
    await gone;
    expect(firstGone.aborted).toBe(false);
    second.answer('two');
  });

  it('does not start a handler for a body that never came whole', async () => {
    const { handler, next } = holdCalls();
    const gateway = await start(handler);
    const broken = await open(gateway.port);
    broken.write('POST /v1/a/locks/broken/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nab');
    broken.destroy();
    await once(broken, 'close');
    const whole = fetch(`${gateway.url}/v1/health`);
    const call = await next();
    expect(call.request.operation).toBe('health');
    call.answer('');
    await whole;
  });
});

describe('access', () => {
  it.each([
    ['without one', undefined],
    ['with another one', 'Bearer wrong'],
    ['with another scheme', 'Basic right'],
    ['with a longer one', 'Bearer right-and-more'],
  ])('refuses a request %s if a token is set', async (_title, authorization) => {
    const gateway = await start(() => expect.unreachable(), { token: 'right' });
    const response = await fetch(`${gateway.url}/v1/health?a=1`, {
      headers: authorization === undefined ? {} : { authorization },
    });
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(await response.json()).toMatchObject({
      type: 'urn:holdfast:problem:unauthorized',
      title: 'Unauthorized',
      status: 401,
      detail: expect.any(String),
      instance: expect.stringMatching(/^urn:holdfast:request:/),
      code: 'unauthorized',
    });
  });

  it.each(['Bearer right', 'bearer right'])(
    'lets "%s" in, by whatever name the service is called',
    async (authorization) => {
      const gateway = await start(ok, { token: 'right' });
      const headers = { authorization, host: 'locks.example.com', origin: 'https://app.example.com' };
      expect((await ask(gateway, { headers })).text).toBe('ok');
    },
  );

  it.each(['localhost', 'LOCALHOST:4600', '127.0.0.1:80', '127.1.2.3', '[::1]:4600', 'holdfast.localhost'])(
    'answers to the loopback name %s',
    async (host) => {
      const gateway = await start(ok);
      expect((await ask(gateway, { headers: { host, origin: `http://${host}` } })).response.statusCode).toBe(200);
    },
  );

  it.each([
    [{ host: 'evil.example' }],
    [{ host: 'localhost.evil.example' }],
    [{ host: '127.0.0.1.evil.example' }],
    [{ host: 'evil.example@localhost' }],
    [{ host: 'localhost', origin: 'https://evil.example' }],
    [{ host: 'localhost', origin: 'http://localhost.evil.example' }],
    [{ host: 'localhost', origin: 'null' }],
  ])('refuses a page of another site: %o', async (headers) => {
    const gateway = await start(() => expect.unreachable());
    const { response, text } = await ask(gateway, { headers });
    expect(response.statusCode).toBe(403);
    expect(JSON.parse(text)).toMatchObject({ status: 403, code: 'forbidden' });
  });
});

describe('close', () => {
  it('lets the request in flight end, closes its connection and takes no more', async () => {
    const { handler, next } = holdCalls();
    const gateway = await start(handler);
    const agent = new Agent({ keepAlive: true });
    const asked = ask(gateway, { agent });
    const call = await next();
    const closed = gateway.close();
    await expect(fetch(gateway.url)).rejects.toThrow();
    call.answer('done');
    const { response, text } = await asked;
    expect([text, response.headers.connection]).toEqual(['done', 'close']);
    await closed;
    expect(gateway.close()).toBe(gateway.close());
  });

  it('does not wait for connections that are idle, used or never used', async () => {
    const gateway = await start(ok, { limits: { closeGraceMs: 3_600_000 } });
    const unused = await open(gateway.port);
    const used = await open(gateway.port);
    used.write(get('/'));
    await once(used, 'data');
    await gateway.close();
    unused.destroy();
  });

  it('cuts off a handler that outlasts the grace, and aborts its signal', async () => {
    const { handler, next } = holdCalls();
    const gateway = await start(handler, { limits: { closeGraceMs: 20 } });
    const asked = ask(gateway, {}).catch((error: NodeJS.ErrnoException) => error.code);
    const call = await next();
    let isSettled = false;
    const gone = aborted(call.gone).then(() => {
      isSettled = true;
      call.answer('');
    });
    await gateway.close();
    await gone;
    expect([await asked, isSettled]).toEqual(['ECONNRESET', true]);
  });

  it('answers whole or not at all under load, and ends', async () => {
    const gateway = await start(async ({ body = '' }) => textAnswer(body.repeat(50)));
    const agent = new Agent({ keepAlive: true, maxSockets: 16 });
    const headers = { 'content-type': 'text/plain' };
    let answered = 0;
    let isRefused = false;
    const clients = Array.from({ length: 16 }, async (_, client) => {
      while (!isRefused) {
        try {
          const { text } = await ask(gateway, { agent, method: 'POST', headers }, `client ${client};`);
          expect(text).toBe(`client ${client};`.repeat(50));
          answered += 1;
          if (answered === 200) void gateway.close();
        } catch (error) {
          expect((error as NodeJS.ErrnoException).code).toMatch(/^(ECONNREFUSED|ECONNRESET|EPIPE)$/);
          isRefused = true;
        }
      }
    });
    await Promise.all(clients);
    await gateway.close();
    expect(answered).toBeGreaterThanOrEqual(200);
    agent.destroy();
  });
});

describe('startGateway', () => {
  it('leaves the code of the error as it is if the port is taken', async () => {
    const { port } = await start(ok);
    await expect(start(ok, { port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  it('names a URL that can be connected to', async () => {
    const gateway = await start(ok, { host: '0.0.0.0' });
    expect(gateway.url).toBe(`http://127.0.0.1:${gateway.port}`);
    expect(await (await fetch(gateway.url)).text()).toBe('ok');
  });
});

describe('a mount', () => {
  it('answers its own requests, leaves others to the service, and is closed with the gateway', async () => {
    const gateway = await start(ok);
    let closes = 0;
    gateway.mount({
      handle: (request, response) => {
        if (request.url !== '/mounted') return false;
        response.end('mounted');
        return true;
      },
      close: () => {
        closes += 1;
      },
    });
    const textAt = async (path: string) => (await fetch(`${gateway.url}${path}`)).text();
    expect([await textAt('/mounted'), await textAt('/v1/health')]).toEqual(['mounted', 'ok']);
    await Promise.all([gateway.close(), gateway.close()]);
    expect(closes).toBe(1);
  });
});

describe('connections', () => {
  it('are dropped over the largest number', async () => {
    const { port } = await start(ok, { limits: { connectionsMax: 1 } });
    const first = await open(port);
    const second = connect(port, '127.0.0.1');
    second.on('error', () => undefined);
    await once(second, 'close');
    first.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    expect(await readAll(first)).toContain('200 OK');
  });
});
