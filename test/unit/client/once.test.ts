import { describe, expect, it } from 'vitest';
import {
  type HeldLock,
  Holdfast,
  InvalidRequestError,
  OnceFailedError,
  type OnceOptions,
  StaleFenceError,
} from '../../../src/client/index.ts';
import { systemRuntime } from '../../../src/client/runtime.ts';
import type { Transport } from '../../../src/client/transport.ts';
import { Twin } from '../../../src/testing/index.ts';
import { callsOf } from './inside.ts';

const dayMs = 86_400_000;
const daily: OnceOptions = { everyMs: dayMs };

const world = () => {
  const twin = new Twin();
  const [one, other, third] = [twin.client(), twin.client(), twin.client()];
  return { twin, one, other, third };
};

const transportOf = (client: Holdfast): Transport =>
  (client as unknown as { core: { transport: Transport } }).core.transport;

/** Work that ends when the test ends it. */
function slowWork() {
  const work = { runs: 0, end: (_: unknown) => {}, fail: (_: unknown) => {}, fences: [] as number[] };
  const run = ({ fence }: HeldLock) => {
    work.runs += 1;
    work.fences.push(fence);
    return new Promise<unknown>((resolve, reject) => {
      work.end = resolve;
      work.fail = reject;
    });
  };
  return { work, run };
}

