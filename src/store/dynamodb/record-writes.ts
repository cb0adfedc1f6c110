/** A record's every write as one conditional update of its head that needs no read. `decide` is the specification: a property test runs both. */
import type { Expectation, RecordCommand } from '../../record/commands.ts';
import { howWritten, stateAfter } from '../../record/decide.ts';
import type { EpochMs } from '../../time/clock.ts';
import { type Update, update } from './attributes.ts';
import { recordWords, writeIdWords } from './record-item.ts';

/** There is a record: its value is in the head, or it has an end that has not come. A tombstone has neither. */
const isThere = '(attribute_exists(value) OR expiresAt > :now)';

/** Compare: it holds only for the version that the writer saw, for any record at all, or for none. */
const isAsExpected: Record<Expectation['kind'], string> = {
  version: `${isThere} AND version = :expected`,
  present: isThere,
  absent: `NOT ${isThere}`,
};
const isUnfenced = 'attribute_not_exists(floor)';
/** This very write was not accepted before: a request that the SDK sent twice, or that a caller repeated, is done once. */
const isNew = `NOT writeId = :writeId AND NOT (:writeId IN (${writeIdWords.join(', ')}))`;

/** The newest write becomes the first and each earlier one moves up; the oldest is forgotten. */
const rememberWrite = writeIdWords.map((word, index) =>
  index === 0 ? `${word} = :writeId` : `${word} = if_not_exists(${writeIdWords[index - 1]}, :none)`,
);

/**
 * Writes where `decide` would, and only if the head still has the version that was seen, if one is named (0: there is no head).
 *
 * Safe because one condition holds all three claims: what is there is what the writer expects; no higher fence was accepted, and
 * no fence at all where this write has none; and this write is new.
 */
export function writeIfAllowed(command: RecordCommand, now: EpochMs, seen?: number): Update {
  const { kind, expects, fence, writeId } = command;
  const { expiresAt } = stateAfter(command, { version: 0, earlier: [] }, now);
  const inHead = kind === 'put' && expiresAt === null;
  const isAsSeen = seen === 0 ? ['attribute_not_exists(version)'] : ['version = :seen'];
  return update(
    {
      set: [
        'version = if_not_exists(version, :zero) + :one',
        'updatedAt = :now',
        'writeId = :writeId',
        'how = :how',
        ...rememberWrite,
        ...(inHead ? ['value = :value'] : []),
        ...(expiresAt === null ? [] : ['expiresAt = :expiresAt']),
        ...(fence === undefined ? [] : ['floor = :fence']),
      ],
      remove: [...(inHead ? [] : ['value']), ...(expiresAt === null ? ['expiresAt'] : [])],
      when: [
        isAsExpected[expects.kind],
        fence === undefined ? isUnfenced : `(${isUnfenced} OR floor <= :fence)`,
        isNew,
        ...(seen === undefined ? [] : isAsSeen),
      ].join(' AND '),
    },
    recordWords,
    {
      zero: 0,
      one: 1,
      none: null,
      now,
      writeId,
      how: howWritten(command),
      value: kind === 'put' ? command.value : undefined,
      expiresAt,
      fence,
      expected: expects.kind === 'version' ? expects.version : undefined,
      seen,
    },
  );
}
