import { Agent, createServer, type IncomingHttpHeaders, type IncomingMessage, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Answer, Call, Transport, WatchHandlers } from '../../../src/client/index.ts';
import { Console } from '../../../src/console/server/console.ts';
import { eventually } from '../../support/eventually.ts';

const token = 'a-token-that-was-printed';

/** A service that answers what it is told to, and whose watch a test can speak for. */
class FakeService implements Transport {
  readonly calls: Call[] = [];
  answer: Answer = { status: 200, headers: {}, body: { locks: [] } };
  watches: WatchHandlers[] = [];

  signals: AbortSignal[] = [];
  /** If true, it never answers. */
  isSilent = false;

  request(call: Call, signal: AbortSignal): Promise<Answer> {
    this.calls.push(call);
    this.signals.push(signal);
    return this.isSilent ? new Promise(() => {}) : Promise.resolve(this.answer);
  }

  watch(_query: Readonly<Record<string, string>>, handlers: WatchHandlers): () => void {
    this.watches.push(handlers);
    return () => undefined;
  }
}

let service: FakeService;
let page: Console;
let server: Server;
let port: number;

let behindMs = 0;

async function open(mayChange = false): Promise<void> {
  service = new FakeService();
  behindMs = 0;
  const serviceUrl = 'https://locks.example';
  page = new Console({
    transport: service,
    serviceUrl,
    auth: 'bearer',
    token,
    namespace: 'demo',
    behindMs: () => behindMs,
    mayChange,
  });
  server = createServer((incoming, response) => {
    if (!page.handle(incoming, response)) response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
}

beforeEach(() => open());
afterEach(async () => {
  page.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** By hand, since `fetch` does not let a test choose `Host` or `Origin`. */
function ask(path: string, headers: Record<string, string> = {}, method = 'GET', body?: string): Promise<Got> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

async function cookie(): Promise<Record<string, string>> {
  const { headers } = await ask(`/console?token=${token}`);
  return { cookie: (headers['set-cookie']?.[0] ?? '').split(';')[0] ?? '' };
}

/** How long a file is for the browser, which unpacks it. */
async function unpackedBytes(path: string): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: await cookie() });
  return (await response.arrayBuffer()).byteLength;
}

const codeOf = ({ text }: Got): string => (JSON.parse(text) as { error: { code: string } }).error.code;

describe('who comes to the console', () => {
  it('with the token gets a cookie that scripts and other sites cannot use, and is admitted by it', async () => {
    const { status, headers } = await ask(`/console?token=${token}`);
    expect(status).toBe(200);
    expect(headers['set-cookie']).toEqual([
      expect.stringMatching(/^holdfast-console-\d+=[\w-]{43}; Path=\/console; HttpOnly; SameSite=Strict$/),
    ]);
    expect((await ask('/console/api/about', await cookie())).status).toBe(200);
  });

  it.each([
    ['none', '/console'],
    ['a wrong one', '/console?token=guess'],
    ['an empty one', '/console?token='],
  ])('with no token but %s gets no cookie, and nothing of the service', async (_, path) => {
    const { status, headers } = await ask(path);
    expect([status, headers['set-cookie']]).toEqual([401, undefined]);
    for (const api of ['about', 'demo/locks', 'demo/events', 'demo/locks/a/revoke']) {
      expect((await ask(`/console/api/${api}`)).status).toBe(401);
    }
    expect((await ask('/console/api/about', { cookie: `holdfast-console-${port}=guess` })).status).toBe(401);
    expect(service.calls).toEqual([]);
  });

  it.each([
    ['by a foreign name, as after DNS rebinding', { host: 'evil.example' }],
    ['by a foreign name that looks like ours', { host: '127.0.0.1.evil.example' }],
    ['from a foreign page', { origin: 'https://evil.example' }],
    ['from a page on another port of this machine', { origin: 'http://127.0.0.1:3000' }],
    ['from a page without an origin', { origin: 'null' }],
    ['as a subresource of a foreign page', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }],
    ['as a subresource of another port', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }],
  ])('%s is refused, even with token and cookie', async (_, headers) => {
    const known = await cookie();
    for (const path of ['/console/api/demo/locks', '/console/page.js', `/console?token=${token}`]) {
      const got = await ask(path, { ...known, ...headers } as Record<string, string>);
      expect([got.status, codeOf(got)]).toEqual([403, 'forbidden']);
      expect(got.headers['access-control-allow-origin']).toBeUndefined();
    }
    expect(service.calls).toEqual([]);
  });

  it('from its own page is answered', async () => {
    const own = { origin: `http://127.0.0.1:${port}`, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' };
    expect((await ask('/console/api/demo/locks', { ...(await cookie()), ...own })).status).toBe(200);
  });
});