describe('once for a key', () => {
  it('does the work, and gives later callers the same result without doing it again', async () => {
    const { one, other } = world();
    const work = () => ({ charged: 5, at: new Date(0) });
    const result = { charged: 5, at: '1970-01-01T00:00:00.000Z' };
    expect(await one.once('charge:1', work)).toEqual({ ran: true, done: true, value: result });
    expect(await other.once('charge:1', work)).toEqual({ ran: false, done: true, value: result });
    expect(await other.once('charge:2', work)).toMatchObject({ ran: true });
  });

  it('keeps an empty result', async () => {
    const { one, other } = world();
    expect(await one.once('ping', () => {})).toEqual({ ran: true, done: true, value: undefined });
    expect(await other.once('ping', () => {})).toEqual({ ran: false, done: true, value: undefined });
  });

  it('keeps the result as long as asked, and a day by default', async () => {
    const { twin, one, other } = world();
    await one.once('short', { keepMs: 60_000 }, () => 1);
    await one.once('long', () => 1);
    await twin.advance(59_000);
    expect(await other.once('short', { keepMs: 60_000 }, () => 2)).toMatchObject({ ran: false, value: 1 });
    await twin.advance(1_000);
    expect(await other.once('short', { keepMs: 60_000 }, () => 2)).toMatchObject({ ran: true, value: 2 });
    await twin.advance(dayMs - 60_001);
    expect(await other.once('long', () => 2)).toMatchObject({ ran: false, value: 1 });
    await twin.advance(1);
    expect(await other.once('long', () => 2)).toMatchObject({ ran: true, value: 2 });
  });

  it('gives callers at the same time the very same result', async () => {
    const { twin, one, other, third } = world();
    const { work, run } = slowWork();
    const first = one.once('charge', run);
    await twin.settle();
    const others = [other, third, other].map((client) => client.once('charge', run));
    await twin.advance(20_000);
    work.end({ receipt: 7 });
    expect(await twin.until(first)).toEqual({ ran: true, done: true, value: { receipt: 7 } });
    for (const result of await twin.until(Promise.all(others))) {
      expect(result).toEqual({ ran: false, done: true, value: { receipt: 7 } });
    }
    expect(work.runs).toBe(1);
  });

  it('lets callers wait as readers, who are all served by the end of the run', async () => {
    const { twin, one, other, third } = world();
    const { work, run } = slowWork();
    const running = one.once('job', run);
    await twin.settle();
    const sent = [other, third].map(callsOf);
    const all = [running, other.once('job', run), third.once('job', run)];
    await twin.advance(5_000);
    for (const calls of sent) {
      const asked = calls.flatMap(({ operation, body }) =>
        operation === 'acquireLock' ? [(body as { readonly mode?: string }).mode] : [],
      );
      expect(asked).toEqual([undefined, 'shared']);
    }
    const endedAt = twin.now();
    work.end('done');
    expect(await twin.until(Promise.all(all))).toMatchObject([{ ran: true }, { ran: false }, { ran: false }]);
    expect(twin.now()).toBe(endedAt);
  });

  it('leaves the queue if the signal of a caller fires', async () => {
    const { twin, one, other } = world();
    const { work, run } = slowWork();
    const running = one.once('job', run);
    await twin.settle();
    const giveUp = new AbortController();
    const waiting = other.once('job', { signal: giveUp.signal }, run).catch((error: unknown) => error);
    await twin.advance(5_000);
    expect((await one.inspect('once:job')).queueDepth).toBe(1);
    giveUp.abort(new Error('no patience'));
    expect(await twin.until(waiting)).toMatchObject({ message: 'no patience' });
    await twin.settle();
    expect((await one.inspect('once:job')).queueDepth).toBe(0);
    work.end('done');
    expect(await twin.until(running)).toMatchObject({ ran: true, value: 'done' });
  });

  it('returns at once if asked to, while another caller does the work', async () => {
    const { twin, one, other } = world();
    const { work, run } = slowWork();
    const first = one.once('charge', run);
    await twin.settle();
    const before = twin.now();
    const events: object[] = [];
    const watched = twin.client({ onEvent: (event) => events.push(event) });
    expect(await twin.until(watched.once('charge', { waitMs: 0 }, run))).toEqual({ ran: false, done: false });
    expect(twin.now()).toBe(before);
    // The caller's log shows that nobody has done the job.
    expect(events).toEqual([{ type: 'not-done', name: 'once:charge', waitedMs: 0 }]);
    const patient = other.once('charge', { waitMs: 5_000 }, run);
    expect(await twin.until(patient)).toEqual({ ran: false, done: false });
    expect(twin.now() - before).toBeLessThan(8_000);
    work.end(1);
    await twin.until(first);
    expect(work.runs).toBe(1);
  });

  it('lets the next caller run after a failure, both one that waits and a later one', async () => {
    const { twin, one, other, third } = world();
    const { work, run } = slowWork();
    const failing = one.once('charge', run);
    await twin.settle();
    const waiting = other.once('charge', () => 'mended');
    await twin.advance(1_000);
    work.fail(new Error('card declined'));
    await expect(twin.until(failing)).rejects.toThrow('card declined');
    expect(await twin.until(waiting)).toMatchObject({ ran: true, value: 'mended' });
    expect(await twin.until(third.once('charge', run))).toMatchObject({ ran: false, value: 'mended' });
  });

  it('closes the key after a failure if asked to, as long as a result would be kept', async () => {
    const { twin, one, other } = world();
    const options: OnceOptions = { onFailure: 'close', keepMs: 60_000 };
    const fail = () => Promise.reject(new TypeError('card declined'));
    await expect(twin.until(one.once('charge', options, fail))).rejects.toThrow('card declined');
    const later = twin.until(other.once('charge', options, () => 1));
    await expect(later).rejects.toThrow(OnceFailedError);
    await expect(later).rejects.toMatchObject({
      code: 'once-failed',
      failure: { name: 'TypeError', message: 'card declined', startedAt: new Date(twin.now()).toISOString() },
    });
    await twin.advance(60_000);
    expect(await other.once('charge', options, () => 1)).toMatchObject({ ran: true, value: 1 });
  });

  it.each([
    ['too large', () => 'x'.repeat(255 * 1024), 'too-large'],
    ['not JSON', () => 1n, undefined],
  ])(
    'closes the key if the result is %s: the work is done, and doing it again would not help',
    async (_, work, code) => {
      const { one, other } = world();
      await expect(one.once<unknown>('charge', work)).rejects.toMatchObject(
        code === undefined ? { name: 'TypeError' } : { code },
      );
      await expect(other.once('charge', () => 1)).rejects.toThrow(OnceFailedError);
    },
  );

  it('counts the bytes of a result, not its characters', async () => {
    const { one, other } = world();
    const tooLarge = 'é'.repeat(200 * 1024);
    await expect(one.once('job', () => tooLarge)).rejects.toMatchObject({ code: 'too-large', status: undefined });
    await expect(other.once('job', () => 'again')).rejects.toThrow(OnceFailedError);
  });

  it('keeps a result of 255 KiB', async () => {
    const { one, other } = world();
    const value = 'x'.repeat(255 * 1024 - 2);
    await one.once('report', () => value);
    expect((await other.once('report', () => '')).value === value).toBe(true);
  });
});

