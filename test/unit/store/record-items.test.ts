import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/record/decide.ts';
import { type RecordState, unwrittenRecord } from '../../../src/record/state.ts';
import {
  fromRecordItems,
  recordHeadKey,
  recordValueKey,
  toValueItem,
  writeIfAllowed,
} from '../../../src/store/records.ts';
import type { Item } from '../../../src/table/attributes.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { ItemInMemory } from '../../support/item-in-memory.ts';
import { putOf, recordTime, recordWorlds, toRecordItems } from '../../support/record-worlds.ts';

const key = { namespace: 'shop', key: 'order:7' };
const headOf = (state: RecordState): Item | undefined =>
  state.version === 0 ? undefined : toRecordItems(key, state)[0];

describe('a write of a record', () => {
  it('makes the same state as decide, and is refused exactly if decide refuses', () => {
    const seen = { written: 0, refused: 0 };
    fc.assert(
      fc.property(recordWorlds, fc.constantFrom(undefined, 0, 1, -1), ({ state, command, now }, off) => {
        const head = new ItemInMemory(recordHeadKey(key), headOf(state));
        const { next } = decide(state, command, now);
        const isAsSeen = off === undefined || off === 0;
        const applied = head.apply(writeIfAllowed(command, now, off === undefined ? undefined : state.version + off));
        expect(applied).toBe(next !== state && isAsSeen);
        seen[applied ? 'written' : 'refused'] += 1;
        if (!applied) {
          expect(head.item).toEqual(headOf(state));
          return;
        }
        const { value, expiresAt, writeIds } = next;
        const valueItem =
          expiresAt === null ? undefined : toValueItem(key, value as string, writeIds[0] as string, expiresAt);
        expect(fromRecordItems(head.item, valueItem)).toEqual(next);
      }),
      { numRuns: 400 },
    );
    expect(Math.min(seen.written, seen.refused)).toBeGreaterThan(50);
  });

  it('has these attributes', () => {
    const head = new ItemInMemory(recordHeadKey(key));
    const put = putOf({ value: '{"a":1}', fence: 7, writeId: 'write-1' });
    expect(head.apply(writeIfAllowed(put, recordTime))).toBe(true);
    const first = {
      ...{ pk: 'shop/record/order:7', sk: 'record', v: 1, val: '{"a":1}', floor: 7, at: recordTime },
      ...{ wid: 'write-1', how: 'created', w0: 'write-1' },
    };
    expect(head.item).toMatchObject(first);
    const withEnd = {
      ...put,
      expects: { kind: 'version', version: 1 },
      writeId: 'write-2',
      expiresInMs: 5_000,
    } as const;
    expect(head.apply(writeIfAllowed(withEnd, recordTime))).toBe(true);
    const { val: _, ...rest } = first;
    const second = { v: 2, wid: 'write-2', how: 'replaced', w0: 'write-2', w1: 'write-1', exp: recordTime + 5_000 };
    expect(head.item).toMatchObject({ ...rest, ...second });
    expect(head.item).not.toHaveProperty('val');
    expect(toValueItem(key, '1', 'write-2', epochMs(recordTime + 5_000))).toEqual({
      ...{ pk: 'shop/record/order:7', sk: 'value', wid: 'write-2', val: '1', ttl: recordTime / 1_000 + 65 },
    });
  });
});

describe('a write of a record that was seen at a version', () => {
  const headAt = (version: number) => {
    const head = new ItemInMemory(recordHeadKey(key));
    if (version > 0) head.apply(writeIfAllowed(putOf({ writeId: 'first' }), recordTime));
    return head;
  };

  it.each([
    [0, 0, true],
    [1, 1, true],
    [1, 0, false],
    [1, 2, false],
    [0, 1, false],
  ])('and has version %i now, and was seen at %i, is applied: %s', (version, seen, isApplied) => {
    const put = putOf({ expects: version === 0 ? { kind: 'absent' } : { kind: 'present' }, writeId: 'second' });
    expect(headAt(version).apply(writeIfAllowed(put, recordTime, seen))).toBe(isApplied);
  });

  it('has no end and no floor if the next write has none', () => {
    const head = new ItemInMemory(recordHeadKey(key));
    head.apply(writeIfAllowed(putOf({ expiresInMs: 5_000 }), recordTime));
    const put = putOf({ expects: { kind: 'version', version: 1 }, value: '2', writeId: 'second' });
    expect(head.apply(writeIfAllowed(put, recordTime))).toBe(true);
    expect(head.item).toMatchObject({ v: 2, val: '2' });
    expect(head.item).not.toHaveProperty('exp');
    expect(head.item).not.toHaveProperty('floor');
  });
});

describe('the items of a record', () => {
  const state = decide(unwrittenRecord, putOf({ expiresInMs: 5_000 }), recordTime).next;
  const [head, value] = toRecordItems(key, state) as [Item, Item];

  it('are read together', () => {
    expect(fromRecordItems(head, value)).toEqual(state);
    expect(fromRecordItems(head, undefined), 'its value was collected').toEqual({ ...state, value: null });
    expect(fromRecordItems(undefined, undefined)).toBe(unwrittenRecord);
    expect(recordValueKey(key)).toEqual({ pk: head.pk, sk: 'value' });
  });

  it('belong together only if one write made both', () => {
    const other = { ...value, wid: 'another' };
    expect(fromRecordItems(head, other)).toBeUndefined();
    const { exp: _, ...endless }: Item = { ...head, val: '"in the head"' };
    const inHead = { ...state, value: '"in the head"', expiresAt: null };
    expect(fromRecordItems(endless, other), 'a value that is no longer needed').toEqual(inHead);
  });

  it('name only the latest write if a release did not know of the others', () => {
    const writeIdsOf = (item: Item) => fromRecordItems(item, undefined)?.writeIds;
    expect(writeIdsOf({ ...head, wid: 'newer', w0: 'older' })).toEqual(['newer']);
    expect(writeIdsOf({ ...head, w1: 'older', w2: null })).toEqual([head.wid, 'older']);
    const { w0: _, ...bare } = head;
    expect(writeIdsOf(bare)).toEqual([head.wid]);
  });

  it.each<[string, Item, string]>([
    ['version', { v: 'x' }, '"v" should be a whole number'],
    ['floor', { floor: 'x' }, '"floor" should be a whole number'],
    ['kind of write', { how: 'x' }, '"how" is none of created, replaced, deleted'],
    ['time', { at: undefined }, '"at" should be a whole number'],
    ['end', { exp: 'x' }, '"exp" should be a whole number'],
    ['write', { wid: undefined }, '"wid" should be a string'],
    ['earlier write', { w1: 5 }, '"a write id" should be a string'],
  ])('fail closed with a wrong %s', (_what, damage, why) => {
    expect(() => fromRecordItems({ ...head, ...damage }, undefined)).toThrow(why);
  });

  it('fail closed with a wrong value', () => {
    expect(() => fromRecordItems(head, { ...value, val: 5 })).toThrow('"val" should be a string and is a number');
  });
});
