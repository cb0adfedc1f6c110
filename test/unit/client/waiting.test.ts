/** How the SDK waits, by polls and parked on a WebSocket, against a service whose every answer the test gives. */
import { describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/client/holdfast.ts';
import { pause } from '../../../src/client/runtime.ts';
import type { Answer, Call, SocketHandlers, Transport } from '../../../src/client/transport.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';

interface AcquireBody {
  readonly leaseId: string;
  readonly place?: number | 'new';
  readonly pollMs?: number;
  readonly notify?: { readonly connectionId: string };
}

const leaseMs = 30_000;
const waiting = { status: 202, headers: {}, body: { status: 'waiting', position: 1, queueDepth: 1, retryAfterMs: 0 } };
const granted = (remainingMs: number): Answer => ({
  status: 200,
  headers: {},
  body: { status: 'granted', fence: 7, limit: 1, permits: 1, leaseMs, remainingMs, waitedMs: 0 },
});
const foreign = { status: 403, headers: {}, body: { code: 'forbidden', detail: 'Not an open connection.' } };

/** `poll`: the answer to polls at first. The SDK asks at once. */
function world(poll: Answer = waiting) {
  const time = new VirtualTime();
  const runtime = new VirtualProcess(time, 'client', 1);
  const sockets: SocketHandlers[] = [];
  /** What was asked, and when: a poll, a place on a connection by its id, or a renewal. */
  const asked: { what: string; leaseId: string; at: number; place?: number | 'new' | undefined }[] = [];
  const answers = { poll: (): Answer => poll, park: (): Answer => waiting, renew: (): Answer => granted(leaseMs) };
  const note = (what: string, { leaseId, place }: AcquireBody) =>
    void asked.push({ what, leaseId, at: time.now() - time.startAt, place });
  const transport: Transport = {
    request: async ({ operation, body }: Call) => {
      const request = body as AcquireBody;
      if (operation === 'createTicket')
        return { status: 201, headers: {}, body: { ticket: 't', url: 'ws://x', expiresInMs: 60_000 } };
      if (operation === 'renewLock') {
        note('renew', request);
        return answers.renew();
      }
      if (request.notify !== undefined) {
        note(request.notify.connectionId, request);
        return answers.park();
      }
      note('poll', request);
      const answer = answers.poll();
      // A poll that waits is kept open for its time.
      if (answer.status === 202) await pause(runtime, request.pollMs ?? 0);
      return answer;
    },
    socket: (_url, _query, handlers) => {
      sockets.push(handlers);
      const connectionId = `connection ${sockets.length}`;
      queueMicrotask(() => handlers.open());
      return {
        send: () => handlers.message({ type: 'connected', connectionId }),
        close: () => {},
        keepsAlive: () => true,
      };
    },
  };
  const locks = new Holdfast({ namespace: 'test', transport, runtime });
  const acquiring = locks.acquire('gate', { waitMs: 60_000, leaseMs });
  /** Says something to the wait, on the latest connection. */
  const tell = (type: string) => sockets.at(-1)?.message({ type, leaseId: asked[0]?.leaseId });
  const whats = () => asked.map(({ what }) => what);
  return { time, sockets, asked, answers, acquiring, tell, whats };
}

describe('a wait that polls', () => {
  it('calls its lease new only once: a first try whose answer was lost may have a place already', async () => {
    const away = { status: 503, headers: {}, body: { code: 'unavailable', detail: 'The store is away.' } };
    const { time, asked, answers } = world(away);
    await time.advance(500);
    expect(asked.length).toBeGreaterThan(1);
    answers.poll = () => ({ ...waiting, body: { ...waiting.body, place: 3 } });
    answers.park = () => foreign;
    await time.advance(9_000);
    const places = asked.map(({ place }) => place);
    expect(places[0]).toBe('new');
    expect(places.slice(1)).not.toContain('new');
    // From the first answer on, it says where it waits.
    expect(places.at(-1)).toBe(3);
  });
});

describe('a wait that is parked', () => {
  it('begins after two seconds of polling, under the same lease', async () => {
    const { time, asked } = world();
    await time.advance(10_000);
    expect(asked.map(({ what, at }) => [what, at])).toEqual([
      ['poll', 0],
      ['connection 1', 2_000],
    ]);
    expect(new Set(asked.map(({ leaseId }) => leaseId)).size).toBe(1);
  });

  it('renews the grant that it is told of, so that a whole lease is left however late the message came', async () => {
    const { time, answers, acquiring, tell, whats } = world();
    await time.advance(3_000);
    answers.park = () => granted(leaseMs / 10);
    tell('granted');
    await time.advance(0);
    const lock = await acquiring;
    expect(whats()).toEqual(['poll', 'connection 1', 'renew']);
    expect([lock.fence, lock.remainingMs()]).toEqual([7, leaseMs - 1_000]);
  });

  it('looks for itself every 25 s while it hears nothing, and finds a grant whose message was lost', async () => {
    const { time, asked, answers, acquiring } = world();
    await time.advance(26_999);
    expect(asked).toHaveLength(2);
    answers.park = () => granted(5_000);
    await time.advance(1);
    expect(asked.at(-1)).toMatchObject({ what: 'connection 1', at: 27_000 });
    expect((await acquiring).fence).toBe(7);
  });

  it('hears that its connection broke, and parks on another one under the same lease', async () => {
    const { time, sockets, asked, acquiring, tell } = world();
    await time.advance(3_000);
    sockets[0]?.closed(new Error('reset'));
    await time.advance(0);
    expect(asked.at(-1)).toMatchObject({ what: 'connection 2', leaseId: asked[0]?.leaseId, at: 3_000 });
    tell('granted');
    await time.advance(0);
    expect((await acquiring).fence).toBe(7);
  });

  it('goes on by polling where the service does not know its connection', async () => {
    const { time, answers, acquiring, whats } = world();
    answers.park = () => foreign;
    await time.advance(2_500);
    expect(whats()).toEqual(['poll', 'connection 1', 'poll']);
    answers.poll = () => granted(leaseMs);
    await time.advance(3_000);
    expect((await acquiring).fence).toBe(7);
  });

  it('asks the service at once when it is told that the wait is over', async () => {
    const { time, answers, acquiring, tell } = world();
    await time.advance(10_000);
    answers.poll = () => ({
      status: 409,
      headers: {},
      body: { code: 'lease-lost', reason: 'released', detail: 'The lease was released.' },
    });
    const ended = acquiring.catch((error: unknown) => error);
    tell('wait-ended');
    await time.advance(0);
    expect(await ended).toMatchObject({ code: 'lease-lost' });
  });
});