describe('a caller that waits for the result', () => {
  it('gets it even if its own read lock has expired before the answer arrived', async () => {
    const { twin, one, other } = world();
    const { work, run } = slowWork();
    const first = one.once('job', { leaseMs: 60_000 }, run);
    await twin.settle();
    const second = other.once('job', { waitMs: 60_000 }, () => 'again');
    await twin.advance(1_000);
    twin.partition(other);
    work.end('done');
    await twin.until(first);
    await twin.advance(15_000);
    twin.heal(other);
    expect(await twin.until(second)).toEqual({ ran: false, done: true, value: 'done' });
  });
});

describe('a caller that waits after a run has failed', () => {
  /** One caller works and two wait. When the work fails, both know it, and one of them works next. */
  const failed = async () => {
    const { twin, one, other, third } = world();
    const { work, run } = slowWork();
    const first = one.once('job', run);
    await twin.settle();
    return { twin, other, third, work, run, first };
  };

  it('waits no longer than it was asked to, all its waits together', async () => {
    const { twin, other, third, work, run, first } = await failed();
    const beganAt = twin.now();
    const waiting = [other, third].map((client) => client.once('job', { waitMs: 5_000 }, run));
    await twin.advance(3_000);
    work.fail(new Error('card declined'));
    await expect(twin.until(first)).rejects.toThrow('card declined');
    expect(await twin.until(Promise.race(waiting))).toEqual({ ran: false, done: false });
    expect(twin.now() - beganAt).toBe(5_000);
    expect(work.runs).toBe(2);
    work.end('mended');
    await twin.until(Promise.all(waiting));
  });

  it('gives its read lock back before it asks for the lock, so that it does not wait for itself', async () => {
    const { twin, other, work, run, first } = await failed();
    const waiting = other.once('job', run);
    await twin.advance(1_000);
    twin.delay(other, 700, { operation: 'release' });
    const sent = callsOf(other);
    const locksAsked = () => sent.filter(({ operation }) => operation === 'acquireLock').length;
    work.fail(new Error('card declined'));
    await expect(twin.until(first)).rejects.toThrow('card declined');
    await twin.advance(699);
    expect(locksAsked()).toBe(0);
    await twin.advance(1);
    expect(locksAsked()).toBe(1);
    work.end('mended');
    expect(await twin.until(waiting)).toMatchObject({ ran: true, value: 'mended' });
  });

  it('gets a result at once, although its read lock is not given back yet', async () => {
    const { twin, other, work, run, first } = await failed();
    const waiting = other.once('job', run);
    await twin.advance(1_000);
    twin.delay(other, 700, { operation: 'release' });
    const endedAt = twin.now();
    work.end('done');
    await twin.until(first);
    expect(await twin.until(waiting)).toMatchObject({ ran: false, value: 'done' });
    expect(twin.now()).toBe(endedAt);
  });
});

describe('a signal', () => {
  it('ends the first look at the record', async () => {
    const { twin, one } = world();
    twin.delay(one, 1_000, { operation: 'getRecord' });
    const giveUp = new AbortController();
    const ended = one.once('job', { signal: giveUp.signal }, () => 1).catch((error: unknown) => error);
    await twin.settle();
    const beganAt = twin.now();
    giveUp.abort(new Error('no patience'));
    expect(await twin.until(ended)).toMatchObject({ message: 'no patience' });
    expect(twin.now()).toBe(beganAt);
  });
});

describe('the note of a failure', () => {
  const noteOf = async (failure: unknown) => {
    const { twin, one, other } = world();
    const fail = () => Promise.reject(failure);
    await expect(twin.until(one.once('job', { onFailure: 'close' }, fail))).rejects.toBe(failure);
    const { value } = (await other.record('once:job').get()) as { value: { once: string; error: object } };
    return value;
  };

  it('has the name and the message of the error', async () => {
    expect(await noteOf(new TypeError('card declined'))).toMatchObject({
      once: 'failed',
      error: { name: 'TypeError', message: 'card declined' },
    });
  });

  it('has the text of what was thrown, if that is no error', async () => {
    expect((await noteOf('card declined')).error).toEqual({ name: 'Error', message: 'card declined' });
  });

  it('has only the beginning of a long text, so that it always fits', async () => {
    const long = Object.assign(new Error('m'.repeat(300_000)), { name: 'n'.repeat(300_000) });
    expect((await noteOf(long)).error).toEqual({ name: 'n'.repeat(1_000), message: 'm'.repeat(1_000) });
  });

  it('says the same if the result could not be kept', async () => {
    const { one, other } = world();
    await expect(one.once<unknown>('job', () => 1n)).rejects.toThrow(TypeError);
    expect((await other.record('once:job').get())?.value).toMatchObject({ once: 'failed' });
  });
});

