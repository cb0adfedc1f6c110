import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Answer, Handler } from '../../../src/http/handler.ts';
import type { AccessRule } from '../../../src/local/access.ts';
import { Exchanges } from '../../../src/local/exchange.ts';

const bodyBytesMax = 10;
const answerMs = 1_000;
const fine: Answer = { status: 200, headers: {}, body: 'fine' };

/** As much of a response as an exchange uses. It notes each answer. */
class FakeResponse extends EventEmitter {
  headersSent = false;
  destroyed = false;
  writableFinished = false;
  shouldKeepAlive = true;
  readonly statuses: number[] = [];
  readonly bodies: string[] = [];

  writeHead(status: number): void {
    this.headersSent = true;
    this.statuses.push(status);
  }
  end(body: string): void {
    this.bodies.push(body);
    this.writableFinished = true;
    this.emit('close');
  }
  /** The connection breaks. */
  breakOff(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

function world(handler: Handler = async () => fine, access: AccessRule = () => undefined) {
  const lines: string[] = [];
  const handled = vi.fn(handler);
  const logger = { error: (line: string) => void lines.push(line) };
  const exchanges = new Exchanges({ handler: handled, access, logger, bodyBytesMax, answerMs });
  const receive = (headers: Record<string, string> = {}, url = '/v1/health') => {
    const rawHeaders = Object.entries(headers).flat();
    const request = Object.assign(new PassThrough(), { method: 'GET', url, rawHeaders, socket: new PassThrough() });
    const response = new FakeResponse();
    exchanges.receive(request as unknown as IncomingMessage, response as unknown as ServerResponse);
    return { request, response };
  };
  /** Lets everything happen that needs no time. */
  const settle = () => vi.advanceTimersByTimeAsync(0);
  return { exchanges, handled, lines, receive, settle };
}

const chunked = { 'transfer-encoding': 'chunked' };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('an exchange', () => {
  it('is answered once, and leaves no timer behind', async () => {
    const { exchanges, lines, receive, settle } = world();
    const { request, response } = receive();
    expect(exchanges.isRunningOn(request.socket)).toBe(true);
    expect(exchanges.isRunningOn(new PassThrough())).toBe(false);
    await settle();
    expect([response.statuses, response.bodies, lines, vi.getTimerCount()]).toEqual([[200], ['fine'], [], 0]);
    expect(exchanges.isRunningOn(request.socket)).toBe(false);
  });

  it('that is not allowed is refused, and its handler never sees it', async () => {
    const seen: unknown[] = [];
    const refusal = { status: 401, title: 'Unauthorized', code: 'unauthorized', detail: 'A token is required.' };
    const { handled, receive, settle } = world(undefined, (headers) => {
      seen.push(headers);
      return refusal;
    });
    const { response } = receive({ authorization: 'Bearer guess' });
    await settle();
    expect([seen, response.statuses]).toEqual([[{ authorization: 'Bearer guess' }], [401]]);
    expect(JSON.parse(response.bodies[0] ?? '')).toMatchObject({ code: 'unauthorized', detail: refusal.detail });
    expect(handled).not.toHaveBeenCalled();
  });

  it('whose answer has no body ends without one', async () => {
    const { receive, settle } = world(async () => ({ status: 304, headers: {}, body: undefined }));
    const { response } = receive();
    await settle();
    expect([response.statuses, response.bodies]).toEqual([[304], ['']]);
  });

  it('does not tell its handler that the caller left, if the answer was sent', async () => {
    const signals: (AbortSignal | undefined)[] = [];
    const { receive, settle } = world(async ({ signal }) => {
      signals.push(signal);
      return fine;
    });
    receive();
    await settle();
    expect(signals[0]?.aborted).toBe(false);
  });

  it('is the last one of its connection if the gateway closes', async () => {
    const { exchanges, receive, settle } = world();
    const { response: before } = receive();
    await settle();
    exchanges.isClosing = true;
    const { response } = receive();
    await settle();
    expect([before.shouldKeepAlive, response.shouldKeepAlive]).toEqual([true, false]);
  });

  it('that fails is logged by its operation, because a path may have a secret', async () => {
    const { lines, receive, settle } = world(() => Promise.reject(new Error('broken')));
    const { response } = receive({}, '/v1/test/sessions/secret-session');
    await settle();
    expect([response.statuses, lines]).toEqual([[500], ['getSession failed.']]);
  });

  it('that takes too long is answered with 504, tells its handler, and drops the late answer', async () => {
    const late = Promise.withResolvers<Answer>();
    const signals: AbortSignal[] = [];
    const { lines, receive, settle } = world(({ signal }) => {
      if (signal !== undefined) signals.push(signal);
      return late.promise;
    });
    const { response } = receive();
    await vi.advanceTimersByTimeAsync(answerMs - 1);
    expect([response.statuses, signals[0]?.aborted]).toEqual([[], false]);
    await vi.advanceTimersByTimeAsync(1);
    expect([response.statuses, signals[0]?.aborted]).toEqual([[504], true]);
    expect(lines).toEqual(['health was not answered within 1000 ms.']);
    late.resolve(fine);
    await settle();
    expect(response.statuses).toEqual([504]);
  });

  it('tells its handler if the caller leaves, also one that asks only afterwards', async () => {
    const work = Promise.withResolvers<void>();
    const seen: boolean[] = [];
    const { receive, settle } = world(async (request) => {
      await work.promise;
      // Only now: most handlers never ask, so the signal is made on request.
      seen.push(request.signal?.aborted === true);
      return fine;
    });
    const { response } = receive();
    response.breakOff();
    work.resolve();
    await settle();
    expect([seen, response.statuses]).toEqual([[true], []]);
  });

  it('lets the gateway wait for its handler', async () => {
    const work = Promise.withResolvers<Answer>();
    const { exchanges, receive, settle } = world(() => work.promise);
    receive();
    let isSettled = false;
    void exchanges.settle(60_000).then(() => {
      isSettled = true;
    });
    await settle();
    expect(isSettled).toBe(false);
    work.resolve(fine);
    await settle();
    expect(isSettled).toBe(true);
  });
});

describe('a body', () => {
  it.each([
    ['in one piece', ['{"a":1}']],
    ['in several pieces', ['{"a', '":', '1}']],
  ])('reaches the handler whole: %s', async (_, pieces) => {
    const { handled, receive, settle } = world();
    const { request } = receive(chunked);
    for (const piece of pieces) {
      request.write(piece);
      await settle();
    }
    request.end();
    await settle();
    expect(handled).toHaveBeenCalledWith(expect.objectContaining({ body: '{"a":1}' }));
  });

  it('that is missing is no body', async () => {
    const { handled, receive, settle } = world();
    receive();
    const { request } = receive(chunked);
    request.end();
    await settle();
    expect(handled.mock.calls.map(([{ body }]) => body)).toEqual([undefined, undefined]);
  });

  it('of the largest size is taken, with its length or in chunks', async () => {
    for (const headers of [{ 'content-length': '10' }, chunked]) {
      const { handled, receive, settle } = world();
      const { request, response } = receive(headers);
      request.write('01234');
      request.end('56789');
      await settle();
      expect(response.statuses).toEqual([200]);
      expect(handled).toHaveBeenCalledOnce();
    }
  });

  it('that says that it is larger is refused, and read to its end, so that the caller gets the answer', async () => {
    const { handled, receive, settle } = world();
    const { request, response } = receive({ 'content-length': '11' });
    expect([response.statuses, request.readableFlowing]).toEqual([[413], true]);
    expect(JSON.parse(response.bodies[0] ?? '')).toMatchObject({
      code: 'too-large',
      detail: 'A body has at most 10 bytes.',
    });
    request.end('01234567890');
    await settle();
    expect([response.statuses, handled.mock.calls]).toEqual([[413], []]);
  });

  it('in chunks is refused as soon as it is too large, and its handler never sees it', async () => {
    const { handled, receive, settle } = world();
    const { request, response } = receive(chunked);
    request.write('0123456789');
    await settle();
    expect(response.statuses).toEqual([]);
    request.write('0');
    await settle();
    expect([response.statuses, request.readableFlowing]).toEqual([[413], true]);
    request.end('more');
    await settle();
    expect([response.statuses, handled.mock.calls]).toEqual([[413], []]);
  });
});
