import { describe, expect, it } from 'vitest';
import type { RecordCommand } from '../../../src/record/commands.ts';
import { decide } from '../../../src/record/decide.ts';
import { recordLimits } from '../../../src/record/limits.ts';
import { type RecordState, unwrittenRecord, valueInForce, versionInForce } from '../../../src/record/state.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { deleteOf, putOf, recordTime } from '../../support/record-worlds.ts';

let writes = 0;
const newWriteId = () => {
  writes += 1;
  return `write-${String(writes).padStart(16, '0')}`;
};

/** Applies each command in order. Each must be accepted, and each is a separate write. */
const having = (...commands: RecordCommand[]): RecordState =>
  commands.reduce<RecordState>((state, command) => {
    const { next, answer } = decide(state, { ...command, writeId: newWriteId() }, recordTime);
    expect(answer.kind).toBe('written');
    return next;
  }, unwrittenRecord);

const at = (version: number) => ({ kind: 'version', version }) as const;
const create = putOf();

describe('put', () => {
  it('creates version 1 if there is no record', () => {
    const { next, answer } = decide(unwrittenRecord, putOf({ value: '{"a":1}' }), recordTime);
    expect(answer).toEqual({ kind: 'written', how: 'created', version: next.version });
    expect(next).toEqual({
      version: 1,
      value: '{"a":1}',
      floor: null,
      how: 'created',
      writeIds: [create.writeId],
      updatedAt: recordTime,
      expiresAt: null,
    });
  });

  it('replaces the version that it names and raises it by one', () => {
    const { next, answer } = decide(
      having(create),
      putOf({ expects: at(1), value: '2', writeId: newWriteId() }),
      recordTime,
    );
    expect(answer).toEqual({ kind: 'written', how: 'replaced', version: next.version });
    expect(next).toMatchObject({ version: 2, value: '2' });
  });

  it('replaces any version if it names none, but needs one', () => {
    const put = putOf({ expects: { kind: 'present' }, writeId: newWriteId() });
    expect(decide(having(create), put, recordTime).next.version).toBe(2);
    expect(decide(unwrittenRecord, put, recordTime).answer).toEqual({ kind: 'version-mismatch', version: null });
  });

  it.each([0, 1, 3])(
    'refuses version %i if the current one is 2, changes nothing and names the current one',
    (version) => {
      const before = having(create, putOf({ expects: at(1) }));
      const { next, answer } = decide(before, putOf({ expects: at(version) }), recordTime);
      expect(answer).toEqual({ kind: 'version-mismatch', version: 2 });
      expect(next).toBe(before);
    },
  );

  it('does not create a record that exists', () => {
    expect(decide(having(create), create, recordTime).answer).toEqual({ kind: 'version-mismatch', version: 1 });
  });
});

describe('a fence', () => {
  const fenced = (fence: number) => putOf({ expects: { kind: 'present' }, fence, writeId: newWriteId() });
  const guarded = having(create, fenced(7));

  it('becomes the floor with the first write that carries one', () => {
    expect(guarded.floor).toBe(7);
  });

  it('is accepted if it is equal, because one holder may write many times, or higher', () => {
    expect(decide(guarded, fenced(7), recordTime).next).toMatchObject({ version: 3, floor: 7 });
    expect(decide(guarded, fenced(9), recordTime).next).toMatchObject({ version: 3, floor: 9 });
  });

  it('is refused below the floor', () => {
    const { next, answer } = decide(guarded, fenced(6), recordTime);
    expect(answer).toEqual({ kind: 'stale-fence', floor: 7 });
    expect(next).toBe(guarded);
  });

  it('is required once there is a floor', () => {
    const bare = putOf({ expects: { kind: 'present' } });
    expect(decide(guarded, bare, recordTime).answer).toEqual({ kind: 'fence-required' });
    expect(decide(guarded, deleteOf(), recordTime).answer).toEqual({ kind: 'fence-required' });
  });

  it('is checked before the version: a writer that fails both learns that it lost the lock', () => {
    const stale = putOf({ expects: at(1), fence: 6 });
    expect(decide(guarded, stale, recordTime).answer).toEqual({ kind: 'stale-fence', floor: 7 });
  });

  it('does not make a stale version valid', () => {
    const put = putOf({ expects: at(1), fence: 8 });
    expect(decide(guarded, put, recordTime).answer).toEqual({ kind: 'version-mismatch', version: 2 });
  });
});

describe('delete', () => {
  const deleted = () => having(putOf({ fence: 5 }), deleteOf({ expects: at(1), fence: 6 }));

  it('leaves a tombstone that keeps the version and the floor', () => {
    expect(deleted()).toMatchObject({ version: 2, value: null, floor: 6, how: 'deleted' });
  });

  it('counts as no record', () => {
    expect(decide(deleted(), deleteOf({ fence: 6 }), recordTime).answer).toEqual({
      kind: 'version-mismatch',
      version: null,
    });
    const put = putOf({ expects: at(2), fence: 6 });
    expect(decide(deleted(), put, recordTime).answer).toEqual({ kind: 'version-mismatch', version: null });
  });

  it('lets a record be created again, above every earlier version and under the same floor', () => {
    expect(decide(deleted(), putOf({ fence: 6 }), recordTime).next).toMatchObject({ version: 3, floor: 6 });
    expect(decide(deleted(), putOf({ fence: 5 }), recordTime).answer).toEqual({ kind: 'stale-fence', floor: 6 });
    expect(decide(deleted(), putOf(), recordTime).answer).toEqual({ kind: 'fence-required' });
  });
});

