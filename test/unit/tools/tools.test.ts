import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { backoffMs, steadyBackoffMs } from '../../../src/tools/backoff.ts';
import { BoundedMap, defined } from '../../../src/tools/collections.ts';
import { errorText, reasonOf, rootCauseOf } from '../../../src/tools/error-text.ts';
import { forEachAtMost } from '../../../src/tools/pool.ts';
import { requireWithin, withinLimit } from '../../../src/tools/time-limit.ts';
import { Turns } from '../../../src/tools/turns.ts';

describe('backoffMs', () => {
  it('is random up to a limit that doubles with each attempt and then stays', () => {
    expect([0, 1, 2, 10, 1_000_000].map((attempt) => backoffMs(attempt, 50, 1_000, () => 1))).toEqual([
      50, 100, 200, 1_000, 1_000,
    ]);
    expect(backoffMs(3, 50, 1_000, () => 0)).toBe(0);
  });

  it('has a steady form that never goes below half of the limit', () => {
    expect([0, 1, 10].map((attempt) => steadyBackoffMs(attempt, 50, 1_000, () => 0))).toEqual([25, 50, 500]);
    expect([0, 1, 10].map((attempt) => steadyBackoffMs(attempt, 50, 1_000, () => 1))).toEqual([50, 100, 1_000]);
  });
});

describe('BoundedMap', () => {
  it('forgets the entry that was set longest ago', () => {
    const map = new BoundedMap<string, number>(2);
    map.set('a', 1).set('b', 2).set('a', 3).set('c', 4);
    expect([...map]).toEqual([
      ['a', 3],
      ['c', 4],
    ]);
  });
});

describe('defined', () => {
  it('leaves out what is undefined, and nothing else', () => {
    expect(defined({ a: undefined, b: null, c: 0 })).toStrictEqual({ b: null, c: 0 });
  });
});

describe('forEachAtMost', () => {
  it('keeps to the limit, does every item and throws the first error at the end', async () => {
    let underWay = 0;
    let most = 0;
    const done: number[] = [];
    const running = forEachAtMost([1, 2, 3, 4, 5, 6, 7], 3, async (n) => {
      underWay += 1;
      most = Math.max(most, underWay);
      await new Promise((resolve) => setImmediate(resolve));
      underWay -= 1;
      done.push(n);
      if (n % 3 === 0) throw new Error(`no ${n}`);
    });
    await expect(running).rejects.toThrow('no 3');
    expect(most).toBe(3);
    expect(done).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it('ends without an error if nothing fails', async () => {
    await expect(forEachAtMost([1, 2, 3], 2, async () => {})).resolves.toBeUndefined();
  });

  it('reads on only below the limit', async () => {
    let read = 0;
    const items = async function* () {
      for (;;) yield read++;
    };
    const never = new Promise<void>(() => {});
    void forEachAtMost(items(), 4, () => never);
    await new Promise((resolve) => setImmediate(resolve));
    expect(read).toBe(4);
  });
});

describe('withinLimit', () => {
  it('returns the value, the error, or that it is late', async () => {
    const time = new VirtualTime();
    const never = new Promise<number>(() => {});
    const late = withinLimit(never, 100, time);
    const strict = requireWithin(never, 100, time);
    strict.catch(() => {});
    await time.advance(99);
    expect(time.nextAt).toBe(time.now() + 1);
    await time.advance(1);
    expect(await late).toEqual({ kind: 'late' });
    await expect(strict).rejects.toThrow('No answer within 100 ms.');
    expect(await withinLimit(Promise.resolve(7), 100, time)).toEqual({ kind: 'done', value: 7 });
    expect(await requireWithin(Promise.resolve(7), 100, time)).toBe(7);
    await expect(withinLimit(Promise.reject(new Error('broken')), 100, time)).rejects.toThrow('broken');
    expect(time.nextAt).toBeUndefined();
  });
});

describe('errorText', () => {
  it('shows the code of an error without a message, such as a refused connection', () => {
    const refused = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' });
    expect(errorText(refused)).toBe('AggregateError: ECONNREFUSED');
    expect(reasonOf(refused)).toBe('ECONNREFUSED');
  });

  it('shows nothing of the request that an error carries', () => {
    const error = Object.assign(new Error('refused'), { request: 'leaseId=secret' });
    expect(errorText(error)).toBe('Error: refused');
  });

  it('shows what was thrown if it is no error', () => {
    expect([errorText('broken'), errorText(undefined)]).toEqual(['broken', 'undefined']);
    expect([reasonOf('broken'), reasonOf(new TypeError())]).toEqual(['broken', 'TypeError']);
    expect(reasonOf(new Error('refused'))).toBe('refused');
  });
});

describe('rootCauseOf', () => {
  it('is the innermost error', () => {
    const inner = new Error('refused', { cause: 'no error' });
    expect(rootCauseOf(new Error('fetch failed', { cause: new Error('between', { cause: inner }) }))).toBe(inner);
    expect(rootCauseOf(inner)).toBe(inner);
  });
});

describe('Turns', () => {
  it('lets as many work as it may, and the others in order, without those who left', async () => {
    const turns = new Turns(2);
    const began: number[] = [];
    const taken = [0, 1, 2, 3, 4].map((index) => {
      const turn = turns.take();
      void turn.ready.then(() => began.push(index));
      return turn;
    });
    const settled = () => new Promise(setImmediate);
    await settled();
    expect(began).toEqual([0, 1]);
    taken[2]?.end();
    // Twice: it must not count as two.
    taken[1]?.end();
    taken[1]?.end();
    await settled();
    expect(began).toEqual([0, 1, 3]);
    taken[0]?.end();
    await settled();
    expect(began).toEqual([0, 1, 3, 4]);
    // Nobody is left in the line.
    for (const { end } of taken) expect(end).not.toThrow();
    const { ready } = turns.take();
    await expect(ready).resolves.toBeUndefined();
  });
});
