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
import { recordLimits } from './limits.ts';
import { hasExpired, type RecordState, valueInForce, versionInForce, type WrittenHow } from './state.ts';

export function decide(before: RecordState, command: RecordCommand, now: EpochMs): RecordDecision {
  const refusal = answerWithoutWriting(before, command, now);
  if (refusal !== undefined) return { next: before, answer: refusal };
  const version = before.version + 1;
  return {
    next: stateAfter(command, { version, earlier: before.writeIds }, now),
    answer: { kind: 'written', how: howWritten(command), version },
  };
}

function answerWithoutWriting(before: RecordState, command: RecordCommand, now: EpochMs): RecordAnswer | undefined {
  const { floor, writeIds } = before;
  // Safe to repeat: a write that was accepted is not done twice, and gets the answer that it got before.
  const age = writeIds.indexOf(command.writeId);
  if (age >= 0) {
    const version = before.version - age;
    return isRepetition(before, command, version, now)
      ? { kind: 'written', how: howWritten(command), version }
      : { kind: 'write-id-reused' };
  }
  // The fence is judged before the version. A writer that lost the lock finds both stale, and a 412 would send it to read and write
  // again, over and over; a stale fence tells it the truth, which is to stop.
  if (floor !== null && command.fence === undefined) return { kind: 'fence-required' };
  if (floor !== null && command.fence !== undefined && command.fence < floor) return { kind: 'stale-fence', floor };
  if (isMet(command.expects, before, now)) return undefined;
  return { kind: 'version-mismatch', version: versionInForce(before, now) };
}

/**
 * The state that an accepted write leaves. Of the state before, only the version and the writes matter: an accepted fence is at least the
 * floor, so it is the next floor, and a write without one is accepted only if there is no floor.
 */
export function stateAfter(
  command: RecordCommand,
  { version, earlier }: { readonly version: number; readonly earlier: readonly string[] },
  now: EpochMs,
): RecordState {
  return {
    version,
    value: command.kind === 'put' ? command.value : null,
    floor: command.fence ?? null,
    how: howWritten(command),
    writeIds: [command.writeId, ...earlier].slice(0, recordLimits.writeIdsRemembered),
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

/**
 * Whether a command is the write that was accepted under its id. An id alone is no proof: a caller may use one twice by mistake. Of a write that
 * others have replaced since, only the version that it expected can be compared.
 */
function isRepetition(state: RecordState, command: RecordCommand, version: number, now: EpochMs): boolean {
  const { expects } = command;
  if (expects.kind === 'version' && expects.version !== version - 1) return false;
  if (version < state.version) return true;
  const { value, floor, expiresAt, how } = stateAfter(command, { version, earlier: [] }, state.updatedAt);
  // After its end a value may have been collected. What it was can't be told then, and nobody reads it any more.
  const isCollected = state.value === null && hasExpired(state, now);
  return (
    (state.value === value || isCollected) &&
    state.expiresAt === expiresAt &&
    state.floor === floor &&
    state.how === how
  );
}