describe('what the console gives out', () => {
  it('has a policy without inline script, for page, files and answers alike', async () => {
    const known = await cookie();
    for (const path of ['/console', '/console/page.js', '/console/page.css', '/console/api/about']) {
      const { headers } = await ask(path, known);
      const policy = headers['content-security-policy'] as string;
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self'");
      expect(policy).not.toContain('unsafe');
      expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
    }
  });

  it('is under 61 kB in total, and nothing of it comes from other hosts', async () => {
    let bytes = 0;
    for (const path of ['', '/page.js', '/page.css', '/icon.svg']) {
      bytes += await unpackedBytes(`/console${path}`);
    }
    expect(bytes).toBeLessThan(61_000);
    const html = (await ask('/console')).text;
    expect(
      [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, url]) => url).filter((url) => !url?.startsWith('/')),
    ).toEqual([]);
    expect(html).not.toMatch(/<script(?! type="module" src=)/);
  });

  it('says its settings, and no secret', async () => {
    const { text } = await ask('/console/api/about', await cookie());
    expect(JSON.parse(text)).toEqual({
      namespace: 'demo',
      namespaces: ['demo'],
      serviceUrl: 'https://locks.example',
      auth: 'bearer',
      mayChange: false,
    });
  });

  it.each(['page.html', 'nothing', 'api/demo/sessions/abc', 'api/demo/locks/a/acquire', '../v1/health'])(
    'has nothing at %s',
    async (path) => {
      expect((await ask(`/console/${path}`, await cookie())).status).toBe(404);
    },
  );

  it('tells the page if deliveries are far behind', async () => {
    const shown = async () => JSON.parse((await ask('/console/api/demo/locks', await cookie())).text).behindMs;
    behindMs = 4_999;
    expect(await shown()).toBeUndefined();
    behindMs = 7_000;
    expect(await shown()).toBe(7_000);
  });

  it('shows the words of the refusal of the service', async () => {
    service.answer = { status: 403, headers: {}, body: { code: 'forbidden', detail: 'Not for you.', status: 403 } };
    const got = await ask('/console/api/demo/locks', await cookie());
    expect([got.status, codeOf(got)]).toEqual([502, 'forbidden']);
    expect(got.text).toContain('Not for you.');
  });
});

describe('a revocation', () => {
  const body = JSON.stringify({ fence: 7, reason: 'stuck' });

  it('is refused by a console that only reads', async () => {
    const got = await ask('/console/api/demo/locks/a/revoke', await cookie(), 'POST', body);
    expect([got.status, codeOf(got), service.calls]).toEqual([403, 'read-only', []]);
  });

  it('is forwarded if it is allowed, and nothing else is', async () => {
    page.close();
    server.close();
    await open(true);
    const known = await cookie();
    service.answer = { status: 200, headers: {}, body: { revoked: true } };
    expect((await ask('/console/api/demo/locks/a/revoke', known, 'POST', body)).status).toBe(200);
    expect(service.calls).toMatchObject([{ method: 'POST', body: { fence: 7, reason: 'stuck' } }]);
    for (const path of ['locks/a/acquire', 'locks/a/release', 'records/a', 'locks']) {
      expect((await ask(`/console/api/demo/${path}`, known, 'POST', body)).status).toBe(404);
    }
    expect((await ask('/console/api/demo/locks/a/revoke', known, 'POST', '{"fence":7,"reason":" "}')).status).toBe(400);
    expect(service.calls).toHaveLength(1);
  });
});

describe('a page that leaves', () => {
  it('ends its question to the service', async () => {
    service.isSilent = true;
    const asked = request({ host: '127.0.0.1', port, path: '/console/api/demo/locks', headers: await cookie() });
    asked.on('error', () => undefined).end();
    await eventually(() => expect(service.signals).toHaveLength(1));
    asked.destroy();
    await eventually(() => expect(service.signals[0]?.aborted).toBe(true));
  });

  it('gets no more beats, which would keep the process alive', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const before = vi.getTimerCount();
    const asked = request({ host: '127.0.0.1', port, path: '/console/api/demo/events', headers: await cookie() });
    const opened = new Promise((resolve) => asked.on('response', resolve));
    asked.on('error', () => undefined).end();
    await opened;
    expect(vi.getTimerCount()).toBe(before + 1);
    asked.destroy();
    // The check is repeated by another kind of timer.
    while (vi.getTimerCount() > before) await new Promise((resolve) => setTimeout(resolve, 5));
  });
});

describe('a console that is closed', () => {
  it('ends the streams of its pages, and takes no new one on a connection that is still open', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const known = await cookie();
    const get = (path: string) =>
      new Promise<IncomingMessage>((resolve, reject) =>
        request({ host: '127.0.0.1', port, path, headers: known, agent }, resolve).on('error', reject).end(),
      );
    const stream = await get('/console/api/demo/events');
    page.close();
    await new Promise((resolve) => stream.on('end', resolve).resume());
    const again = await get('/console/api/demo/events');
    expect([again.statusCode, again.headers.connection]).toEqual([503, 'close']);
    agent.destroy();
  });
});

