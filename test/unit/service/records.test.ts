import { describe, expect, it } from 'vitest';
import type { RecordCommand } from '../../../src/record/commands.ts';
import { unwrittenRecord } from '../../../src/record/state.ts';
import { type RecordContext, readRecord, systemRecordContext, writeRecord } from '../../../src/service/records.ts';
import { MemoryRecordStore } from '../../../src/store/memory/record-store.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { systemClock } from '../../../src/time/clock.ts';

const key = { namespace: 'test', key: 'wallet' };
const create = { kind: 'put', expects: { kind: 'absent' }, value: '1' } as const;

function world() {
  const time = new VirtualTime();
  const store = new MemoryRecordStore();
  let ids = 0;
  const context: RecordContext = { store, clock: time, newWriteId: () => `write-${ids++}` };
  return { time, store, context };
}

describe('a write of a record', () => {
  it('says how the record was written, which version it made, and when', async () => {
    const { time, context } = world();
    const created = await writeRecord(context, key, create);
    expect(created).toEqual({
      answer: { kind: 'written', how: 'created', version: 1 },
      state: expect.objectContaining({ version: 1, value: '1', updatedAt: time.now() }),
      now: time.now(),
    });
    await time.advance(5);
    const expects = { kind: 'version', version: 1 } as const;
    const replaced = await writeRecord(context, key, { kind: 'put', expects, value: '2' });
    expect(replaced.answer).toEqual({ kind: 'written', how: 'replaced', version: 2 });
    expect(replaced.now).toBe(time.now());
    const deleted = await writeRecord(context, key, { kind: 'delete', expects: { kind: 'present' } });
    expect(deleted.answer).toEqual({ kind: 'written', how: 'deleted', version: 3 });
  });

  it('gets an id of its own if its caller gave none, so that its repetition by the store is known', async () => {
    const { store, context } = world();
    const attempts: RecordCommand[] = [];
    const attempt = store.attempt.bind(store);
    store.attempt = (asked, command, now) => {
      attempts.push(command);
      return attempt(asked, command, now);
    };
    await writeRecord(context, key, create);
    await writeRecord(context, key, { ...create, writeId: 'mine' });
    expect(attempts.map(({ writeId }) => writeId)).toEqual(['write-0', 'mine']);
  });

  it('is refused with the reason of the rules, and changes nothing', async () => {
    const { context } = world();
    await writeRecord(context, key, create);
    const refused = await writeRecord(context, key, { ...create, value: '2' });
    expect(refused).toMatchObject({
      answer: { kind: 'version-mismatch', version: 1 },
      state: { version: 1, value: '1' },
    });
    expect((await readRecord(context, key)).state).toMatchObject({ version: 1, value: '1' });
  });

  it('gets the version that it made if it is repeated after others have written', async () => {
    const { context } = world();
    const first = { ...create, writeId: 'first' };
    await writeRecord(context, key, first);
    await writeRecord(context, key, { kind: 'put', expects: { kind: 'present' }, value: '2' });
    const repeated = await writeRecord(context, key, first);
    expect(repeated).toMatchObject({ answer: { kind: 'written', version: 1 }, state: { version: 1, value: '2' } });
    const refused = await writeRecord(context, key, create);
    expect(refused.state.version, 'a refused caller sees the record as it is').toBe(2);
  });

  it('is not reported as written if the store refuses what the rules allow', async () => {
    const { store, context } = world();
    store.attempt = async () => ({ applied: false, state: unwrittenRecord });
    await expect(writeRecord(context, key, create)).rejects.toThrow('The store refused a write that the rules allow.');
  });
});

describe('a read of a record', () => {
  it('tells its time, which says whether the record has ended', async () => {
    const { time, context } = world();
    await writeRecord(context, key, { ...create, expiresInMs: 10 });
    await time.advance(10);
    const { state, now } = await readRecord(context, key);
    expect([state.expiresAt, now]).toEqual([time.now(), time.now()]);
  });
});

describe('the context of a deployed service', () => {
  it('has the real clock, and makes ids of 128 random bits', () => {
    const store = new MemoryRecordStore();
    const context = systemRecordContext(store);
    expect(context).toMatchObject({ store, clock: systemClock });
    expect(context.newWriteId()).toMatch(/^[\w-]{22}$/);
    expect(context.newWriteId()).not.toBe(context.newWriteId());
  });
});
