/**
 * The rules of a record. Pure: no I/O, no clock, no randomness. Whatever a store does for speed must come out the same.
 *
 *     absent ── create ──► present ── delete ──► tombstone ── create ──► present …
 *                          │     ▲
 *                          └─────┘ replace         version: +1 at each arrow; floor: only upwards
 *
 * A record that has reached its end is a tombstone without a write: it keeps the version and the floor that it had.
 */
import { after, type EpochMs } from '../time/clock.ts';
import type { Expectation, RecordAnswer, RecordCommand, RecordDecision } from './commands.ts';
import { hasExpired, type RecordState, valueInForce, versionInForce, type WrittenHow } from './state.ts';

export function decide(before: RecordState, command: RecordCommand, now: EpochMs): RecordDecision {
  const refusal = answerWithoutWriting(before, command, now);
  if (refusal !== undefined) return { next: before, answer: refusal };
  return {
    next: stateAfter(command, before.version + 1, now),
    answer: { kind: 'written', how: howWritten(command) },
  };
}

function answerWithoutWriting(before: RecordState, command: RecordCommand, now: EpochMs): RecordAnswer | undefined {
  const { floor, lastWrite } = before;
  // Safe to repeat: a write that is still in force is not done twice, and gets the answer that it got before.
  if (lastWrite?.id === command.writeId) {
    return isRepetition(before, command, now) ? { kind: 'written', how: lastWrite.how } : { kind: 'write-id-reused' };
  }
  // The fence is judged before the version. Who lost the lock finds both stale, and a 412 would send it to read and write
  // again, over and over; a stale fence tells it the truth, which is to stop.
  if (floor !== null && command.fence === undefined) return { kind: 'fence-required' };
  if (floor !== null && command.fence !== undefined && command.fence < floor) return { kind: 'stale-fence', floor };
  if (isMet(command.expects, before, now)) return undefined;
  return { kind: 'version-mismatch', version: versionInForce(before, now) };
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
    expiresAt: command.kind === 'put' && command.expiresInMs !== undefined ? after(now, command.expiresInMs) : null,
  };
}

export function howWritten({ kind, expects }: RecordCommand): WrittenHow {
  if (kind === 'delete') return 'deleted';
  return expects.kind === 'absent' ? 'created' : 'replaced';
}

function isMet(expects: Expectation, state: RecordState, now: EpochMs): boolean {
  const value = valueInForce(state, now);
  switch (expects.kind) {
    case 'version':
      return value !== null && state.version === expects.version;
    case 'present':
      return value !== null;
    case 'absent':
      return value === null;
  }
}

/** Whether a command would have left this very state. An id alone is no proof: a caller may use one twice by mistake. */
function isRepetition(state: RecordState, command: RecordCommand, now: EpochMs): boolean {
  const { expects } = command;
  const { value, floor, lastWrite, expiresAt } = stateAfter(command, state.version, state.updatedAt);
  // After its end a value may have been collected. What it was can't be told then, and nobody reads it any more.
  const isCollected = state.value === null && hasExpired(state, now);
  return (
    (state.value === value || isCollected) &&
    state.expiresAt === expiresAt &&
    state.floor === floor &&
    state.lastWrite?.how === lastWrite?.how &&
    (expects.kind !== 'version' || expects.version === state.version - 1)
  );
}
