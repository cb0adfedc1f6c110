/**
 * How a record lies in its items. The head decides about every write. It has no TTL: if it were collected, version and floor would begin
 * again, and let a stale writer in. It weighs about 400 bytes. The value of a record with an end therefore lies beside it, in an item
 * that DynamoDB collects (docs/decisions/007), under the same partition and with the id of the write that it belongs to.
 */
import { recordLimits } from '../../record/limits.ts';
import { type RecordState, unwrittenRecord, writtenHows } from '../../record/state.ts';
import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import type { RecordKey } from '../record-store.ts';
import type { ItemKey } from './attributes.ts';
import { asText, type Item, instant, integer, oneOf, optional, text } from './attributes.ts';

/** The ids of the latest writes are attributes of their own, newest first, so that one update can move each of them up. */
const writeIdNames = Array.from({ length: recordLimits.writeIdsRemembered }, (_, index) => `w${index}`);
export const writeIdWords = writeIdNames.map((_, index) => `writeId${index}`);

export const recordWords = {
  ...Object.fromEntries(writeIdNames.map((name, index) => [`writeId${index}`, name])),
  partition: 'pk',
  version: 'v',
  /** The value's JSON text. A tombstone has none. */
  value: 'val',
  /** The highest fence that was accepted; absent before the first. */
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

/** A host whose clock is behind must still find the value that it takes for present. A minute is far above any skew. */
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

/** The head, and the value where it lies beside. */
export function toRecordItems(key: RecordKey, state: RecordState): Item[] {
  const { value, floor, how, writeIds, expiresAt } = state;
  const [writeId] = writeIds;
  const head = {
    ...recordHeadKey(key),
    [words.version]: state.version,
    [words.updatedAt]: state.updatedAt,
    ...(value === null || expiresAt !== null ? {} : { [words.value]: value }),
    ...(floor === null ? {} : { [words.floor]: floor }),
    ...(writeId === undefined ? {} : { [words.writeId]: writeId, [words.how]: how }),
    ...Object.fromEntries(writeIds.map((id, index) => [writeIdNames[index], id])),
    ...(expiresAt === null ? {} : { [words.expiresAt]: expiresAt }),
  };
  if (value === null || writeId === undefined || expiresAt === null) return [head];
  return [head, toValueItem(key, value, writeId, expiresAt)];
}

export const needsValueItem = (head: Item | undefined): boolean => head?.[words.expiresAt] !== undefined;

export const isHead = ({ sk }: Item): boolean => sk === headSortKey;

/** Whether a value lies with the write that its head tells of. A value that was collected belongs to every head. */
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

/** A release that knew only the latest write leaves the others as they were: then they don't count, since their versions can't be told. */
function writeIdsIn(head: Item): string[] {
  const latest = text(head, words.writeId);
  const ids = writeIdNames.map((name) => head[name]).filter((id) => id !== undefined && id !== null);
  return ids[0] === latest ? ids.map((id) => asText(id, 'a write id')) : [latest];
}
