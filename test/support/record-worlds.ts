import fc from 'fast-check';
import type { Delete, Expectation, Put, RecordCommand } from '../../src/record/commands.ts';
import { decide } from '../../src/record/decide.ts';
import { hasExpired, type RecordState, unwrittenRecord, valueInForce } from '../../src/record/state.ts';
import type { RecordKey } from '../../src/store/records.ts';
import { recordHeadKey, recordWords, toValueItem } from '../../src/store/records.ts';
import type { Item } from '../../src/table/attributes.ts';
import { type EpochMs, epochMs } from '../../src/time/clock.ts';

export const recordTime = epochMs(1_800_000_000_000);

/** Few ids, values and fences, so that writes conflict and repeat often. */
const writeIds = Array.from({ length: 24 }, (_, index) => `write-${index}-of-many-0000`);
const values = ['1', '"two"', '{"a":[1,2]}'];
const fences = [undefined, undefined, 5, 6, 7];
/** Some ends that come within a few steps, and one that does not. */
const ends = [undefined, undefined, 1_000, 2_500, 3_600_000];
/** Steps are so far apart that some records end between them. */
const stepMs = 700;

export const putOf = (more: Partial<Put> = {}): Put => ({
  kind: 'put',
  value: '1',
  expects: { kind: 'absent' },
  writeId: 'write-0-0000000000',
  ...more,
});

export const deleteOf = (more: Partial<Delete> = {}): Delete => ({
  kind: 'delete',
  expects: { kind: 'present' },
  writeId: 'write-1-0000000000',
  ...more,
});

const present: fc.Arbitrary<Exclude<Expectation, { kind: 'absent' }>> = fc.oneof(
  fc.record({ kind: fc.constant('version' as const), version: fc.integer({ min: 0, max: 7 }) }),
  fc.constant({ kind: 'present' as const }),
);
const expectations: fc.Arbitrary<Expectation> = fc.oneof(present, present, fc.constant({ kind: 'absent' as const }));

const named = { writeId: fc.constantFrom(...writeIds), fence: fc.constantFrom(...fences) };
/** Leaves out undefined fields, because a missing field means "none". */
const stated = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as unknown;

export const recordCommands: fc.Arbitrary<RecordCommand> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({
        kind: fc.constant('put' as const),
        expects: expectations,
        value: fc.constantFrom(...values),
        expiresInMs: fc.constantFrom(...ends),
        ...named,
      })
      .map((put) => stated(put) as Put),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({ kind: fc.constant('delete' as const), expects: present, ...named })
      .map((deletion) => stated(deletion) as Delete),
  },
);

/**
 * The command of a writer that has read the record and holds its lock. With it, worlds get further than their first
 * refusal.
 */
export function fitting(state: RecordState, command: RecordCommand, now: EpochMs): RecordCommand {
  const { floor, version } = state;
  const value = valueInForce(state, now);
  const held = floor === null ? command : { ...command, fence: Math.max(floor, command.fence ?? floor) };
  if (held.kind === 'put' && value === null) return { ...held, expects: { kind: 'absent' } };
  if (value === null || held.expects.kind === 'present') return held;
  return { ...held, expects: { kind: 'version', version } };
}

/** The same record after its value was deleted, which may happen at any time after its end. */
export const collected = (state: RecordState, now: EpochMs): RecordState =>
  hasExpired(state, now) ? { ...state, value: null } : state;

/**
 * States that a record can really reach, and a command for them: random, fitting, or a repetition of the last write.
 */
export const recordWorlds: fc.Arbitrary<{ state: RecordState; command: RecordCommand; now: EpochMs }> = fc
  .tuple(
    fc.array(recordCommands, { maxLength: 7, size: 'max' }),
    recordCommands,
    fc.constantFrom('random', 'fitting', 'repeated'),
    fc.boolean(),
  )
  .map(([taken, command, choice, collects]) => {
    let state = unwrittenRecord;
    let last = command;
    taken.forEach((wanted, index) => {
      const at = epochMs(recordTime + index * stepMs);
      const step = fitting(state, wanted, at);
      const { next } = decide(state, step, at);
      if (next !== state) last = step;
      state = next;
    });
    const now = epochMs(recordTime + taken.length * stepMs + 1_000);
    const chosen = choice === 'repeated' ? last : choice === 'fitting' ? fitting(state, command, now) : command;
    return { state: collects ? collected(state, now) : state, command: chosen, now };
  });

/** A record as the items that the store keeps: the head, and the value if it has its own item. */
export function toRecordItems(key: RecordKey, state: RecordState): Item[] {
  const { value, floor, how, writeIds, expiresAt } = state;
  const [writeId] = writeIds;
  const head = {
    ...recordHeadKey(key),
    [recordWords.version]: state.version,
    [recordWords.updatedAt]: state.updatedAt,
    ...(value === null || expiresAt !== null ? {} : { [recordWords.value]: value }),
    ...(floor === null ? {} : { [recordWords.floor]: floor }),
    ...(writeId === undefined ? {} : { [recordWords.writeId]: writeId, [recordWords.how]: how }),
    ...Object.fromEntries(
      writeIds.map((id, index) => [(recordWords as Record<string, string>)[`writeId${index}`], id]),
    ),
    ...(expiresAt === null ? {} : { [recordWords.expiresAt]: expiresAt }),
  };
  if (value === null || writeId === undefined || expiresAt === null) return [head];
  return [head, toValueItem(key, value, writeId, expiresAt)];
}