describe('events', () => {
  interface Frame {
    readonly event: string;
    readonly id?: string | undefined;
    // biome-ignore lint/suspicious/noExplicitAny: what a message holds is what the test checks.
    readonly data: any;
  }

  /** Follows a stream; what it returns ends it. */
  async function follow(after = ''): Promise<{ frames: Frame[]; stop: () => void }> {
    const frames: Frame[] = [];
    const stop = new AbortController();
    const headers = await cookie();
    const response = await fetch(`http://127.0.0.1:${port}/console/api/demo/events${after}`, {
      headers,
      signal: stop.signal,
    });
    void (async () => {
      let text = '';
      for await (const part of (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
        text += part;
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          const lines = new Map(
            text
              .slice(0, end)
              .split('\n')
              .map((line) => line.split(/: (.*)/s) as [string, string]),
          );
          text = text.slice(end + 2);
          frames.push({
            event: lines.get('event') ?? '',
            id: lines.get('id'),
            data: JSON.parse(lines.get('data') ?? '0'),
          });
        }
      }
    })().catch(() => undefined);
    return { frames, stop: () => stop.abort() };
  }

  const happened = (owner: string) => ({ lock: 'a', at: '2026-11-16T12:00:00.000Z', type: 'queued', fence: 1, owner });
  const watch = () => service.watches.at(-1) as WatchHandlers;

  it('are relayed, and the state of the connection is sent at once', async () => {
    const { frames, stop } = await follow();
    await eventually(() => expect(service.watches).toHaveLength(1));
    watch().message({ type: 'connected', connectionId: 'secret-connection' });
    watch().message(happened('ada'));
    await eventually(() => expect(frames.at(-1)?.event).toBe('events'));
    watch().closed(undefined);
    await eventually(() => expect(frames.at(-1)?.data).toEqual({ state: 'reconnecting', missed: false }));
    await eventually(() => expect(service.watches).toHaveLength(2));
    watch().message({ type: 'connected', connectionId: 'secret-connection' });
    // What happened while nobody was connected is lost to the stream: the page has to read the history.
    await eventually(() => expect(frames.at(-1)?.data).toEqual({ state: 'live', missed: true }));
    expect(frames.filter(({ event }) => event === 'events').flatMap(({ data }) => data)).toEqual([happened('ada')]);
    expect(JSON.stringify(frames)).not.toContain('secret-connection');
    stop();
  });

  it('come over a socket with a ticket if the service has sockets, like every deployed one', async () => {
    const sockets: { query: Readonly<Record<string, string>>; handlers: WatchHandlers }[] = [];
    service.answer = { status: 201, headers: {}, body: { ticket: 't', url: 'wss://sockets.example', expiresInMs: 1 } };
    Object.assign(service, {
      socket: (_url: string, query: Readonly<Record<string, string>>, handlers: WatchHandlers) => {
        sockets.push({ query, handlers });
        return { send: () => {}, close: () => {}, keepsAlive: () => true };
      },
    });
    const { frames, stop } = await follow();
    await eventually(() => expect(sockets.map(({ query }) => query)).toEqual([{ ticket: 't', prefix: '' }]));
    expect(service.watches).toEqual([]);
    sockets[0]?.handlers.message({ type: 'connected', connectionId: 'c' });
    await eventually(() => expect(frames.at(-1)?.data).toEqual({ state: 'live', missed: false }));
    sockets[0]?.handlers.closed(undefined);
    await eventually(() => expect(frames.at(-1)?.data).toEqual({ state: 'reconnecting', missed: false }));
    stop();
  });

  it('have no leaseId, even if a grant to a waiter comes on the same connection', async () => {
    const { frames, stop } = await follow();
    await eventually(() => expect(service.watches).toHaveLength(1));
    watch().message({ type: 'connected', connectionId: 'c' });
    watch().message({ type: 'granted', lock: 'a', leaseId: 'secret-lease', fence: 2, remainingMs: 10 });
    watch().message(happened('ada'));
    await eventually(() => expect(frames.at(-1)?.data).toEqual([happened('ada')]));
    expect(JSON.stringify(frames)).not.toContain('secret-lease');
    stop();
  });

  it('that a page missed are sent again if they are kept, and if not the page is told so', async () => {
    const first = await follow();
    await eventually(() => expect(service.watches).toHaveLength(1));
    watch().message({ type: 'connected', connectionId: 'c' });
    watch().message(happened('ada'));
    await eventually(() => expect(first.frames.at(-1)?.event).toBe('events'));
    const { id } = first.frames.at(-1) as Frame;
    first.stop();
    watch().message(happened('bob'));
    const again = await follow(`?after=${id}`);
    await eventually(() => expect(again.frames.map(({ data }) => data)).toContainEqual([happened('bob')]));
    expect(again.frames.at(-1)?.data).toEqual({ state: 'live', missed: false });
    const other = await follow('?after=another.1');
    await eventually(() => expect(other.frames[0]?.data).toEqual({ state: 'live', missed: true }));
    again.stop();
    other.stop();
  });
});
