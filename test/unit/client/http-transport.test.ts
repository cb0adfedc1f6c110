import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { HttpTransport, type HttpTransportOptions, type WebSocketClass } from '../../../src/client/http-transport.ts';
import { bearer, Holdfast, type WebSocketLike } from '../../../src/client/index.ts';
import type { Call } from '../../../src/client/transport.ts';

const answer = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(body === undefined ? null : JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  });

const clientOf = (respond: (url: URL, init: RequestInit) => Response | Promise<Response>, more: object = {}) => {
  const fetch = vi.fn((input: unknown, init?: RequestInit) =>
    Promise.resolve(respond(new URL(String(input)), init ?? {})),
  );
  const locks = new Holdfast({
    url: 'https://locks.example.com/prod/',
    namespace: 'payments',
    fetch: fetch as unknown as typeof globalThis.fetch,
    patience: { retryMs: 1_500 },
    ...more,
  });
  return { fetch, locks };
};

describe('HttpTransport', () => {
  it('sends path, query and JSON of the contract, and the headers of auth', async () => {
    const seen: { url: string; init: RequestInit }[] = [];
    const { locks } = clientOf(
      (url, init) => {
        seen.push({ url: url.href, init });
        return answer(200, { locks: [] });
      },
      { auth: bearer(() => Promise.resolve('secret')) },
    );
    for await (const _ of locks.list({ prefix: 'a+b', state: 'held' })) expect.unreachable();
    expect(seen[0]?.url).toBe('https://locks.example.com/prod/v1/payments/locks?prefix=a%2Bb&state=held');
    expect(seen[0]?.init).toMatchObject({
      method: 'GET',
      redirect: 'manual',
      headers: { authorization: 'Bearer secret' },
    });
  });

  it.each([
    [409, { code: 'lock-held', holders: [] }, 'lock-held'],
    [409, { code: 'deadlock', cycle: [{ sessionId: 's', owner: 'o', waitsFor: 'a' }] }, 'deadlock'],
    [403, { message: 'Forbidden' }, 'forbidden'],
    [413, undefined, 'too-large'],
    [429, { code: 'queue-full' }, 'queue-full'],
    [301, undefined, 'unexpected-answer'],
  ])('turns %i with %o into %s, without a retry', async (status, body, code) => {
    const { locks, fetch } = clientOf(() => answer(status, body, { 'x-request-id': 'r1' }));
    await expect(locks.acquire('a', { waitMs: 0 })).rejects.toMatchObject({ code, status, requestId: 'r1' });
    expect(fetch).toHaveBeenCalledTimes(1);
  });

  it('sends names without escaping, so the signature fits the raw and the decoded path', async () => {
    const seen: string[] = [];
    const { locks } = clientOf((url) => {
      seen.push(url.href);
      return answer(200, { valid: true });
    });
    await locks.check('wallet:42@eu=a+b~c', 7);
    expect(seen).toEqual(['https://locks.example.com/prod/v1/payments/locks/wallet:42@eu=a+b~c/check?fence=7']);
  });

  it.each([500, 502, 503, 504])('treats %i as an unavailable service, and tries again', async (status) => {
    let calls = 0;
    const { locks } = clientOf(() => {
      calls += 1;
      return calls === 1 ? answer(status, undefined) : answer(200, { status: 'ok' });
    });
    vi.spyOn(Math, 'random').mockReturnValue(0);
    await expect(locks.health()).resolves.toEqual({ status: 'ok' });
    vi.restoreAllMocks();
    expect(calls).toBe(2);
  });

  it('repeats an acquire with the same leaseId, and never shows it', async () => {
    const bodies: { leaseId: string }[] = [];
    const { locks } = clientOf((url, { body }) => {
      if (url.pathname.endsWith('/acquire')) bodies.push(JSON.parse(String(body)));
      throw new TypeError('fetch failed');
    });
    vi.spyOn(Math, 'random').mockReturnValue(0.01);
    const error = await locks.acquire('a', { waitMs: 0 }).catch((caught) => caught);
    vi.restoreAllMocks();
    expect(bodies.length).toBeGreaterThan(1);
    const [leaseId] = new Set(bodies.map((body) => body.leaseId));
    expect(new Set(bodies.map((body) => body.leaseId)).size).toBe(1);
    expect(leaseId).toMatch(/^[A-Za-z0-9_-]{16,128}$/);
    expect(error).toMatchObject({ code: 'unavailable', cause: { message: 'fetch failed' } });
    expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain(leaseId);
  });

  it.each([
    ['no try was', ['ECONNREFUSED'], 0],
    ['the first try may have been', ['ECONNRESET', 'ECONNREFUSED'], 1],
  ])('sends a release after a failed acquire only if a request may have arrived: %s', async (_, codes, releases) => {
    const paths: string[] = [];
    const { locks } = clientOf((url) => {
      const code = codes[Math.min(paths.length, codes.length - 1)] ?? '';
      paths.push(url.pathname);
      if (url.pathname.endsWith('/release')) return answer(200, { released: false, reason: 'already_released' });
      throw new TypeError('fetch failed', { cause: Object.assign(new Error(`connect ${code} 10.0.0.1:1`), { code }) });
    });
    const error = await locks.acquire('a', { waitMs: 0 }).catch((caught) => caught);
    await locks.close();
    expect(error).toMatchObject({ code: 'unavailable', unsent: releases === 0 });
    expect(error.message).toBe(
      "The service at https://locks.example.com/prod can't be reached: nothing listens there (ECONNREFUSED).",
    );
    expect(paths.filter((path) => path.endsWith('/release'))).toHaveLength(releases);
  });

  it('does not report a failure to authorize as an outage', async () => {
    const auth = () => Promise.reject(new Error('no keys'));
    const { locks, fetch } = clientOf(() => answer(200, {}), { auth });
    await expect(locks.health()).rejects.toMatchObject({ code: 'unauthorized', cause: { message: 'no keys' } });
    expect(fetch).not.toHaveBeenCalled();
  });

  it('ends its request when the caller gives up', async () => {
    const giveUp = new AbortController();
    const { locks } = clientOf(
      (_url, { signal }) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
          if (signal) giveUp.abort(new Error('no patience'));
          else reject(new Error('The request has no signal.'));
        }),
    );
    await expect(locks.inspect('a', { signal: giveUp.signal })).rejects.toThrow('no patience');
  });

  it.each([
    ['seconds of a proxy', { 'retry-after': '7' }, undefined, 7_000],
    ['milliseconds of the service', { 'retry-after': '7' }, { code: 'throttled', retryAfterMs: 120 }, 120],
    ['a date, which is not used', { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }, undefined, 0],
  ])('reads when to try again: %s', async (_, headers, body, retryAfterMs) => {
    const { locks } = clientOf(() => answer(429, body, headers), { deadlineMs: 1 });
    await expect(locks.health()).rejects.toMatchObject({ code: 'throttled', retryAfterMs });
  });

  it('treats the timeout of a proxy, 408, as an unavailable service', async () => {
    const { locks } = clientOf(() => answer(408, undefined), { deadlineMs: 1 });
    await expect(locks.health()).rejects.toMatchObject({ code: 'unavailable', status: 408 });
  });

  it('goes on watching after its connection broke', async () => {
    const sockets: FakeSocket[] = [];
    class FakeSocket extends EventTarget {
      readonly url: string;
      readonly options: unknown;
      constructor(url: string, options?: unknown) {
        super();
        this.url = url;
        this.options = options;
        sockets.push(this);
        queueMicrotask(() => this.say({ type: 'connected', connectionId: `c${sockets.length}` }));
      }
      say(body: unknown) {
        this.dispatchEvent(Object.assign(new Event('message'), { data: JSON.stringify(body) }));
      }
      close() {
        this.dispatchEvent(new Event('close'));
      }
    }
    const webSocket = FakeSocket as unknown as new (url: string) => WebSocketLike;
    const { locks } = clientOf(() => answer(201, { ticket: 'one-use', url: 'wss://sockets.example.com/v1' }), {
      webSocket,
      auth: bearer('secret'),
    });
    const events = locks.watch({ lock: 'a' });
    vi.spyOn(Math, 'random').mockReturnValue(0);
    expect((await events.next()).value).toEqual({ type: 'connected', connectionId: 'c1' });
    sockets[0]?.close();
    expect((await events.next()).value).toEqual({ type: 'connected', connectionId: 'c2' });
    vi.restoreAllMocks();
    await events.return();
    expect(sockets[0]?.url).toBe('wss://sockets.example.com/v1?ticket=one-use&lock=a');
    expect(sockets[0]?.options).toEqual({ headers: { authorization: 'Bearer secret' } });
  });
});