describe('a record with an end', () => {
  const ending = putOf({ expiresInMs: 5_000, fence: 5 });
  const state = decide(unwrittenRecord, ending, recordTime).next;
  const [before, end] = [epochMs(recordTime + 4_999), epochMs(recordTime + 5_000)];

  it('knows its end from the write', () => {
    expect(state.expiresAt).toBe(end);
    const replaced = decide(state, putOf({ expects: at(1), fence: 5, writeId: newWriteId() }), before).next;
    expect(replaced.expiresAt).toBeNull();
  });

  it('exists until the instant of its end, and not from then on', () => {
    const replace = putOf({ expects: at(1), fence: 5, writeId: newWriteId() });
    expect(decide(state, replace, before).answer.kind).toBe('written');
    expect(decide(state, replace, end).answer).toEqual({ kind: 'version-mismatch', version: null });
    expect([valueInForce(state, before), valueInForce(state, end)]).toEqual(['1', null]);
    expect([versionInForce(state, before), versionInForce(state, end)]).toEqual([1, null]);
  });

  it('can be created again after its end, above its version and under its floor', () => {
    const create = putOf({ writeId: newWriteId(), fence: 5 });
    expect(decide(state, create, before).answer).toEqual({ kind: 'version-mismatch', version: 1 });
    expect(decide(state, create, end).next).toMatchObject({ version: 2, floor: 5 });
    expect(decide(state, { ...create, fence: 4 }, end).answer).toEqual({ kind: 'stale-fence', floor: 5 });
  });

  it('recognizes a repeated write after its value was collected', () => {
    const collected = { ...state, value: null };
    expect(decide(collected, ending, end).answer).toEqual({ kind: 'written', how: 'created', version: 1 });
    expect(decide(collected, ending, before).answer, 'only after its end').toEqual({ kind: 'write-id-reused' });
    expect(decide(state, { ...ending, value: '2' }, end).answer, 'not while the value is there').toEqual({
      kind: 'write-id-reused',
    });
    expect(decide(state, { ...ending, expiresInMs: 6_000 }, before).answer).toEqual({ kind: 'write-id-reused' });
    const endless = decide(unwrittenRecord, putOf(), recordTime).next;
    expect(decide({ ...endless, value: null }, putOf(), end).answer).toEqual({ kind: 'write-id-reused' });
  });
});

describe('a repeated write', () => {
  const later = epochMs(recordTime + 60_000);
  const steps: [string, RecordState, RecordCommand][] = [
    ['create', unwrittenRecord, putOf({ fence: 3 })],
    ['replace by version', having(create), putOf({ expects: at(1), value: '2' })],
    ['replace any', having(create), putOf({ expects: { kind: 'present' }, value: '2' })],
    ['delete', having(create), deleteOf({ expects: at(1) })],
  ];

  it.each(steps)('gets the answer of the first and changes nothing: %s', (_, before, command) => {
    const first = decide(before, command, recordTime);
    const second = decide(first.next, command, later);
    expect(second.answer).toEqual(first.answer);
    expect(second.next).toBe(first.next);
  });

  it('is known after others have written, and gets the version that it made', () => {
    let state = decide(unwrittenRecord, create, recordTime).next;
    for (let version = 1; version < recordLimits.writeIdsRemembered; version++) {
      state = decide(state, putOf({ expects: at(version), writeId: newWriteId() }), recordTime).next;
      const repeated = decide(state, create, recordTime);
      expect(repeated).toEqual({ next: state, answer: { kind: 'written', how: 'created', version: 1 } });
    }
    const last = decide(state, putOf({ expects: at(state.version), writeId: newWriteId() }), recordTime).next;
    expect(decide(last, create, recordTime).answer).toEqual({ kind: 'version-mismatch', version: last.version });
  });

  it('is distinguished from another write with the same id, even after others have written', () => {
    const first = decide(unwrittenRecord, create, recordTime).next;
    const replaced = decide(first, putOf({ expects: at(1), writeId: newWriteId() }), recordTime).next;
    const reused = { ...create, expects: at(2) };
    expect(decide(replaced, reused, recordTime).answer).toEqual({ kind: 'write-id-reused' });
  });

  const put = putOf({ expects: at(1), value: '2', fence: 3 });
  const inForce = decide(having(create), put, recordTime).next;
  const others: [string, RecordCommand][] = [
    ['value', { ...put, value: '3' }],
    ['value, by as much as a space', { ...put, value: '2 ' }],
    ['version', { ...put, expects: at(2) }],
    ['fence', { ...put, fence: 4 }],
    ['kind', deleteOf({ expects: at(1), fence: 3, writeId: put.writeId })],
    ['expectation', { ...put, expects: { kind: 'absent' } }],
  ];

  it.each(others)('is refused if it is another write with the same id: another %s', (_, other) => {
    const { next, answer } = decide(inForce, other, later);
    expect(answer).toEqual({ kind: 'write-id-reused' });
    expect(next).toBe(inForce);
  });
});
