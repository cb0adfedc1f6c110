import { describe, expect, it } from 'vitest';
import { checkByKey, checkLinearizable, describeVerdict } from '../support/linearizability.ts';
import {
  type LockInput,
  type LockOperation,
  type LockOutput,
  mutexSpecification,
  type RecordInput,
  type RecordOperation,
  type RecordOutput,
  recordSpecification,
  relevantOf,
} from '../support/lock-histories.ts';

const mutex = mutexSpecification(0);
const leaseMs = 1_000;

const lock = (
  process: string,
  kind: LockInput['kind'],
  [calledAt, returnedAt]: readonly [number, number?],
  output?: LockOutput,
): LockOperation => ({
  process,
  input:
    kind === 'release' ? { kind, leaseId: `lease of ${process}` } : { kind, leaseId: `lease of ${process}`, leaseMs },
  calledAt,
  ...(returnedAt === undefined || output === undefined ? {} : { answer: { output, returnedAt } }),
});
const granted = (fence: number): LockOutput => ({ kind: 'granted', fence });
const refused: LockOutput = { kind: 'refused' };
const released: LockOutput = { kind: 'released', first: true };
const repeated: LockOutput = { kind: 'released', first: false };
const judge = (...history: LockOperation[]) => checkLinearizable(mutex, history).kind;

describe('checkLinearizable of a mutex', () => {
  it('accepts holders one after the other', () => {
    expect(
      judge(
        lock('a', 'acquire', [0, 1], granted(7)),
        lock('b', 'acquire', [2, 3], refused),
        lock('a', 'release', [4, 5], released),
        lock('b', 'acquire', [6, 7], granted(8)),
      ),
    ).toBe('linearizable');
  });

  it('accepts a grant that overlaps the release which made it possible', () => {
    expect(
      judge(
        lock('a', 'acquire', [0, 1], granted(7)),
        lock('b', 'acquire', [2, 20], granted(8)),
        lock('a', 'release', [10, 30], released),
      ),
    ).toBe('linearizable');
  });

  it('refuses two holders at once', () => {
    expect(judge(lock('a', 'acquire', [0, 1], granted(7)), lock('b', 'acquire', [2, 3], granted(8)))).toBe('violated');
  });

  it('accepts a second holder once the first lease may have run out, and not a millisecond earlier', () => {
    const first = lock('a', 'acquire', [0, 1], granted(7));
    expect(judge(first, lock('b', 'acquire', [2, leaseMs], granted(8)))).toBe('linearizable');
    expect(judge(first, lock('b', 'acquire', [2, leaseMs - 1], granted(8)))).toBe('violated');
  });

  it('refuses a fence that does not rise', () => {
    const [taken, given] = [lock('a', 'acquire', [0, 1], granted(7)), lock('a', 'release', [2, 3], released)];
    expect(judge(taken, given, lock('b', 'acquire', [4, 5], granted(7)))).toBe('violated');
    expect(judge(taken, given, lock('b', 'acquire', [4, 5], granted(6)))).toBe('violated');
  });

  it('accepts a lost acquire that took effect, as well as one that did not', () => {
    const lost = lock('a', 'acquire', [0]);
    expect(judge(lost, lock('b', 'acquire', [5, 6], granted(7)))).toBe('linearizable');
    expect(judge(lost, lock('a', 'acquire', [5, 6], granted(7)), lock('a', 'acquire', [7, 8], granted(7)))).toBe(
      'linearizable',
    );
    expect(judge(lost, lock('a', 'release', [5, 6], released), lock('b', 'acquire', [7, 8], granted(7)))).toBe(
      'linearizable',
    );
  });

  it('refuses a repeat that gets another fence', () => {
    expect(judge(lock('a', 'acquire', [0, 1], granted(7)), lock('a', 'acquire', [2, 3], granted(8)))).toBe('violated');
  });

  it('refuses a lease that takes the lock again after it was released', () => {
    expect(
      judge(
        lock('a', 'acquire', [0, 1], granted(7)),
        lock('a', 'release', [2, 3], released),
        lock('a', 'acquire', [4, 5], granted(8)),
      ),
    ).toBe('violated');
  });

  it('refuses a renewal of what was released, and one by somebody else', () => {
    const taken = lock('a', 'acquire', [0, 1], granted(7));
    expect(judge(taken, lock('a', 'release', [2, 3], released), lock('a', 'renew', [4, 5], granted(7)))).toBe(
      'violated',
    );
    expect(judge(taken, lock('b', 'renew', [4, 5], granted(7)))).toBe('violated');
  });

  it('lets a renewal push the end out', () => {
    const [taken, renewed] = [lock('a', 'acquire', [0, 1], granted(7)), lock('a', 'renew', [900, 901], granted(7))];
    expect(judge(taken, renewed, lock('b', 'acquire', [902, 1_500], granted(8)))).toBe('violated');
    expect(judge(taken, renewed, lock('b', 'acquire', [902, 1_900], granted(8)))).toBe('linearizable');
  });

  it('refuses to call a lease released that is in force', () => {
    expect(judge(lock('a', 'acquire', [0, 1], granted(7)), lock('a', 'release', [2, 3], repeated))).toBe('violated');
  });

  it('lets a lost acquire take over only once the lease before it may have run out', () => {
    const [taken, lost] = [lock('a', 'acquire', [0, 1], granted(7)), lock('b', 'acquire', [2])];
    expect(judge(taken, lost, lock('b', 'renew', [10, 20], granted(8)))).toBe('violated');
    expect(judge(taken, lost, lock('b', 'renew', [10, leaseMs], granted(8)))).toBe('linearizable');
  });

  it('says how far it came', () => {
    const verdict = checkLinearizable(mutex, [
      lock('a', 'acquire', [0, 1], granted(7)),
      lock('b', 'acquire', [2, 3], granted(8)),
    ]);
    expect(describeVerdict('wallet', verdict)).toContain('None of these can come next:\n  [2, 3] b');
  });

  it('decides a long history with many lost answers', () => {
    const history = Array.from({ length: 200 }, (_, turn) => [
      lock(`lost ${turn}`, 'acquire', [turn * 10]),
      lock(`p${turn}`, 'acquire', [turn * 10 + 1, turn * 10 + 2], granted(turn + 1)),
      lock(`p${turn}`, 'release', [turn * 10 + 3, turn * 10 + 4], released),
    ]).flat();
    expect(checkLinearizable(mutex, history).kind).toBe('linearizable');
  });
});