describe('a request of HttpTransport', () => {
  const call: Call = {
    operation: 'putRecord',
    method: 'PUT',
    route: '/v1/{ns}/records/{name}',
    parameters: { ns: 'test', name: 'a' },
  };
  const never = new AbortController().signal;

  /** Sends the call, and tells what was sent and what came back. */
  async function sent(more: Partial<Call>, options: Partial<HttpTransportOptions> = {}, answered = new Response('{}')) {
    const fetch = vi.fn(async (_url: unknown, _init?: RequestInit) => answered);
    const transport = new HttpTransport({ url: 'https://locks.example.com', fetch: fetch as never, ...options });
    const came = await transport.request({ ...call, ...more }, never);
    const [url, init] = fetch.mock.calls[0] ?? [];
    return { came, url: String(url), init: init as RequestInit };
  }

  it('has its body as JSON, and the headers of the call and of JSON', async () => {
    const { url, init } = await sent({ body: { value: 1 }, headers: { 'if-match': '"7"' } });
    expect(url).toBe('https://locks.example.com/v1/test/records/a');
    expect(init).toMatchObject({ method: 'PUT', body: '{"value":1}', signal: never });
    expect(init.headers).toEqual({
      accept: 'application/json',
      'content-type': 'application/json',
      'if-match': '"7"',
    });
  });

  it('has neither a body nor its type if there is nothing to send', async () => {
    const { init } = await sent({ method: 'GET' });
    expect(init.headers).toEqual({ accept: 'application/json' });
    expect(init).not.toHaveProperty('body');
  });

  it('is shown to the authorization as it will be sent', async () => {
    const auth = vi.fn(async () => ({ authorization: 'x' }));
    const { url, init } = await sent({ body: 1, query: { page: '2' } }, { auth });
    expect(auth).toHaveBeenCalledWith({
      method: 'PUT',
      url: new URL(url),
      headers: { accept: 'application/json', 'content-type': 'application/json' },
      body: '1',
    });
    expect(url).toContain('?page=2');
    expect(init.headers).toMatchObject({ authorization: 'x', accept: 'application/json' });
  });

  it.each([
    ['{"fence":7}', { fence: 7 }],
    ['', undefined],
    ['<html>Bad gateway</html>', undefined],
  ])('reads the answer %j', async (text, body) => {
    const { came } = await sent({}, {}, new Response(text, { status: 502, headers: { 'X-Request-Id': 'r1' } }));
    expect(came).toMatchObject({ status: 502, headers: { 'x-request-id': 'r1' } });
    expect(came.body).toEqual(body);
  });

  it('uses the fetch of the runtime as it is at the time of the call', async () => {
    const transport = new HttpTransport({ url: 'https://locks.example.com' });
    const fetch = vi.fn(async () => new Response('{}'));
    vi.stubGlobal('fetch', fetch);
    try {
      expect(await transport.request(call, never)).toMatchObject({ status: 200, body: {} });
      expect(fetch).toHaveBeenCalledWith(expect.any(URL), expect.objectContaining({ method: 'PUT' }));
    } finally {
      vi.unstubAllGlobals();
    }
  });

  it.each(['https://locks.example.com/prod', 'https://locks.example.com/prod//'])('goes to %s', (url) => {
    expect(new HttpTransport({ url }).target).toBe('https://locks.example.com/prod');
    expect(new HttpTransport({ url: new URL(url) }).target).toBe('https://locks.example.com/prod');
  });

  it.each([
    [undefined, 'url is missing'],
    ['localhost', 'url must be a URL'],
    ['ftp://locks.example.com', 'url must be http or https'],
  ])('is not sent to the address %s', (url, message) => {
    const make = () => new HttpTransport({ url: url as string });
    expect(make).toThrow(message);
    expect(make).toThrow(expect.objectContaining({ errors: [expect.objectContaining({ field: 'url' })] }));
  });
});