describe('the mark of a run', () => {
  /** The answer to the first marks of the client, by their number. */
  const refusedMarks = (client: Holdfast, refusal: (mark: number) => object | undefined) => {
    const transport = transportOf(client);
    const request = transport.request.bind(transport);
    let marks = 0;
    transport.request = async (call, signal) => {
      const body = call.operation === 'putRecord' ? refusal(++marks) : undefined;
      return body === undefined ? request(call, signal) : { status: 412, headers: {}, body };
    };
    return () => marks;
  };
  const changed = { code: 'version-mismatch', detail: 'It has another version.', version: 1 };

  it('is tried again if the record has changed and the work is still to be done', async () => {
    const { one } = world();
    refusedMarks(one, (mark) => (mark <= 2 ? changed : undefined));
    expect(await one.once('job', () => 'mine')).toEqual({ ran: true, done: true, value: 'mine' });
  });

  it('is tried three times at most', async () => {
    const { one } = world();
    const marks = refusedMarks(one, () => changed);
    const { work, run } = slowWork();
    await expect(one.once('job', run)).rejects.toMatchObject({ code: 'version-mismatch' });
    expect([marks(), work.runs]).toEqual([3, 0]);
  });

  it('is not tried again after another refusal', async () => {
    const { one, other } = world();
    const marks = refusedMarks(one, () => ({ code: 'forbidden', detail: 'You may not write.' }));
    const { work, run } = slowWork();
    await expect(one.once('job', run)).rejects.toMatchObject({ code: 'forbidden' });
    expect([marks(), work.runs]).toEqual([1, 0]);
    expect((await other.inspect('once:job')).state).toBe('free');
  });
});

describe('a run that comes too late', () => {
  it('does not do the work again if another caller completed it between its look and its lock', async () => {
    const { twin, one, other } = world();
    twin.delay(one, 1_000, { operation: 'getRecord' });
    const late = one.once('job', () => 'mine');
    await twin.settle();
    expect(await other.once('job', () => 'theirs')).toMatchObject({ ran: true });
    expect(await twin.until(late)).toEqual({ ran: false, done: true, value: 'theirs' });
  });

  it('belongs to the window in which it began, by whichever clock of the service is later', async () => {
    const { twin, one, other } = world();
    const hourly = { everyMs: 3_600_000 };
    await one.once('job', hourly, () => 1);
    await twin.advance(3_601_000);
    // The host that writes the mark is two seconds behind the one that read the record.
    const transport = transportOf(one);
    const request = transport.request.bind(transport);
    transport.request = async (call, signal) => {
      const answer = await request(call, signal);
      if (call.operation !== 'putRecord') return answer;
      const body = answer.body as { updatedAt: string };
      const updatedAt = new Date(Date.parse(body.updatedAt) - 2_000).toISOString();
      return { ...answer, body: { ...body, updatedAt } };
    };
    expect(await one.once('job', hourly, () => 2)).toMatchObject({ ran: true });
    expect(await other.once('job', hourly, () => 3)).toMatchObject({ ran: false, value: 2 });
  });

  it('finds the record of a window for a minute after its end, because clocks differ', async () => {
    const { twin, one } = world();
    await twin.advance(1_000_000);
    await one.once('job', { everyMs: 3_600_000 }, () => 1);
    expect((await one.record('once:job').get())?.remainingMs).toBe(2_600_000 + 60_000);
  });
});

describe('a job of a client that fails open', () => {
  it('is not done without the lock', async () => {
    const { twin } = world();
    const client = twin.client({ tier: 'efficiency', onUnavailable: 'fail-open' });
    twin.loseRequest(client, { operation: 'acquire', times: 1_000 });
    const { work, run } = slowWork();
    await expect(twin.until(client.once('job', run))).rejects.toMatchObject({ code: 'unavailable' });
    expect(work.runs).toBe(0);
  });
});

