import fc from 'fast-check';
import type { Delete, Expectation, Put, RecordCommand } from '../../src/record/commands.ts';
import { decide } from '../../src/record/decide.ts';
import { type RecordState, unwrittenRecord } from '../../src/record/state.ts';
import { epochMs } from '../../src/time/clock.ts';

export const recordTime = epochMs(1_800_000_000_000);

/** Few ids, values and fences, so that writes meet, repeat and contradict each other. */
const writeIds = Array.from({ length: 8 }, (_, index) => `write-${index}-of-eight-000`);
const values = ['1', '"two"', '{"a":[1,2]}'];
const fences = [undefined, undefined, 5, 6, 7];

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
const withoutNoFence = <T extends { fence: number | undefined }>({ fence, ...rest }: T) => ({
  ...rest,
  ...(fence === undefined ? {} : { fence }),
});

export const recordCommands: fc.Arbitrary<RecordCommand> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({ kind: fc.constant('put' as const), expects: expectations, value: fc.constantFrom(...values), ...named })
      .map((put): Put => withoutNoFence(put)),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({ kind: fc.constant('delete' as const), expects: present, ...named })
      .map((deletion): Delete => withoutNoFence(deletion)),
  },
);

/** What a writer would send that has read the record and holds its lock, so that worlds get further than their first refusal. */
export function fitting(state: RecordState, command: RecordCommand): RecordCommand {
  const { floor, version, value } = state;
  const held = floor === null ? command : { ...command, fence: Math.max(floor, command.fence ?? floor) };
  if (held.kind === 'put' && value === null) return { ...held, expects: { kind: 'absent' } };
  if (value === null || held.expects.kind === 'present') return held;
  return { ...held, expects: { kind: 'version', version } };
}

/** States that a record can really get into, and a command to meet them: random, fitting, or a repetition of the last write. */
export const recordWorlds: fc.Arbitrary<{ state: RecordState; command: RecordCommand }> = fc
  .tuple(
    fc.array(recordCommands, { maxLength: 7, size: 'max' }),
    recordCommands,
    fc.constantFrom('random', 'fitting', 'repeated'),
  )
  .map(([taken, command, choice]) => {
    let state = unwrittenRecord;
    let last = command;
    taken.forEach((wanted, index) => {
      const step = fitting(state, wanted);
      const { next } = decide(state, step, epochMs(recordTime + index));
      if (next !== state) last = step;
      state = next;
    });
    return { state, command: choice === 'repeated' ? last : choice === 'fitting' ? fitting(state, command) : command };
  });
