import { describe, expect, it } from 'vitest';
import { type RecordContext, readRecord, systemRecordContext, writeRecord } from '../../../src/service/records.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { systemClock } from '../../../src/time/clock.ts';
import { answerLost, memoryStores, refused } from '../../support/memory-table.ts';

const key = { namespace: 'test', key: 'wallet' };
/** A record is written in one request, or in a transaction if its value has an item of its own. */
const writes = ['UpdateItem record', 'write together'];
const create = { kind: 'put', expects: { kind: 'absent' }, value: '1' } as const;

function world() {
  const time = new VirtualTime();
  const { table, records: store } = memoryStores({ clock: time, timers: time, random: () => 0.5 });
  let ids = 0;
  const context: RecordContext = { store, clock: time, newWriteId: () => `write-${ids++}` };
  return { time, table, context };
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
    const { table, context } = world();
    for (const name of writes) table.meddle(name, answerLost);
    expect((await writeRecord(context, key, create)).answer).toMatchObject({ kind: 'written', version: 1 });
    const own = { ...create, expects: { kind: 'present' }, writeId: 'mine' } as const;
    expect((await writeRecord(context, key, own)).answer).toMatchObject({ kind: 'written', version: 2 });
    for (const name of writes) table.restore(name);
    expect((await writeRecord(context, key, own)).answer, 'the id of the caller').toMatchObject({ version: 2 });
    expect((await readRecord(context, key)).state.version).toBe(2);
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
    const { table, context } = world();
    for (const name of writes) table.meddle(name, refused);
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
    const { records: store } = memoryStores();
    const context = systemRecordContext(store);
    expect(context).toMatchObject({ store, clock: systemClock });
    expect(context.newWriteId()).toMatch(/^[\w-]{22}$/);
    expect(context.newWriteId()).not.toBe(context.newWriteId());
  });
});