describe('once in each window', () => {
  it('runs once per window, from the first moment of a window to its last', async () => {
    const { twin, one, other } = world();
    let runs = 0;
    const work = () => ++runs;
    // The twin begins at midnight.
    expect(await one.once('nightly', daily, work)).toMatchObject({ ran: true, value: 1 });
    await twin.advance(dayMs - 1);
    expect(await other.once('nightly', daily, work)).toMatchObject({ ran: false, value: 1 });
    await twin.advance(1);
    expect(await other.once('nightly', daily, work)).toMatchObject({ ran: true, value: 2 });
    // The record of the first day lasts another minute, but must no longer count.
    expect(await one.once('nightly', daily, work)).toMatchObject({ ran: false, value: 2 });
    await twin.advance(3 * dayMs);
    expect(await one.once('nightly', daily, work)).toMatchObject({ ran: true, value: 3 });
  });

  it('begins windows at the given offset', async () => {
    const { twin, one } = world();
    const options = { everyMs: dayMs, offsetMs: 7_200_000 };
    await one.once('nightly', options, () => 1);
    await twin.advance(7_199_999);
    expect(await one.once('nightly', options, () => 2)).toMatchObject({ ran: false, value: 1 });
    await twin.advance(1);
    expect(await one.once('nightly', options, () => 2)).toMatchObject({ ran: true, value: 2 });
  });

  it('counts a run in the window in which it began', async () => {
    const { twin, one, other } = world();
    await twin.advance(dayMs - 1_000);
    const { work, run } = slowWork();
    const late = one.once('nightly', daily, run);
    await twin.advance(60_000);
    work.end('of yesterday');
    await twin.until(late);
    expect(await other.once('nightly', daily, () => 'of today')).toMatchObject({ ran: true, value: 'of today' });
    expect(await one.once('nightly', daily, () => 'again')).toMatchObject({ ran: false, value: 'of today' });
  });

  it('uses the clock of the service, even if the clocks of the callers differ', async () => {
    const { twin, one } = world();
    // This clock is half a century behind. A caller that used its own clock would see another window.
    const runtime = { ...systemRuntime, wallMs: () => 0 };
    const astray = new Holdfast({ namespace: twin.namespace, transport: transportOf(twin.client()), runtime });
    expect(await astray.once('nightly', daily, () => 1)).toMatchObject({ ran: true });
    await twin.advance(dayMs - 1);
    expect(await one.once('nightly', daily, () => 2)).toMatchObject({ ran: false, value: 1 });
    expect(await astray.once('nightly', daily, () => 2)).toMatchObject({ ran: false, value: 1 });
    await twin.advance(1);
    expect(await astray.once('nightly', daily, () => 2)).toMatchObject({ ran: true, value: 2 });
    expect(await one.once('nightly', daily, () => 3)).toMatchObject({ ran: false, value: 2 });
  });

  it('is done again by another caller in the same window if the runner died', async () => {
    const { twin, one, other } = world();
    const { run } = slowWork();
    void one.once('nightly', { ...daily, leaseMs: 10_000 }, run).catch(() => undefined);
    await twin.settle();
    twin.partition(one);
    const before = twin.now();
    expect(await twin.until(other.once('nightly', daily, () => 'done'))).toMatchObject({ ran: true, value: 'done' });
    expect(twin.now() - before).toBeLessThan(15_000);
  });
});

