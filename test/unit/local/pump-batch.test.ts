import { describe, expect, it } from 'vitest';
import { afterAttempt, judge, type Plan, wholeBatch } from '../../../src/local/pump/batch.ts';

const sequenceNumbers = ['9', '10', '11'];
const failing = (...itemIdentifiers: unknown[]) => ({
  batchItemFailures: itemIdentifiers.map((itemIdentifier) => ({ itemIdentifier })),
});

describe('judge', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['an empty object', {}],
    ['a null list', { batchItemFailures: null }],
    ['an empty list', failing()],
  ])('takes %s for success', (_, response) => {
    expect(judge(sequenceNumbers, response)).toEqual({ kind: 'taken' });
  });

  it('goes back to the earliest record that is named, in the order of the batch and not of the text', () => {
    expect(judge(sequenceNumbers, failing('11', '10'))).toEqual({ kind: 'failed-from', index: 1 });
    expect(judge(sequenceNumbers, failing('10', '9'))).toEqual({ kind: 'failed-from', index: 0 });
  });

  it.each([
    ['an empty identifier', failing('')],
    ['a null identifier', failing(null)],
    ['a misspelt key', { batchItemFailures: [{ itemIdentifer: '10' }] }],
    ['a record of another batch', failing('10', '77')],
    ['a null entry', { batchItemFailures: [null] }],
    ['something that is no list', { batchItemFailures: 'all of them' }],
  ])('fails the whole batch for %s', (_, response) => {
    expect(judge(sequenceNumbers, response)).toEqual({ kind: 'failed' });
  });
});

describe('afterAttempt', () => {
  const retriesMax = 2;

  it('goes on after the records that were taken, with all that are left', () => {
    const step = afterAttempt(100, { size: 25, within: 25, failures: 2 }, { kind: 'taken' }, retriesMax);
    expect(step).toEqual({ taken: 25, exhausted: false, next: wholeBatch(75) });
  });

  it('keeps the records before the first failure and sends the rest again', () => {
    const plan = { size: 10, within: 10, failures: 2 };
    const step = afterAttempt(10, plan, { kind: 'failed-from', index: 4 }, retriesMax);
    expect(step).toEqual({ taken: 4, exhausted: false, next: { size: 6, within: 6, failures: 1 } });
  });

  it('halves a batch of which no record is known to be the bad one, without counting a retry', () => {
    const step = afterAttempt(7, wholeBatch(7), { kind: 'failed' }, retriesMax);
    expect(step).toEqual({ taken: 0, exhausted: false, next: { size: 4, within: 7, failures: 0 } });
  });

  it('looks for the bad record in the other half once the first was taken', () => {
    const step = afterAttempt(100, { size: 4, within: 7, failures: 0 }, { kind: 'taken' }, retriesMax);
    expect(step).toEqual({ taken: 4, exhausted: false, next: wholeBatch(3) });
  });

  it('gives up the record that failed once more than the retries allow, and it alone', () => {
    const verdict = { kind: 'failed-from', index: 0 } as const;
    const second = afterAttempt(5, { size: 5, within: 5, failures: 1 }, verdict, retriesMax);
    expect(second).toEqual({ taken: 0, exhausted: false, next: { size: 5, within: 5, failures: 2 } });
    const third = afterAttempt(5, second.next, verdict, retriesMax);
    expect(third).toEqual({ taken: 0, exhausted: true, next: wholeBatch(4) });
  });

  it('gives up at once if there are no retries, even in the middle of a batch', () => {
    const step = afterAttempt(5, wholeBatch(5), { kind: 'failed-from', index: 3 }, 0);
    expect(step).toEqual({ taken: 3, exhausted: true, next: wholeBatch(1) });
  });

  it.each([0, 1, 49, 50, 98, 99])('isolates a record at place %i of 100 that makes the handler throw', (poison) => {
    let plan: Plan = wholeBatch(100);
    let first = 0;
    let calls = 0;
    const gaveUp: number[] = [];
    while (first < 100) {
      calls += 1;
      const isHit = poison >= first && poison < first + plan.size;
      const step = afterAttempt(100 - first, plan, { kind: isHit ? 'failed' : 'taken' }, retriesMax);
      if (step.exhausted) gaveUp.push(first + step.taken);
      first += step.taken + (step.exhausted ? 1 : 0);
      plan = step.next;
    }
    expect(gaveUp).toEqual([poison]);
    // Seven halvings, at most as many calls with the good halves, the attempts at the bad one, and the rest.
    expect(calls).toBeLessThanOrEqual(7 + 7 + (1 + retriesMax) + 1);
  });
});
