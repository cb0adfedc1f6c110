/**
 * The rules of a record. Pure: no I/O, no clock, no randomness. Whatever a store does for speed must come out the same.
 *
 *     absent ── create ──► present ── delete ──► tombstone ── create ──► present …
 *                          │     ▲
 *                          └─────┘ replace         version: +1 at each arrow; floor: only upwards
 */
import type { EpochMs } from '../time/clock.ts';
import type { Expectation, RecordAnswer, RecordCommand, RecordDecision } from './commands.ts';
import { type RecordState, versionInForce, type WrittenHow } from './state.ts';

export function decide(before: RecordState, command: RecordCommand, now: EpochMs): RecordDecision {
  const refusal = answerWithoutWriting(before, command);
  if (refusal !== undefined) return { next: before, answer: refusal };
  return {
    next: stateAfter(command, before.version + 1, now),
    answer: { kind: 'written', how: howWritten(command) },
  };
}

function answerWithoutWriting(before: RecordState, command: RecordCommand): RecordAnswer | undefined {
  const { floor, lastWrite } = before;
  // Safe to repeat: a write that is still in force is not done twice, and gets the answer that it got before.
  if (lastWrite?.id === command.writeId) {
    return isRepetition(before, command) ? { kind: 'written', how: lastWrite.how } : { kind: 'write-id-reused' };
  }
  // The fence is judged before the version. Who lost the lock finds both stale, and a 412 would send it to read and write
  // again, over and over; a stale fence tells it the truth, which is to stop.
  if (floor !== null && command.fence === undefined) return { kind: 'fence-required' };
  if (floor !== null && command.fence !== undefined && command.fence < floor) return { kind: 'stale-fence', floor };
  return isMet(command.expects, before) ? undefined : { kind: 'version-mismatch', version: versionInForce(before) };
}

/**
 * The state that an accepted write leaves. Of the state before, only the version matters: an accepted fence is at least the
 * floor, so it is the next floor, and a write without one is accepted only where there is no floor.
 */
export function stateAfter(command: RecordCommand, version: number, now: EpochMs): RecordState {
  return {
    version,
    value: command.kind === 'put' ? command.value : null,
    floor: command.fence ?? null,
    lastWrite: { id: command.writeId, how: howWritten(command) },
    updatedAt: now,
  };
}

export function howWritten({ kind, expects }: RecordCommand): WrittenHow {
  if (kind === 'delete') return 'deleted';
  return expects.kind === 'absent' ? 'created' : 'replaced';
}

function isMet(expects: Expectation, { value, version }: RecordState): boolean {
  switch (expects.kind) {
    case 'version':
      return value !== null && version === expects.version;
    case 'present':
      return value !== null;
    case 'absent':
      return value === null;
  }
}

/** Whether a command would have left this very state. An id alone is no proof: a caller may use one twice by mistake. */
function isRepetition(state: RecordState, command: RecordCommand): boolean {
  const { expects } = command;
  const { value, floor, lastWrite } = stateAfter(command, state.version, state.updatedAt);
  return (
    state.value === value &&
    state.floor === floor &&
    state.lastWrite?.how === lastWrite?.how &&
    (expects.kind !== 'version' || expects.version === state.version - 1)
  );
}
