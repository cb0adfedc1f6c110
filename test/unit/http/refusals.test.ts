import { describe, expect, it } from 'vitest';
import type { ProblemCode } from '../../../src/contract/problems.ts';
import { Problem, toProblem } from '../../../src/http/problems.ts';
import { countRefusals } from '../../../src/http/refusals.ts';
import type { Request } from '../../../src/http/request.ts';
import { StoreError, type StoreErrorCode } from '../../../src/table/store-error.ts';

describe('a refusal', () => {
  const countedFor = (code: ProblemCode, parameters: Record<string, string>) => {
    const recorded: unknown[] = [];
    const meter = {
      record: (measures: readonly unknown[]) => recorded.push(...measures),
      flush: () => recorded.push('flushed'),
    };
    countRefusals(meter as never)(new Problem(code, 'no'), { parameters } as unknown as Request);
    return recorded;
  };

  it('is counted by its namespace if it shows contention or a write that came too late', () => {
    const counted = (name: string) => [{ namespace: 'orders', name, unit: 'Count', value: 1 }, 'flushed'];
    expect(countedFor('lock-held', { ns: 'orders' })).toEqual(counted('Refusals'));
    expect(countedFor('stale-fence', { ns: 'orders' })).toEqual(counted('StaleFences'));
  });

  it('is not counted otherwise', () => {
    expect(countedFor('not-found', { ns: 'orders' })).toEqual([]);
    expect(countedFor('lock-held', {})).toEqual([]);
  });
});

describe('a failure of the store', () => {
  it.each<[StoreErrorCode, ProblemCode, number]>([
    ['unavailable', 'unavailable', 1_000],
    ['throttled', 'throttled', 500],
    ['conflict', 'throttled', 100],
    ['too-large', 'queue-full', 1_000],
    ['unreadable', 'unavailable', 5_000],
  ])('that is %s is answered as %s, to be repeated after %i ms', (code, answered, retryAfterMs) => {
    const error = new StoreError(code, 'It is so.');
    expect(toProblem(error)).toMatchObject({
      ...{ name: 'Problem', code: answered, message: 'It is so. Repeat the same request.' },
      ...{ fields: { retryAfterMs }, headers: {}, cause: error },
    });
  });

  it('that nobody expected is answered without its text', () => {
    expect(toProblem(new Error('a secret')).toJSON()).toEqual({
      ...{ type: 'urn:holdfast:problem:internal', title: expect.any(String), status: 500, code: 'internal' },
      detail: 'The service failed. The log has the cause under this request id.',
    });
  });

  it('that is a problem already is answered as it is', () => {
    const problem = new Problem('not-found', 'no');
    expect(toProblem(problem)).toBe(problem);
  });
});