describe('a WebSocket of HttpTransport', () => {
  interface Made {
    readonly url: string;
    readonly options: unknown;
    readonly events: EventTarget;
    readonly said: string[];
    code?: number | undefined;
  }

  /** The sockets that were made. The test says what happens to them. */
  function world(options: Partial<HttpTransportOptions> = {}, url = 'https://locks.example.com') {
    const made: Made[] = [];
    const webSocket = class extends EventTarget {
      readonly #own: Made;
      constructor(url: string, ...more: unknown[]) {
        super();
        this.#own = { url, options: more, events: this, said: [] };
        made.push(this.#own);
      }
      send(text: string) {
        this.#own.said.push(text);
      }
      close(code?: number) {
        this.#own.code = code;
      }
    } as unknown as WebSocketClass;
    const transport = new HttpTransport({ url, webSocket, ...options });
    const heard: unknown[] = [];
    const handlers = {
      open: () => heard.push('open'),
      message: (body: unknown) => heard.push(body),
      closed: () => heard.push('closed'),
    };
    const open = () => transport.socket('wss://said.example.com/v1', { ticket: 't' }, handlers);
    const watch = () => transport.watch({ lock: 'a' }, handlers);
    const happens = (type: string, data?: unknown) =>
      made[0]?.events.dispatchEvent(Object.assign(new Event(type), { data }));
    return { made, heard, open, watch, happens };
  }
  const later = () => new Promise((resolve) => setImmediate(resolve));

  it('goes to the address that the user gave, because it may be a proxy', async () => {
    const { made, open } = world({ watchUrl: 'wss://proxy.example.com/v1' });
    open();
    await later();
    expect(made[0]?.url).toBe('wss://proxy.example.com/v1?ticket=t');
  });

  it.each([
    ['http://127.0.0.1:4100', {}, 'ws://127.0.0.1:4100/v1/watch?lock=a'],
    ['https://locks.example.com/prod/', {}, 'wss://locks.example.com/prod/v1/watch?lock=a'],
    ['https://x', { watchUrl: 'wss://proxy.example.com/v1' }, 'wss://proxy.example.com/v1?lock=a'],
  ])('watches at the address of the service %s with %j', async (url, options, watched) => {
    const { made, heard, watch, happens } = world(options, url);
    const leave = watch();
    await later();
    expect(made[0]?.url).toBe(watched);
    happens('open');
    happens('message', '{"type":"connected"}');
    leave();
    expect([heard, made[0]?.code]).toEqual([[{ type: 'connected' }], 1000]);
  });

  it('tells a watch that it has ended', async () => {
    const { heard, watch, happens } = world();
    watch();
    await later();
    happens('close');
    expect(heard).toEqual(['closed']);
  });

  it('is signed as a request over http, and gets no options without a signature', async () => {
    const auth = vi.fn(async () => ({ authorization: 'x' }));
    const [signed, plain] = [world({ auth }), world()];
    for (const { open } of [signed, plain]) open();
    await later();
    const url = new URL('https://said.example.com/v1?ticket=t');
    expect(auth).toHaveBeenCalledWith({ method: 'GET', url, headers: {}, body: undefined });
    expect(signed.made[0]?.options).toEqual([{ headers: { authorization: 'x' } }]);
    expect(plain.made[0]?.options).toEqual([]);
  });

  it('passes on only messages of text that are JSON', async () => {
    const { heard, open, happens } = world();
    open();
    await later();
    for (const data of ['{"type":"granted"}', '', 'pong', new Uint8Array([123, 125]), 7]) happens('message', data);
    expect(heard).toEqual([{ type: 'granted' }]);
  });

  it('sends only while it is open', async () => {
    const { made, open, happens } = world();
    const socket = open();
    expect(() => socket.send('early')).not.toThrow();
    await later();
    socket.send('hello');
    happens('close');
    socket.send('late');
    expect(made[0]?.said).toEqual(['hello']);
  });

  it('opens no more after its user closed it', async () => {
    const { heard, open, happens } = world();
    const socket = open();
    await later();
    socket.close();
    happens('open');
    expect(heard).toEqual([]);
  });

  it('keeps the process alive or not, if its TCP connection can be reached', async () => {
    const { made, open } = world();
    const socket = open();
    expect(socket.keepsAlive(false)).toBe(false);
    await later();
    expect([socket.keepsAlive(true), socket.keepsAlive(false)]).toEqual([false, false]);
    const done: string[] = [];
    const connection = { ref: () => done.push('ref'), unref: () => done.push('unref') };
    Object.assign(made[0]?.events ?? {}, { _socket: connection });
    expect([socket.keepsAlive(false), socket.keepsAlive(true)]).toEqual([true, true]);
    expect(done).toEqual(['unref', 'ref']);
  });

  it('is that of the runtime, if it has one', async () => {
    const made: string[] = [];
    class Own extends EventTarget {
      constructor(url: string) {
        super();
        made.push(url);
      }
    }
    vi.stubGlobal('WebSocket', Own);
    try {
      const { open } = world({ webSocket: undefined });
      open();
      await later();
      expect(made).toEqual(['wss://said.example.com/v1?ticket=t']);
    } finally {
      vi.unstubAllGlobals();
    }
  });

  it('is not opened if it was closed before the keys were there', async () => {
    const { made, heard, open } = world({ auth: async () => ({ authorization: 'x' }) });
    open().close();
    await later();
    expect([made, heard]).toEqual([[], []]);
  });

  it.each([
    ['an error', ['error'], ['closed']],
    ['an error and then a close', ['error', 'close'], ['closed']],
    ['a message after the close', ['open', 'close', 'message'], ['open', 'closed']],
  ])('reports its end once: %s', async (_, events, expected) => {
    const { heard, open, happens } = world();
    open();
    await later();
    for (const type of events) happens(type, '{}');
    expect(heard).toEqual(expected);
  });

  it('reports nothing after its user closed it, and says goodbye to the service', async () => {
    const { made, heard, open } = world();
    const socket = open();
    await later();
    socket.close();
    made[0]?.events.dispatchEvent(new Event('close'));
    expect([heard, made[0]?.code]).toEqual([[], 1000]);
  });

  it('is reported as closed if it cannot be made', async () => {
    const { heard, open } = world({ auth: () => Promise.reject(new Error('no keys')) });
    open();
    await later();
    expect(heard).toEqual(['closed']);
  });

  it('is that of the package ws if the runtime has none of its own', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    await once(server, 'listening');
    vi.stubGlobal('WebSocket', undefined);
    try {
      const asked = once(server, 'connection');
      const { port } = server.address() as AddressInfo;
      const transport = new HttpTransport({ url: `http://127.0.0.1:${port}` });
      const opened = Promise.withResolvers<void>();
      const handlers = { open: opened.resolve, message: () => {}, closed: opened.reject };
      const socket = transport.socket(`ws://127.0.0.1:${port}/v1/watch`, { ticket: 't' }, handlers);
      await opened.promise;
      expect((await asked)[1].url).toBe('/v1/watch?ticket=t');
      // Unlike the standard one, it can be told not to keep the process alive.
      expect(socket.keepsAlive(false)).toBe(true);
      socket.close();
    } finally {
      vi.unstubAllGlobals();
      server.close();
    }
  });
});