describe('a runner that paused', () => {
  const paused = async (onFailure?: 'close') => {
    const { twin, one, other, third } = world();
    const { work, run } = slowWork();
    const late = one.once('nightly', { ...daily, leaseMs: 10_000, onFailure }, run);
    late.catch(() => undefined);
    await twin.settle();
    twin.freeze(one);
    await twin.advance(20_000);
    return { twin, one, other, third, work, late };
  };

  it('cannot overwrite the result of another runner, and gets that result', async () => {
    const { twin, one, other, work, late } = await paused();
    await other.once('nightly', daily, () => 'theirs');
    await twin.thaw(one);
    work.end('mine');
    await expect(twin.until(late)).rejects.toThrow(StaleFenceError);
    expect(await other.once('nightly', daily, () => 'again')).toMatchObject({ ran: false, value: 'theirs' });
  });

  it('cannot complete while another one runs', async () => {
    const { twin, one, other, third, work, late } = await paused();
    const { work: current, run } = slowWork();
    const running = other.once('nightly', daily, run);
    await twin.settle();
    await twin.thaw(one);
    work.end('mine');
    await expect(twin.until(late)).rejects.toThrow(StaleFenceError);
    current.end('theirs');
    expect(await twin.until(running)).toMatchObject({ ran: true, value: 'theirs' });
    expect(await third.once('nightly', daily, () => 'again')).toMatchObject({ ran: false, value: 'theirs' });
  });

  it('cannot close the key with its failure after another one has completed', async () => {
    const { twin, one, other, work, late } = await paused('close');
    await other.once('nightly', daily, () => 'theirs');
    await twin.thaw(one);
    work.fail(new Error('mine'));
    await expect(twin.until(late)).rejects.toThrow('mine');
    expect(await other.once('nightly', daily, () => 'again')).toMatchObject({ ran: false, value: 'theirs' });
  });

  it('completes if nobody has begun since, because its result is the only one', async () => {
    const { twin, one, other, work, late } = await paused();
    await twin.thaw(one);
    work.end('mine');
    expect(await twin.until(late)).toMatchObject({ ran: true, value: 'mine' });
    expect(await other.once('nightly', daily, () => 'again')).toMatchObject({ ran: false, value: 'mine' });
  });
});

describe('what it asks', () => {
  /** The operations that a client sends while the work is done. */
  const callsOf = async (client: Holdfast, act: () => Promise<unknown>): Promise<string[]> => {
    const transport = transportOf(client);
    const sent: string[] = [];
    const request = transport.request.bind(transport);
    transport.request = (call, signal) => {
      sent.push(call.operation);
      return request(call, signal);
    };
    try {
      await act();
    } finally {
      transport.request = request;
    }
    return sent;
  };

  it.each([
    ['a key', {}],
    ['a window', daily],
  ])('is five requests for the first run and one for each later one: %s', async (_, options) => {
    const { one, other } = world();
    const first = await callsOf(one, () => one.once('job', options, () => 1));
    expect(first).toEqual(['getRecord', 'acquireLock', 'putRecord', 'putRecord', 'releaseLock']);
    expect(await callsOf(other, () => other.once('job', options, () => 2))).toEqual(['getRecord']);
  });

  it.each([
    [{ everyMs: 999 }, 'everyMs'],
    [{ everyMs: 31_536_000_001 }, 'everyMs'],
    [{ keepMs: 1.5 }, 'keepMs'],
    [{ everyMs: 60_000, keepMs: 60_000 }, 'keepMs'],
    [{ offsetMs: 5 }, 'offsetMs'],
    [{ offsetMs: 0 }, 'offsetMs'],
    [{ everyMs: 60_000, offsetMs: 60_000 }, 'offsetMs'],
  ] as [OnceOptions, string][])('refuses %o and sends nothing', async (options, field) => {
    const { one } = world();
    const sent = await callsOf(one, async () => {
      await expect(one.once('job', options, () => 1)).rejects.toMatchObject({ errors: [{ field }] });
      await expect(one.once('not a name', () => 1)).rejects.toThrow(InvalidRequestError);
    });
    expect(sent).toEqual([]);
  });

  it('accepts the shortest and the longest spans', async () => {
    const { one } = world();
    for (const span of [1_000, 31_536_000_000]) {
      expect(await one.once(`every:${span}`, { everyMs: span, offsetMs: 0 }, () => 1)).toMatchObject({ ran: true });
      expect(await one.once(`keep:${span}`, { keepMs: span }, () => 1)).toMatchObject({ ran: true });
    }
  });

  it('is two requests if it does not wait for another caller', async () => {
    const { twin, one, other } = world();
    const { work, run } = slowWork();
    const running = one.once('job', run);
    await twin.settle();
    expect(await callsOf(other, () => other.once('job', { waitMs: 0 }, run))).toEqual(['getRecord', 'acquireLock']);
    work.end(1);
    await twin.until(running);
  });

  it.each([[{ mine: true }], [null]])('does not touch the record %j that another program wrote', async (value) => {
    const { one } = world();
    await one.record('once:job').put(value, 'absent');
    await expect(one.once('job', () => 1)).rejects.toMatchObject({ code: 'unexpected-answer' });
    expect(await one.record('once:job').get()).toMatchObject({ version: 1 });
  });
});