describe('relevantOf', () => {
  it('leaves out what was refused, and what was lost of leases that no answer shows', () => {
    const kept = [
      lock('a', 'acquire', [0]),
      lock('a', 'acquire', [1, 2], granted(7)),
      lock('a', 'release', [3]),
      lock('a', 'release', [4, 5], repeated),
    ];
    const dropped = [
      lock('b', 'acquire', [0, 1], refused),
      lock('c', 'acquire', [0]),
      lock('c', 'release', [1]),
      lock('a', 'renew', [2]),
    ];
    expect(relevantOf([...kept, ...dropped])).toEqual(kept);
  });

  it('keeps every violation', () => {
    const bad = [lock('a', 'acquire', [0, 1], granted(7)), lock('b', 'acquire', [2, 3], granted(8))];
    expect(judge(...relevantOf(bad))).toBe('violated');
  });
});

const record = (
  process: string,
  input: RecordInput,
  [calledAt, returnedAt]: readonly [number, number?],
  output?: RecordOutput,
): RecordOperation => ({
  process,
  input,
  calledAt,
  ...(returnedAt === undefined || output === undefined ? {} : { answer: { output, returnedAt } }),
});
const put = (
  value: string,
  expects: number | 'absent' | 'present',
  more: { fence?: number; writeId?: string } = {},
) => ({
  kind: 'put' as const,
  value,
  expects,
  writeId: `write of ${value}`,
  ...more,
});
const get = { kind: 'get' as const };
const written = (version: number): RecordOutput => ({ kind: 'written', version });
const found = (value: string, version: number): RecordOutput => ({ kind: 'found', value, version });
const judgeRecord = (...history: RecordOperation[]) => checkLinearizable(recordSpecification, history).kind;

describe('checkLinearizable of a record', () => {
  const created = record('a', put('x', 'absent'), [0, 1], written(1));

  it('accepts reads that see each write when it is made', () => {
    expect(
      judgeRecord(
        created,
        record('b', put('y', 1), [2, 10], written(2)),
        record('c', get, [3, 4], found('x', 1)),
        record('c', get, [5, 6], found('y', 2)),
      ),
    ).toBe('linearizable');
  });

  it('refuses a read that goes back in time', () => {
    expect(
      judgeRecord(
        created,
        record('b', put('y', 1), [2, 10], written(2)),
        record('c', get, [3, 4], found('y', 2)),
        record('d', get, [5, 6], found('x', 1)),
      ),
    ).toBe('violated');
  });

  it('refuses two writes that replace one version', () => {
    expect(
      judgeRecord(created, record('b', put('y', 1), [2, 9], written(2)), record('c', put('z', 1), [3, 8], written(2))),
    ).toBe('violated');
  });

  it('accepts a lost write that is read much later, and its own repeat', () => {
    const lost = record('b', put('y', 1), [2]);
    expect(
      judgeRecord(created, lost, record('c', get, [5, 6], found('x', 1)), record('c', get, [7, 8], found('y', 2))),
    ).toBe('linearizable');
    expect(judgeRecord(created, lost, record('b', put('y', 1), [5, 6], written(2)))).toBe('linearizable');
  });

  it('refuses an acknowledged write that is gone', () => {
    expect(judgeRecord(created, record('c', get, [2, 3], { kind: 'none' }))).toBe('violated');
  });

  it('refuses a stale fence that was let in, and a version that restarts after a deletion', () => {
    const fenced = record('a', put('x', 'absent', { fence: 5 }), [0, 1], written(1));
    expect(judgeRecord(fenced, record('b', put('y', 1, { fence: 4 }), [2, 3], written(2)))).toBe('violated');
    const deleted = record('a', { kind: 'delete', expects: 1, writeId: 'deletion' }, [2, 3], written(2));
    expect(judgeRecord(created, deleted, record('a', put('z', 'absent'), [4, 5], written(3)))).toBe('linearizable');
    expect(judgeRecord(created, deleted, record('a', put('z', 'absent'), [4, 5], written(1)))).toBe('violated');
  });
});

describe('checkByKey', () => {
  it('judges each key by itself', () => {
    const bad = [lock('a', 'acquire', [0, 1], granted(7)), lock('b', 'acquire', [2, 3], granted(8))];
    const { violated, undecided } = checkByKey(
      mutex,
      new Map([
        ['good', bad.slice(0, 1)],
        ['bad', bad],
      ]),
    );
    expect([...violated.keys()]).toEqual(['bad']);
    expect(undecided).toEqual([]);
  });
});
