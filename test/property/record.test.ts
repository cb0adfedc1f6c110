import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RecordCommand } from '../../src/record/commands.ts';
import { decide } from '../../src/record/decide.ts';
import { membersOf } from '../../src/record/json-text.ts';
import { type RecordState, unwrittenRecord } from '../../src/record/state.ts';
import { fitting, recordCommands, recordTime } from '../support/record-worlds.ts';

interface Step {
  readonly before: RecordState;
  readonly command: RecordCommand;
  readonly next: RecordState;
  readonly applied: boolean;
}

/** Every command is a write of its own here, named by its place. Writers who have read the record name the version in force. */
function run(commands: readonly (readonly [RecordCommand, hasRead: boolean])[]): Step[] {
  let state = unwrittenRecord;
  return commands.map(([wanted, hasRead], index) => {
    const before = state;
    const command = { ...(hasRead ? fitting(before, wanted) : wanted), writeId: `write-${index}` };
    state = decide(before, command, recordTime).next;
    return { before, command, next: state, applied: state !== before };
  });
}

const histories = fc
  .array(fc.tuple(recordCommands, fc.boolean()), { minLength: 1, maxLength: 60, size: 'max' })
  .map(run);

/** Pure and fast, so there can be many. */
const runs = { numRuns: 1_000 };

describe('any interleaving of writes', () => {
  it('leaves the floor equal to the highest accepted fence', () => {
    let fenced = 0;
    fc.assert(
      fc.property(histories, (steps) => {
        const accepted = steps.filter(({ applied }) => applied).flatMap(({ command }) => command.fence ?? []);
        fenced += accepted.length;
        expect(steps.at(-1)?.next.floor).toBe(accepted.length === 0 ? null : Math.max(...accepted));
      }),
      runs,
    );
    expect(fenced).toBeGreaterThan(500);
  });

  it('accepts no fence below one that it accepted before, and none missing after it', () => {
    fc.assert(
      fc.property(histories, (steps) => {
        let highest: number | undefined;
        for (const { applied, command } of steps) {
          if (!applied) continue;
          if (highest !== undefined) expect(command.fence).toBeGreaterThanOrEqual(highest);
          highest = command.fence ?? highest;
        }
      }),
      runs,
    );
  });

  it('raises the version by exactly one per write, deletions and creations included, and by nothing else', () => {
    let recreated = 0;
    fc.assert(
      fc.property(histories, (steps) => {
        for (const { before, command, next, applied } of steps) {
          expect(next.version).toBe(before.version + (applied ? 1 : 0));
          if (applied && command.expects.kind === 'absent' && before.version > 0) recreated += 1;
        }
      }),
      runs,
    );
    expect(recreated).toBeGreaterThan(20);
  });

  it('applies a write that names a version only to that version', () => {
    fc.assert(
      fc.property(histories, (steps) => {
        for (const { before, command, applied } of steps) {
          if (!applied || command.expects.kind !== 'version') continue;
          expect(before).toMatchObject({ version: command.expects.version, value: expect.any(String) });
        }
      }),
      runs,
    );
  });
});

describe('cutting out a value', () => {
  const space = fc.stringMatching(/^[ \t\n\r]{0,3}$/);
  /** JSON text with space and escapes that a serializer would not write. */
  const texts = fc.tuple(fc.json({ maxDepth: 5 }), fc.boolean(), space).map(([json, spread, around]) => {
    const indented = spread ? JSON.stringify(JSON.parse(json), null, 2) : json;
    return { text: indented, around };
  });

  it('gives back the text as it came, wherever it stands', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string(), texts), { maxLength: 6 }), (members) => {
        const object = `{${members.map(([name, { text, around }]) => `${around}${JSON.stringify(name)}${around}:${around}${text}${around}`).join(',')}}`;
        JSON.parse(object);
        expect(membersOf(object)).toEqual(members.map(([name, { text }]) => ({ name, text })));
      }),
      { numRuns: 500 },
    );
  });
});
