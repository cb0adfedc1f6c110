/** How the SDK waits, by polls and parked on a WebSocket, against a service whose every answer the test gives. */
import { describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/client/holdfast.ts';
import type { HeldLock } from '../../../src/client/index.ts';
import type { AcquireOptions } from '../../../src/client/lock-options.ts';
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
const away = { status: 503, headers: {}, body: { code: 'unavailable', detail: 'The store is away.' } };
const ticket = { status: 201, headers: {}, body: { ticket: 't', url: 'ws://x', expiresInMs: 60_000 } };
const session = { status: 201, headers: {}, body: { sessionId: 's', ttlMs: 60_000, remainingMs: 60_000 } };
const over = {
  status: 409,
  headers: {},
  body: { code: 'lease-lost', detail: 'The lease is over.', reason: 'expired' },
};
const foreign = { status: 403, headers: {}, body: { code: 'forbidden', detail: 'Not an open connection.' } };

interface Asked {
  /** A poll, a place on a connection by its id, a renewal or a release. */
  readonly what: string;
  readonly leaseId: string;
  readonly at: number;
  readonly place?: number | 'new' | undefined;
  readonly pollMs?: number | undefined;
}

interface WorldOptions {
  readonly pushes?: boolean;
  readonly waits?: number;
  /** Instead of the random numbers of the process. */
  readonly random?: () => number;
}

/** `poll`: the answer to polls at first. The SDK asks at once. */
function world(
  poll: Answer | Promise<Answer> = waiting,
  { pushes = true, waits = 1, random, ...options }: AcquireOptions & WorldOptions = {},
) {
  const time = new VirtualTime();
  const own = new VirtualProcess(time, 'client', 1);
  const runtime = random === undefined ? own : Object.assign(own, { random });
  const sockets: SocketHandlers[] = [];
  /** What was asked, and when. */
  const asked: Asked[] = [];
  let tickets = 0;
  const answers = {
    poll: (): Answer | Promise<Answer> => poll,
    park: (): Answer | Promise<Answer> => waiting,
    renew: (): Answer | Promise<Answer> => granted(leaseMs),
    ticket: (): Answer | Promise<Answer> => ticket,
    /** What a new socket does. */
    socket: (handlers: SocketHandlers) => handlers.open(),
  };
  const closed: number[] = [];
  /** Gives the answer after a while. */
  const delayed = (ms: number, answer: Answer) => () => pause(runtime, ms).then(() => answer);
  const note = (what: string, { leaseId, place, pollMs }: AcquireBody) =>
    void asked.push({ what, leaseId, at: time.now() - time.startAt, place, pollMs });
  const transport: Transport = {
    request: async ({ operation, body }: Call) => {
      const request = body as AcquireBody;
      if (operation === 'createTicket') {
        tickets += 1;
        return answers.ticket();
      }
      if (operation === 'inspectLock') return away;
      if (operation === 'createSession') return session;
      if (operation === 'renewLock') {
        note('renew', request);
        return answers.renew();
      }
      if (operation === 'releaseLock') {
        note('release', request);
        return { status: 200, headers: {}, body: { released: true, reason: 'ok' } };
      }
      if (request.notify !== undefined) {
        note(request.notify.connectionId, request);
        return answers.park();
      }
      note('poll', request);
      const answer = await answers.poll();
      // A poll that waits is kept open for its time.
      if (answer.status === 202) await pause(runtime, request.pollMs ?? 0);
      return answer;
    },
    ...(pushes && {
      socket: (_url: string, _query: unknown, handlers: SocketHandlers) => {
        const number = sockets.push(handlers);
        queueMicrotask(() => answers.socket(handlers));
        return {
          send: () => handlers.message({ type: 'connected', connectionId: `connection ${number}` }),
          close: () => void closed.push(number),
          keepsAlive: () => true,
        };
      },
    }),
  };
  const locks = new Holdfast({ namespace: 'test', transport, runtime });
  const all = Array.from({ length: waits }, () => locks.acquire('gate', { waitMs: 60_000, leaseMs, ...options }));
  const acquiring = all[0] as Promise<HeldLock>;
  /** Says something to the wait, on the latest connection. */
  const tell = (type: string) => sockets.at(-1)?.message({ type, leaseId: asked[0]?.leaseId });
  const whats = () => asked.map(({ what }) => what);
  const ticketsAsked = () => tickets;
  return { time, locks, sockets, closed, asked, answers, all, acquiring, delayed, tell, whats, ticketsAsked };
}

describe('a wait that polls', () => {
  it('says where it waits by the last answer, also if it got that answer while it was parked', async () => {
    const { time, asked, answers } = world({ ...waiting, body: { ...waiting.body, place: 3 } });
    answers.park = () => ({ ...waiting, body: { ...waiting.body, place: 5 } });
    await time.advance(3_000);
    expect(asked.at(-1)).toMatchObject({ what: 'connection 1', place: 3 });
    answers.park = () => away;
    await time.advance(40_000);
    expect(asked.findLast(({ what }) => what === 'poll')?.place).toBe(5);
  });

  it('calls its lease new only once: a first try whose answer was lost may have a place already', async () => {
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

  it.each([
    ['expired', 2],
    ['not_owner', 2],
    ['released', 1],
    ['revoked', 1],
  ] as const)('after a lease that is %s, asks under %i lease(s) in all', async (reason, leases) => {
    const lost = { status: 409, headers: {}, body: { code: 'lease-lost', reason, detail: 'The lease is over.' } };
    const { time, asked, answers, acquiring } = world(waiting, { pushes: false });
    const ended = acquiring.then(
      ({ fence }) => fence,
      (error: { reason?: string }) => error.reason,
    );
    answers.poll = () => (new Set(asked.map(({ leaseId }) => leaseId)).size === 1 ? lost : granted(leaseMs));
    await time.advance(1_000);
    expect(await ended).toBe(leases === 2 ? 7 : reason);
    expect(new Set(asked.map(({ leaseId }) => leaseId)).size).toBe(leases);
  });

  it('repeats its first poll after twelve seconds without an answer: two for the poll, ten for the answer', async () => {
    const { time, asked, whats } = world(new Promise<Answer>(() => {}));
    await time.advance(11_999);
    expect(whats()).toEqual(['poll']);
    await time.advance(200);
    expect(whats()).toEqual(['poll', 'poll']);
    expect(asked[1]?.leaseId).toBe(asked[0]?.leaseId);
  });

  it('opens no socket for a lock that is granted at once', async () => {
    const { time, sockets, acquiring, ticketsAsked } = world(granted(leaseMs));
    await time.advance(20_000);
    expect([(await acquiring).fence, ticketsAsked(), sockets.length]).toEqual([7, 0, 0]);
  });

  it('polls for ten seconds while a busy service makes its ticket, and is then parked', async () => {
    const { time, asked, answers, delayed, ticketsAsked } = world();
    answers.ticket = delayed(9_000, ticket);
    await time.advance(30_000);
    expect(asked.map(({ what, at, pollMs }) => [what, at, pollMs])).toEqual([
      ['poll', 0, 2_000],
      // It waits for the socket for two seconds, well within the five that it may be absent.
      ['poll', 4_000, 10_000],
      ['connection 1', 14_000, undefined],
    ]);
    expect(ticketsAsked()).toBe(1);
  });

  it('finds out once that WebSockets are blocked, and polls for good without an error', async () => {
    const { time, asked, answers, acquiring, whats, ticketsAsked } = world(waiting, { waitMs: 600_000 });
    answers.socket = (handlers) => handlers.closed(new Error('blocked'));
    await time.advance(300_000);
    expect(ticketsAsked()).toBe(3);
    expect(new Set(whats())).toEqual(new Set(['poll']));
    // The usual length of the service, from then on.
    expect(asked.map(({ pollMs }) => pollMs).slice(0, 5)).toEqual([2_000, 10_000, 10_000, undefined, undefined]);
    answers.poll = () => granted(leaseMs);
    await time.advance(20_000);
    expect((await acquiring).fence).toBe(7);
  });
});

describe('a grant that arrives late', () => {
  const late = (ms: number, waitMs = 60_000) => {
    const all = world(waiting, { pushes: false, waitMs });
    all.answers.poll = all.delayed(ms, granted(leaseMs));
    return all;
  };

  it.each([
    ['less than a third', leaseMs / 3 - 200, ['poll', 'poll']],
    ['more than a third', leaseMs / 3 + 200, ['poll', 'poll', 'renew']],
  ])('is renewed only if it may be old: %s of its lease', async (_, ms, expected) => {
    const { time, acquiring, whats } = late(ms);
    await time.advance(ms + 100);
    await acquiring;
    expect(whats()).toEqual(expected);
  });

  it('counts from before the renewal was sent, not from its answer', async () => {
    const { time, answers, acquiring, delayed } = late(12_000);
    answers.renew = delayed(4_000, granted(leaseMs));
    await time.advance(16_100);
    expect((await acquiring).remainingMs()).toBe(leaseMs - 4_000 - 1_000);
  });

  it.each([
    ['is used if less than half of it is over', 11_000, 7],
    ['is given up if half of it is over', 16_000, 'unavailable'],
  ] as const)('%s and the renewal fails', async (_, ms, expected) => {
    const { time, answers, acquiring } = late(ms, ms + 500);
    answers.renew = () => away;
    const ended = acquiring.then(
      ({ fence }) => fence,
      (error: { code?: string }) => error.code,
    );
    await time.advance(60_000);
    expect(await ended).toBe(expected);
  });

  it('is renewed although the client sends nothing else for a moment', async () => {
    const { time, locks, answers, acquiring, delayed } = late(12_000);
    answers.renew = () => granted(leaseMs);
    await time.advance(8_000);
    const failing = locks.inspect('other').catch((error: unknown) => error);
    await time.advance(4_100);
    expect((await acquiring).fence).toBe(7);
    answers.poll = delayed(0, granted(leaseMs));
    await Promise.all([failing, time.advance(60_000)]);
  });

  it('is asked for again if its lease has ended, under three leases at most', async () => {
    const { time, answers, asked, acquiring } = late(12_000, 600_000);
    answers.renew = () => over;
    const ended = acquiring.catch((error: unknown) => error);
    await time.advance(700_000);
    expect(await ended).toMatchObject({ code: 'lease-lost', reason: 'expired' });
    expect(new Set(asked.map(({ leaseId }) => leaseId)).size).toBe(3);
  });

  it('is not asked for again if its lease has ended and so has the wait', async () => {
    const { time, answers, asked, acquiring } = late(11_400, 10_000);
    answers.renew = () => over;
    const ended = acquiring.catch((error: unknown) => error);
    await time.advance(60_000);
    expect(await ended).toMatchObject({ code: 'lease-lost' });
    expect(new Set(asked.map(({ leaseId }) => leaseId)).size).toBe(1);
  });
});

describe('a service that never ends a wait', () => {
  it('is asked ten times a second at most, and the wait ends here', async () => {
    const { time, asked, acquiring } = world(waiting, { pushes: false, waitMs: 5_000 });
    const ended = acquiring.catch((error: unknown) => error);
    await time.advance(1_000);
    expect(asked.map(({ at }) => at)).toEqual([0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);
    await time.advance(60_000);
    expect(await ended).toMatchObject({ code: 'wait-timeout', waitedMs: 5_000, queueDepth: 1 });
    expect(await ended).toMatchObject({ message: 'gate was not granted within 5000 ms.' });
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

  it.each<[string, (locks: Holdfast) => Promise<unknown>]>([
    ['withLock', (locks) => locks.withLock('gate', { waitMs: 60_000 }, () => undefined)],
    ['a semaphore', (locks) => locks.semaphore('gate', 3).acquire({ waitMs: 60_000 })],
    ['a read-write lock', (locks) => locks.writeLock('gate').acquire({ waitMs: 60_000 })],
    ['an election', async (locks) => void locks.elect('gate', { onElected: () => undefined })],
    ['a session', async (locks) => (await locks.session()).acquire('gate', { waitMs: 60_000 })],
  ])('is the way of everything that waits: %s', async (_, begin) => {
    const { time, locks, whats } = world(waiting, { waits: 0 });
    void begin(locks).catch(() => undefined);
    await time.advance(3_000);
    expect(whats()).toEqual(['poll', 'connection 1']);
    await Promise.all([locks.close(), time.advance(6_000)]);
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

  it('renews although the client sends nothing else for a moment', async () => {
    const { time, locks, acquiring, tell, whats } = world(waiting, { random: () => 1 });
    await time.advance(24_000);
    const failing = locks.inspect('other').catch((error: unknown) => error);
    // By now the breaker is open.
    await time.advance(2_000);
    tell('granted');
    await time.advance(0);
    expect(whats()).toEqual(['poll', 'connection 1', 'renew']);
    await acquiring;
    await Promise.all([failing, time.advance(5_000)]);
  });

  it('leaves no timer behind when it is told of its grant', async () => {
    const { time, locks, acquiring, tell } = world();
    await time.advance(3_000);
    tell('granted');
    await time.advance(0);
    await acquiring;
    await Promise.all([locks.close(), time.advance(0)]);
    expect(time.nextAt).toBeUndefined();
  });

  it('fails if the service refuses to park it for another reason than its connection', async () => {
    const { time, answers, acquiring, whats } = world();
    answers.park = () => ({ status: 400, headers: {}, body: { code: 'invalid-request', detail: 'No.' } });
    const ended = acquiring.catch((error: unknown) => error);
    await time.advance(10_000);
    expect(await ended).toMatchObject({ code: 'invalid-request' });
    expect(whats()).toEqual(['poll', 'connection 1']);
  });

  it('gives its turn to be parked to the next one if its caller gives up meanwhile', async () => {
    const giveUp = new AbortController();
    const { time, locks, answers, all, asked } = world(waiting, { waits: 32, signal: giveUp.signal });
    const ended = Promise.allSettled(all);
    answers.park = () => new Promise(() => {});
    await time.advance(2_500);
    giveUp.abort();
    await Promise.all([ended, time.advance(0)]);
    answers.park = () => waiting;
    const before = asked.length;
    const next = locks.acquire('gate', { waitMs: 5_000 }).catch(() => 'over');
    await time.advance(2_500);
    expect(asked.slice(before).map(({ what }) => what)).toEqual(['poll', 'connection 1']);
    await Promise.all([next, locks.close(), time.advance(6_000)]);
  });

  it.each([
    ['20 s at least', 0, 20_000],
    ['25 s at most', 1, 25_000],
  ])(
    'looks for itself while it hears nothing, after %s, and finds a grant whose message was lost',
    async (_, drawn, ms) => {
      const { time, asked, answers, acquiring } = world(waiting, { random: () => drawn });
      await time.advance(2_000 + ms - 1);
      expect(asked).toHaveLength(2);
      answers.park = () => granted(5_000);
      await time.advance(1);
      expect(asked.at(-1)).toMatchObject({ what: 'connection 1', at: 2_000 + ms });
      expect((await acquiring).fence).toBe(7);
    },
  );

  it('looks at another time than the waits that were parked in the same moment', async () => {
    const { time, asked } = world(waiting, { waits: 500 });
    await time.advance(27_000);
    const looks = asked.filter(({ what, at }) => what === 'connection 1' && at >= 22_000);
    expect(looks).toHaveLength(500);
    for (let second = 22; second < 27; second++) {
      const within = looks.filter(({ at }) => Math.floor(at / 1_000) === second).length;
      expect(within).toBeGreaterThan(50);
      expect(within).toBeLessThan(150);
    }
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

  it('parks on another connection if its own broke while the service was asked', async () => {
    const { time, sockets, answers, whats } = world();
    answers.park = () => {
      if (sockets.length > 1) return waiting;
      sockets[0]?.closed(new Error('reset'));
      return foreign;
    };
    await time.advance(2_500);
    expect(whats()).toEqual(['poll', 'connection 1', 'connection 2']);
  });

  it('goes on while other requests of the client fail and keep the breaker open', async () => {
    // The random number in the middle: it looks for itself at 24.5 s, and nothing is sent.
    const { time, locks, answers, acquiring, whats } = world(waiting, { random: () => 0.5 });
    await time.advance(21_000);
    const failing = locks.inspect('other').catch((error: unknown) => error);
    await time.advance(4_000);
    expect(whats()).toEqual(['poll', 'connection 1']);
    answers.park = () => granted(leaseMs);
    answers.poll = () => granted(leaseMs);
    await time.advance(4_000);
    expect(await failing).toMatchObject({ code: 'unavailable' });
    expect((await acquiring).fence).toBe(7);
  });

  it('leaves a connection that is closed with the client at once, although it is idle', async () => {
    const { time, locks, closed, acquiring, tell } = world();
    await time.advance(3_000);
    tell('granted');
    await time.advance(0);
    await acquiring;
    expect(closed).toEqual([]);
    await Promise.all([locks.close(), time.advance(0)]);
    expect(closed).toEqual([1]);
  });

  it('leaves its connection when it is granted, so that the idle connection is closed', async () => {
    const { time, closed, acquiring, tell } = world();
    await time.advance(3_000);
    tell('granted');
    await time.advance(10_100);
    expect((await acquiring).isHeld()).toBe(true);
    expect(closed).toEqual([1]);
  });

  it('ends at once if its caller gives up when it is told the place', async () => {
    const giveUp = new AbortController();
    let told = 0;
    const onWaiting = () => {
      told += 1;
      // The second place is that of the parked wait.
      if (told === 2) giveUp.abort(new Error('no patience'));
    };
    const { time, acquiring } = world(waiting, { signal: giveUp.signal, onWaiting });
    const ended = acquiring.catch((error: unknown) => error);
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    await time.advance(2_100);
    expect([told, isOver]).toEqual([2, true]);
    expect(await ended).toMatchObject({ message: 'no patience' });
  });

  it('goes on by polling where the service does not know its connection', async () => {
    const { time, answers, acquiring, whats } = world();
    answers.park = () => foreign;
    await time.advance(2_500);
    expect(whats()).toEqual(['poll', 'connection 1', 'poll']);
    answers.park = () => granted(leaseMs);
    await time.advance(10_000);
    expect(whats().at(-1)).toBe('connection 2');
    expect((await acquiring).fence).toBe(7);
  });

  it('keeps its socket while others poll, however late they were parked', async () => {
    const { time, sockets, closed, answers, asked, all, whats } = world(waiting, { waits: 2 });
    // The second one can't be parked at first.
    answers.park = () => (whats().filter((what) => what === 'connection 1').length === 1 ? waiting : away);
    await time.advance(13_000);
    answers.park = () => waiting;
    sockets[0]?.message({ type: 'granted', leaseId: asked[0]?.leaseId });
    await time.advance(30_000);
    await (await all[0])?.release();
    expect([sockets.length, closed]).toEqual([1, []]);
    expect(asked.findLast(({ leaseId }) => leaseId === asked[1]?.leaseId)?.what).toBe('connection 1');
  });

  it('is one of a thousand, which are parked a few at a time and all of them soon', async () => {
    const { time, answers, asked, delayed } = world(waiting, { waits: 1_000 });
    let [underWay, most] = [0, 0];
    const answerLate = delayed(50, waiting);
    answers.park = async () => {
      underWay += 1;
      most = Math.max(most, underWay);
      const answer = await answerLate();
      underWay -= 1;
      return answer;
    };
    await time.advance(20_000);
    const parked = new Set(asked.filter(({ what }) => what === 'connection 1').map(({ leaseId }) => leaseId));
    expect(parked.size).toBe(1_000);
    expect(most).toBeLessThanOrEqual(32);
  });

  it('polls again if its turn to be parked does not come in time to keep its place', async () => {
    const { time, answers, asked, delayed } = world(waiting, { waits: 33 });
    answers.park = delayed(9_000, waiting);
    await time.advance(3_999);
    expect(asked.filter(({ what }) => what === 'connection 1')).toHaveLength(32);
    expect(asked.filter(({ what }) => what === 'poll')).toHaveLength(33);
    await time.advance(1);
    expect(asked.at(-1)).toMatchObject({ what: 'poll', at: 4_000, pollMs: 10_000 });
    await time.advance(10_000);
    expect(asked.filter(({ what }) => what === 'connection 1')).toHaveLength(33);
  });

  it('gives its place back when its client is closed, also while its socket opens', async () => {
    for (const socketOpens of [true, false]) {
      const { time, locks, acquiring, answers, sockets, closed, whats } = world();
      if (!socketOpens) answers.socket = () => {};
      const ended = acquiring.catch((error: unknown) => error);
      await time.advance(2_500);
      expect(whats().length).toBe(socketOpens ? 2 : 1);
      await Promise.all([locks.close(), time.advance(0)]);
      expect(await ended).toMatchObject({ code: 'closed' });
      expect([sockets.length, closed]).toEqual([1, [1]]);
      expect(whats().at(-1)).toBe('release');
    }
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
