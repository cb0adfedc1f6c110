import { describe, expect, it, vi } from 'vitest';
import { bearer, Holdfast, type WebSocketLike } from '../../../src/client/index.ts';

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

  it('does not report a failure to authorize as an outage', async () => {
    const auth = () => Promise.reject(new Error('no keys'));
    const { locks, fetch } = clientOf(() => answer(200, {}), { auth });
    await expect(locks.health()).rejects.toMatchObject({ code: 'unauthorized', cause: { message: 'no keys' } });
    expect(fetch).not.toHaveBeenCalled();
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
