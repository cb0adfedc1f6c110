import { describe, expect, it } from 'vitest';
import type { LockView } from '../../../src/client/index.ts';
import { LockBook } from '../../../src/console/model/book.ts';
import { brokenCycleOf, cyclesOf, partiesOf } from '../../../src/console/model/wait-graph.ts';
import { event, holder, start, view, waiter } from './example.ts';

type Claim = readonly [owner: string, session?: string];

const lockOf = (lock: string, holders: readonly Claim[], queue: readonly Claim[] = []): LockView =>
  view({
    lock,
    holders: holders.map(([owner, sessionId], index) => ({
      ...holder(owner, index + 1, 0),
      ...(sessionId === undefined ? {} : { sessionId }),
    })),
    queue: queue.map(([owner, sessionId], index) => ({
      ...waiter(owner, index + 1, 100),
      ...(sessionId === undefined ? {} : { sessionId }),
    })),
    queueDepth: queue.length,
  });

function bookOf(...locks: LockView[]): LockBook {
  const book = new LockBook();
  for (const lock of locks) book.takeLook(lock, start);
  return book;
}

const cycles = (book: LockBook) =>
  cyclesOf(partiesOf(book)).map(({ steps }) => steps.map(({ owner, waitsFor }) => `${owner}→${waitsFor}`));

describe('circles of waits', () => {
  it('are found once, by session', () => {
    const book = bookOf(
      lockOf('a', [['ada', 's1']], [['bob', 's2']]),
      lockOf('b', [['bob', 's2']], [['ada', 's1']]),
      lockOf('c', [['bob', 's2']], [['eve', 's3']]),
    );
    expect(cycles(book)).toEqual([['ada→b', 'bob→a']]);
  });

  it('are found by the names of owners if there is no session', () => {
    const book = bookOf(
      lockOf('a', [['ada']], [['bob']]),
      lockOf('b', [['bob']], [['eve']]),
      lockOf('c', [['eve']], [['ada']]),
    );
    expect(cycles(book)).toEqual([['ada→c', 'eve→b', 'bob→a']]);
  });

  it('are not made of two sessions of one owner', () => {
    const book = bookOf(lockOf('a', [['ada', 's1']], [['bob', 's2']]), lockOf('b', [['bob', 's9']], [['ada', 's1']]));
    expect(cycles(book)).toEqual([]);
  });

  it('do not include a party that waits for a lock that it holds itself', () => {
    expect(cycles(bookOf(lockOf('a', [['worker']], [['worker']])))).toEqual([]);
  });

  it('are found in limited time in a large deadlock', () => {
    const names = Array.from({ length: 12 }, (_, index) => `n${index}`);
    const knot = names.map((name) =>
      lockOf(
        name,
        [[name]],
        names.filter((other) => other !== name).map((other) => [other]),
      ),
    );
    expect(cycles(bookOf(...knot)).length).toBeGreaterThan(0);
  });

  it('are reconstructed after the service has resolved one', () => {
    const book = bookOf(lockOf('a', [['ada', 's1']], [['bob', 's2']]), lockOf('b', [['bob', 's2']]));
    const refused = event('wait-cancelled', 'ada', 1_000, { lock: 'b', reason: 'deadlock' });
    expect(brokenCycleOf(book, refused)).toMatchObject({
      brokenAt: start + 1_000,
      steps: [
        { owner: 'ada', sessionId: 's1', waitsFor: 'b' },
        { owner: 'bob', sessionId: 's2', waitsFor: 'a' },
      ],
    });
    expect(brokenCycleOf(book, event('wait-cancelled', 'ada', 1_000, { lock: 'b' }))).toBeUndefined();
  });
});
