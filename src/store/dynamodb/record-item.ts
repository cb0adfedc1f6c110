/**
 * How a record lies in its item.
 *
 *     pk sk     its key                              v      the version
 *     val       the value's JSON text; a tombstone   floor  the highest fence that was accepted; absent before the first
 *               has none                             at     when it was written
 *     wid how   the write that made this version
 *
 * There is no `ttl`: a tombstone that was collected would let version and floor begin anew, and a stale writer in. It weighs
 * about 200 bytes.
 */
import { type RecordState, unwrittenRecord, type WrittenHow } from '../../record/state.ts';
import { epochMs } from '../../time/clock.ts';
import type { RecordKey } from '../record-store.ts';
import type { ItemKey } from './keys.ts';

export const recordItemKey = ({ namespace, key }: RecordKey): ItemKey => ({
  pk: `${namespace}/record/${key}`,
  sk: 'record',
});

export function toRecordItem(key: RecordKey, state: RecordState): Record<string, unknown> {
  return {
    ...recordItemKey(key),
    v: state.version,
    at: state.updatedAt,
    ...(state.value === null ? {} : { val: state.value }),
    ...(state.floor === null ? {} : { floor: state.floor }),
    ...(state.lastWrite === null ? {} : { wid: state.lastWrite.id, how: state.lastWrite.how }),
  };
}

export function fromRecordItem(item: Record<string, unknown> | undefined): RecordState {
  if (item === undefined) return unwrittenRecord;
  return {
    version: item.v as number,
    value: (item.val as string | undefined) ?? null,
    floor: (item.floor as number | undefined) ?? null,
    lastWrite: { id: item.wid as string, how: item.how as WrittenHow },
    updatedAt: epochMs(item.at as number),
  };
}
