import { describe, expect, it } from 'vitest';
import { checkByKey, checkLinearizable, describeVerdict, type Operation } from '../support/linearizability.ts';
import {
  forgettableIn,
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
import { Chance } from '../world/chance.ts';

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

  it('accepts a second holder after the first lease may have expired, and not a millisecond earlier', () => {
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

  it('accepts that only from when the lock may have forgotten the lease', () => {
    const history = [
      lock('a', 'acquire', [0, 1], granted(7)),
      lock('a', 'release', [2, 3], released),
      lock('a', 'acquire', [4, 5], granted(8)),
    ];
    const forgottenAt = (at: number) => mutexSpecification(0, (_, by) => by >= at);
    expect(checkLinearizable(forgottenAt(5), history).kind).toBe('linearizable');
    expect(checkLinearizable(forgottenAt(6), history).kind).toBe('violated');
  });

  it('refuses a renewal of a released lease, and one by somebody else', () => {
    const taken = lock('a', 'acquire', [0, 1], granted(7));
    expect(judge(taken, lock('a', 'release', [2, 3], released), lock('a', 'renew', [4, 5], granted(7)))).toBe(
      'violated',
    );
    expect(judge(taken, lock('b', 'renew', [4, 5], granted(7)))).toBe('violated');
  });

  it('lets a renewal move the end', () => {
    const [taken, renewed] = [lock('a', 'acquire', [0, 1], granted(7)), lock('a', 'renew', [900, 901], granted(7))];
    expect(judge(taken, renewed, lock('b', 'acquire', [902, 1_500], granted(8)))).toBe('violated');
    expect(judge(taken, renewed, lock('b', 'acquire', [902, 1_900], granted(8)))).toBe('linearizable');
  });

  it('refuses an answer of released for a lease that is still valid', () => {
    expect(judge(lock('a', 'acquire', [0, 1], granted(7)), lock('a', 'release', [2, 3], repeated))).toBe('violated');
  });

  it('lets a lost acquire take over only after the lease before it may have expired', () => {
    const [taken, lost] = [lock('a', 'acquire', [0, 1], granted(7)), lock('b', 'acquire', [2])];
    expect(judge(taken, lost, lock('b', 'renew', [10, 20], granted(8)))).toBe('violated');
    expect(judge(taken, lost, lock('b', 'renew', [10, leaseMs], granted(8)))).toBe('linearizable');
  });

  it('says how much of the history it could explain', () => {
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
  it('leaves out refusals, and lost requests of leases that no answer shows', () => {
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

  it('keeps a lost renewal that may have made the lease shorter', () => {
    const long = lock('a', 'acquire', [0, 1], granted(7));
    const shorter: LockOperation = {
      ...lock('a', 'renew', [100]),
      input: { ...long.input, kind: 'renew', leaseMs: 200 },
    };
    const taken = lock('b', 'acquire', [400, 500], granted(8));
    expect(judge(...relevantOf([long, taken]))).toBe('violated');
    expect(judge(...relevantOf([long, shorter, taken]))).toBe('linearizable');
  });

  it('keeps every violation', () => {
    const bad = [lock('a', 'acquire', [0, 1], granted(7)), lock('b', 'acquire', [2, 3], granted(8))];
    expect(judge(...relevantOf(bad))).toBe('violated');
  });
});

describe('forgettableIn', () => {
  const own = [lock('a', 'acquire', [100, 101], granted(7)), lock('a', 'release', [102, 103], released)];
  const others = (count: number, times: readonly [number, number?], output?: LockOutput) =>
    Array.from({ length: count }, (_, index) => lock(`b${index}`, 'acquire', times, output));
  const isForgotten = (...history: LockOperation[]) => forgettableIn(history)('lease of a', 200);

  it('counts leases of which every answer was lost, however long ago they were asked for', () => {
    expect(isForgotten(...own, ...others(7, [0]))).toBe(false);
    expect(isForgotten(...own, ...others(8, [0]))).toBe(true);
  });

  it('counts leases that were asked for since, and not those that came later or were over before', () => {
    expect(isForgotten(...own, ...others(8, [150, 160], refused))).toBe(true);
    expect(isForgotten(...own, ...others(8, [201, 210], refused))).toBe(false);
    expect(isForgotten(...own, ...others(8, [50, 99], refused))).toBe(false);
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

  it('refuses the loss of an acknowledged write', () => {
    expect(judgeRecord(created, record('c', get, [2, 3], { kind: 'none' }))).toBe('violated');
  });

  it('refuses an accepted stale fence, and a version that restarts after a deletion', () => {
    const fenced = record('a', put('x', 'absent', { fence: 5 }), [0, 1], written(1));
    expect(judgeRecord(fenced, record('b', put('y', 1, { fence: 4 }), [2, 3], written(2)))).toBe('violated');
    const deleted = record('a', { kind: 'delete', expects: 1, writeId: 'deletion' }, [2, 3], written(2));
    expect(judgeRecord(created, deleted, record('a', put('z', 'absent'), [4, 5], written(3)))).toBe('linearizable');
    expect(judgeRecord(created, deleted, record('a', put('z', 'absent'), [4, 5], written(1)))).toBe('violated');
  });
});

/**
 * Many processes use an object that does one operation at a time, and half of the answers are lost. It is random
 * whether a lost operation took effect, and when: perhaps long after its caller has gone on.
 */
function crowdedHistory<Input, Output>(
  seed: number,
  perform: (input: Input, now: number) => Output,
  next: (process: string, turn: number, before: Output | undefined) => Input,
): Operation<Input, Output>[] {
  const chance = new Chance(seed);
  type Call = Operation<Input, Output> & { readonly effectAt: number | undefined };
  const calls = Array.from({ length: 8 }, (_, index) => `p${index}`).map((process) => ({ process, turn: 0, at: 0 }));
  const open: Call[] = [];
  const history: Operation<Input, Output>[] = [];
  const settle = (until: number) => {
    const due = open.filter(({ effectAt = Number.POSITIVE_INFINITY }) => effectAt <= until);
    for (const call of due.sort((one, other) => (one.effectAt ?? 0) - (other.effectAt ?? 0))) {
      open.splice(open.indexOf(call), 1);
      const output = perform(call.input, call.effectAt ?? 0);
      const answered = history.find((other) => other.calledAt === call.calledAt && other.process === call.process);
      if (answered?.answer !== undefined) Object.assign(answered.answer, { output });
    }
  };
  const latest = new Map<string, Operation<Input, Output>>();
  while (history.length < 800) {
    const caller = calls.sort((one, other) => one.at - other.at)[0] as (typeof calls)[number];
    settle(caller.at);
    const { process, at: calledAt } = caller;
    const input = next(process, caller.turn++, latest.get(process)?.answer?.output);
    const effectAt = calledAt + chance.between(0, 40);
    const returnedAt = effectAt + chance.between(0, 40);
    const isLost = chance.happens(0.5);
    const lateAt = chance.happens(0.5) ? effectAt + chance.between(0, 500) : undefined;
    const operation = { process, input, calledAt, ...(isLost ? {} : { answer: { output: {} as Output, returnedAt } }) };
    history.push(operation);
    open.push({ ...operation, effectAt: isLost ? lateAt : effectAt });
    latest.set(process, operation);
    caller.at = returnedAt + chance.between(1, 40);
  }
  settle(Number.POSITIVE_INFINITY);
  return history;
}

/** A mutex whose leases never expire during a test. */
function crowdedLock(seed: number): LockOperation[] {
  let holder: { readonly leaseId: string; readonly fence: number } | undefined;
  let fence = 0;
  const ended: string[] = [];
  const perform = ({ kind, leaseId }: LockInput): LockOutput => {
    if (kind === 'release') {
      if (holder?.leaseId !== leaseId) return ended.includes(leaseId) ? repeated : { kind: 'lost' };
      holder = undefined;
      ended.unshift(leaseId);
      return released;
    }
    if (holder?.leaseId === leaseId) return granted(holder.fence);
    if (holder !== undefined || ended.includes(leaseId)) return refused;
    fence += 1;
    holder = { leaseId, fence };
    return granted(fence);
  };
  return crowdedHistory<LockInput, LockOutput>(seed, perform, (process, turn) => {
    const leaseId = `${process} ${Math.floor(turn / 6)}`;
    return turn % 6 < 3 ? { kind: 'acquire', leaseId, leaseMs: 10_000_000 } : { kind: 'release', leaseId };
  });
}

/** A record whose writers replace the version that they saw last. */
function crowdedRecord(seed: number): RecordOperation[] {
  let version = 0;
  let value: string | null = null;
  const seen = new Map<string, number>();
  const perform = (input: RecordInput): RecordOutput => {
    if (input.kind === 'get') return value === null ? { kind: 'none' } : found(value, version);
    const met = input.expects === 'absent' ? value === null : input.expects === version;
    if (!met) return { kind: 'mismatch' };
    version += 1;
    value = input.kind === 'put' ? input.value : null;
    return written(version);
  };
  return crowdedHistory<RecordInput, RecordOutput>(seed, perform, (process, turn, before) => {
    if (before !== undefined && 'version' in before) seen.set(process, before.version);
    const expects = seen.get(process) ?? ('absent' as const);
    return turn % 2 === 0 ? get : put(`${process} ${turn}`, expects);
  });
}

const lastOf = (history: readonly Operation<unknown, { readonly kind: string }>[], kind: string) =>
  history.findLastIndex(({ answer }) => answer?.output.kind === kind);

describe('checkLinearizable of 800 operations, half of them without an answer', () => {
  it.each([1, 2, 3])('finds an order for a lock, in the history of seed %i', (seed) => {
    const history = crowdedLock(seed);
    expect(history.filter(({ answer }) => answer === undefined).length).toBeGreaterThan(300);
    expect(checkLinearizable(mutex, history).kind).toBe('linearizable');
    expect(checkLinearizable(mutex, relevantOf(history)).kind).toBe('linearizable');
  });

  it.each([1, 2, 3])('finds an order for a record, in the history of seed %i', (seed) => {
    expect(checkLinearizable(recordSpecification, crowdedRecord(seed)).kind).toBe('linearizable');
  });

  it.each([1, 2, 3])('finds the one impossible answer, in the history of seed %i', (seed) => {
    const locks = crowdedLock(seed);
    const grant = locks[lastOf(locks, 'granted')]?.answer?.output as { fence: number };
    Object.assign(grant, { fence: grant.fence - 1 });
    expect(checkLinearizable(mutex, relevantOf(locks)).kind).toBe('violated');

    const records = crowdedRecord(seed);
    const read = records[lastOf(records, 'found')]?.answer?.output as { version: number };
    Object.assign(read, { version: read.version - 1 });
    expect(checkLinearizable(recordSpecification, records).kind).toBe('violated');
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
