import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RecordCommand } from '../../src/record/commands.ts';
import { decide } from '../../src/record/decide.ts';
import { membersOf } from '../../src/record/json-text.ts';
import { type RecordState, unwrittenRecord, valueInForce } from '../../src/record/state.ts';
import { type EpochMs, epochMs } from '../../src/time/clock.ts';
import { collected, fitting, recordCommands, recordTime } from '../support/record-worlds.ts';

interface Step {
  readonly before: RecordState;
  readonly command: RecordCommand;
  readonly next: RecordState;
  readonly applied: boolean;
  readonly now: EpochMs;
}

/**
 * A command, whether its writer has read the record, how much later it comes than the one before, and whether the store
 * deletes expired values first.
 */
type Turn = readonly [command: RecordCommand, hasRead: boolean, laterMs: number, collects: boolean];

/**
 * Every command is a separate write here, named by its index. Writers that have read the record name the current
 * version.
 */
function run(turns: readonly Turn[]): Step[] {
  let state = unwrittenRecord;
  let now = recordTime;
  return turns.map(([wanted, hasRead, laterMs, collects], index) => {
    now = epochMs(now + laterMs);
    const before = collects ? collected(state, now) : state;
    const command = { ...(hasRead ? fitting(before, wanted, now) : wanted), writeId: `write-${index}` };
    state = decide(before, command, now).next;
    return { before, command, next: state, applied: state !== before, now };
  });
}

const histories = fc
  .array(fc.tuple(recordCommands, fc.boolean(), fc.constantFrom(0, 1, 900, 2_000), fc.boolean()), {
    minLength: 1,
    maxLength: 60,
    size: 'max',
  })
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
        for (const { before, command, applied, now } of steps) {
          if (!applied || command.expects.kind !== 'version') continue;
          expect(before.version).toBe(command.expects.version);
          expect(valueInForce(before, now)).toEqual(expect.any(String));
        }
      }),
      runs,
    );
  });

  it('lets a record be created from its end on and not before, and continues its version and floor', () => {
    let ended = 0;
    fc.assert(
      fc.property(histories, (steps) => {
        for (const { before, next, now, command, applied } of steps) {
          const { expiresAt } = before;
          if (expiresAt === null || !applied) continue;
          expect(command.expects.kind === 'absent').toBe(now >= expiresAt);
          if (now < expiresAt) continue;
          ended += 1;
          expect(next.version).toBe(before.version + 1);
          expect(next.floor ?? 0).toBeGreaterThanOrEqual(before.floor ?? 0);
        }
      }),
      runs,
    );
    expect(ended).toBeGreaterThan(500);
  });
});

describe('cutting out a value', () => {
  const space = fc.stringMatching(/^[ \t\n\r]{0,3}$/);
  /** JSON text with space and escapes that a serializer would not write. */
  const texts = fc.tuple(fc.json({ maxDepth: 5 }), fc.boolean(), space).map(([json, spread, around]) => {
    const indented = spread ? JSON.stringify(JSON.parse(json), null, 2) : json;
    return { text: indented, around };
  });

  it('returns the text unchanged, anywhere in the object', () => {
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
