/**
 * A record as items, and its one write. The head decides about every write. It has no TTL: if it were deleted, version
 * and floor would start again, and a stale write would be accepted. It has about 400 bytes. So the value of a record
 * with an end is in a second item, which TTL deletes (docs/decisions/007). The second item has the same partition, and
 * the id of the write to which it belongs.
 */
import type { Expectation, RecordCommand } from '../../record/commands.ts';
import { howWritten, stateAfter } from '../../record/decide.ts';
import { recordLimits } from '../../record/limits.ts';
import { type RecordState, unwrittenRecord, writtenHows } from '../../record/state.ts';
import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import type { RecordKey } from '../record-store.ts';
import {
  asText,
  type Item,
  type ItemKey,
  instant,
  integer,
  oneOf,
  optional,
  text,
  type Update,
  update,
} from './attributes.ts';

/** The id of each of the latest writes is a separate attribute, newest first, so that one update can move all of them. */
const writeIdNames = Array.from({ length: recordLimits.writeIdsRemembered }, (_, index) => `w${index}`);
const writeIdWords = writeIdNames.map((_, index) => `writeId${index}`);

export const recordWords = {
  ...Object.fromEntries(writeIdNames.map((name, index) => [`writeId${index}`, name])),
  partition: 'pk',
  version: 'v',
  /** The value's JSON text. A tombstone has none. */
  value: 'val',
  /** The highest fence that was accepted. Undefined if no write had a fence. */
  floor: 'floor',
  updatedAt: 'at',
  /** The write that made this version, and what it did. */
  writeId: 'wid',
  how: 'how',
  expiresAt: 'exp',
  collectAt: 'ttl',
} as const;
const words = recordWords;

const headSortKey = 'record';
const valueSortKey = 'value';

/** A host whose clock is behind must still find a value that it counts as present. A minute is far more than two clocks differ. */
const keptAfterEndMs = 60_000;

export const recordPartition = ({ namespace, key }: RecordKey): string => `${namespace}/record/${key}`;

export const recordHeadKey = (key: RecordKey): ItemKey => ({ pk: recordPartition(key), sk: headSortKey });

export const recordValueKey = (key: RecordKey): ItemKey => ({ pk: recordPartition(key), sk: valueSortKey });

export const toValueItem = (key: RecordKey, value: string, writeId: string, expiresAt: EpochMs): Item => ({
  ...recordValueKey(key),
  [words.writeId]: writeId,
  [words.value]: value,
  [words.collectAt]: toTtlSeconds(after(expiresAt, keptAfterEndMs)),
});

export const needsValueItem = (head: Item | undefined): boolean => head?.[words.expiresAt] !== undefined;

export const isHead = ({ sk }: Item): boolean => sk === headSortKey;

/** True if the value belongs to the write in the head. A value that was deleted belongs to every head. */
export const belongsTogether = (head: Item | undefined, valueItem: Item | undefined): boolean =>
  valueItem === undefined || !needsValueItem(head) || head?.[words.writeId] === valueItem[words.writeId];

export const versionIn = (head: Item | undefined): number => (head === undefined ? 0 : integer(head, words.version));

export function fromRecordItems(head: Item | undefined, valueItem?: Item | undefined): RecordState {
  if (head === undefined) return unwrittenRecord;
  const holder = needsValueItem(head) ? (valueItem ?? {}) : head;
  return {
    version: integer(head, words.version),
    value: optional(text, holder, words.value) ?? null,
    floor: optional(integer, head, words.floor) ?? null,
    how: oneOf(head, words.how, writtenHows),
    writeIds: writeIdsIn(head),
    updatedAt: instant(head, words.updatedAt),
    expiresAt: optional(instant, head, words.expiresAt) ?? null,
  };
}

/** A release that knew only the latest write left the others unchanged. Then they don't count, because their versions are unknown. */
function writeIdsIn(head: Item): string[] {
  const latest = text(head, words.writeId);
  const ids = writeIdNames.map((name) => head[name]).filter((id) => id !== undefined && id !== null);
  return ids[0] === latest ? ids.map((id) => asText(id, 'a write id')) : [latest];
}

/** There is a record: its value is in the head, or its end has not come yet. A tombstone has neither. */
const isThere = '(attribute_exists(value) OR expiresAt > :now)';

/** Holds only for the version that the caller saw, for any record, or if there is none. */
const isAsExpected: Record<Expectation['kind'], string> = {
  version: `${isThere} AND version = :expected`,
  present: isThere,
  absent: `NOT ${isThere}`,
};
const isUnfenced = 'attribute_not_exists(floor)';
/** This write was not accepted before. So a request that the SDK sent twice, or that a caller repeated, has one effect. */
const isNew = `NOT writeId = :writeId AND NOT (:writeId IN (${writeIdWords.join(', ')}))`;

/** The newest write becomes the first, each earlier one moves up by one, and the oldest is forgotten. */
const rememberWrite = writeIdWords.map((word, index) =>
  index === 0 ? `${word} = :writeId` : `${word} = if_not_exists(${writeIdWords[index - 1]}, :none)`,
);

/**
 * Every write of a record, as one conditional update of its head that needs no read. It writes only if `decide` would:
 * a property test compares the two. If `seen` is given, the head must also still have that version (0: no head).
 *
 * Safe because one condition makes three claims: the record is as the caller expects; no higher fence was accepted, and
 * no fence at all if this write has none; and this write is new.
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
