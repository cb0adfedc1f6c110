/**
 * The rules of a record. Pure: no I/O, no clock, no randomness. A store may be faster, but must give the same results.
 *
 *     absent ── create ──► present ── delete ──► tombstone ── create ──► present …
 *                          │     ▲
 *                          └─────┘ replace         version: +1 at each arrow; floor: only upwards
 *
 * A record becomes a tombstone at its end, without a write. It keeps its version and its floor.
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
  // Safe to repeat: an accepted write is not done twice, and gets its earlier answer again.
  const age = writeIds.indexOf(command.writeId);
  if (age >= 0) {
    const version = before.version - age;
    return isRepetition(before, command, version, now)
      ? { kind: 'written', how: howWritten(command), version }
      : { kind: 'write-id-reused' };
  }
  // The fence is checked before the version. A writer that lost the lock fails both checks. With a 412 it would read
  // and write again, over and over. With a stale fence it knows that it must stop.
  if (floor !== null) {
    if (command.fence === undefined) return { kind: 'fence-required' };
    if (command.fence < floor) return { kind: 'stale-fence', floor };
  }
  if (isMet(command.expects, before, now)) return undefined;
  return { kind: 'version-mismatch', version: versionInForce(before, now) };
}

/**
 * The state after an accepted write. Of the old state, only the version and the write ids matter. An accepted fence is
 * at least the floor, so it is the next floor. A write without a fence is accepted only if there is no floor.
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
 * True if a command is the write that was accepted under its id. The id alone is no proof, because a caller may use one
 * twice by mistake. If others have replaced the write since, only the version that it expected can be compared.
 */
function isRepetition(state: RecordState, command: RecordCommand, version: number, now: EpochMs): boolean {
  const { expects } = command;
  if (expects.kind === 'version' && expects.version !== version - 1) return false;
  if (version < state.version) return true;
  const { value, floor, expiresAt, how } = stateAfter(command, { version, earlier: [] }, state.updatedAt);
  // After its end, the value may have been deleted. Then it can't be compared, and nobody reads it any more.
  const isCollected = state.value === null && hasExpired(state, now);
  return (
    (state.value === value || isCollected) &&
    state.expiresAt === expiresAt &&
    state.floor === floor &&
    state.how === how
  );
}
