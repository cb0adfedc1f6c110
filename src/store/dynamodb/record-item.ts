/**
 * How a record lies in its items. Its head decides about every write:
 *
 *     pk sk     its key                              v      the version
 *     val       the value's JSON text; a tombstone   floor  the highest fence that was accepted; absent before the first
 *               has none                             at     when it was written
 *     wid how   the write that made this version     exp    when the record ends; absent where it has no end
 *
 * The head has no `ttl`: if it were collected, version and floor would begin anew, and let a stale writer in. It weighs about
 * 200 bytes. The value of a record with an end therefore lies beside it, in an item that DynamoDB collects (docs/decisions/007):
 *
 *     pk sk     the same pk, `value`                 wid    the write that it belongs to
 *     val       the value's JSON text                ttl    after the record's end
 */
import { type RecordState, unwrittenRecord, type WrittenHow } from '../../record/state.ts';
import { after, type EpochMs, epochMs, toTtlSeconds } from '../../time/clock.ts';
import type { RecordKey } from '../record-store.ts';
import type { Item } from './item-table.ts';
import type { ItemKey } from './keys.ts';

const headSortKey = 'record';
const valueSortKey = 'value';

/** A host whose clock is behind must still find the value that it takes for present. A minute is far above any skew. */
const keptAfterEndMs = 60_000;

export const recordPartition = ({ namespace, key }: RecordKey): string => `${namespace}/record/${key}`;

export const recordHeadKey = (key: RecordKey): ItemKey => ({ pk: recordPartition(key), sk: headSortKey });

export const recordValueKey = (key: RecordKey): ItemKey => ({ pk: recordPartition(key), sk: valueSortKey });

export const toValueItem = (key: RecordKey, value: string, writeId: string, expiresAt: EpochMs): Item => ({
  ...recordValueKey(key),
  wid: writeId,
  val: value,
  ttl: toTtlSeconds(after(expiresAt, keptAfterEndMs)),
});

/** The head, and the value where it lies beside. */
export function toRecordItems(key: RecordKey, state: RecordState): Item[] {
  const { value, floor, lastWrite, expiresAt } = state;
  const head = {
    ...recordHeadKey(key),
    v: state.version,
    at: state.updatedAt,
    ...(value === null || expiresAt !== null ? {} : { val: value }),
    ...(floor === null ? {} : { floor }),
    ...(lastWrite === null ? {} : { wid: lastWrite.id, how: lastWrite.how }),
    ...(expiresAt === null ? {} : { exp: expiresAt }),
  };
  if (value === null || lastWrite === null || expiresAt === null) return [head];
  return [head, toValueItem(key, value, lastWrite.id, expiresAt)];
}

export const needsValueItem = (head: Item | undefined): boolean => head?.exp !== undefined;

export const isHead = ({ sk }: Item): boolean => sk === headSortKey;

/** Whether a value lies with the write that its head tells of. A value that was collected belongs to every head. */
export const belongsTogether = (head: Item | undefined, valueItem: Item | undefined): boolean =>
  valueItem === undefined || !needsValueItem(head) || head?.wid === valueItem.wid;

export function fromRecordItems(head: Item | undefined, valueItem?: Item | undefined): RecordState {
  if (head === undefined) return unwrittenRecord;
  const value = needsValueItem(head) ? valueItem?.val : head.val;
  return {
    version: head.v as number,
    value: (value as string | undefined) ?? null,
    floor: (head.floor as number | undefined) ?? null,
    lastWrite: { id: head.wid as string, how: head.how as WrittenHow },
    updatedAt: epochMs(head.at as number),
    expiresAt: head.exp === undefined ? null : epochMs(head.exp as number),
  };
}
