/** What a batch of the stream becomes: items for each effect, and the records that Lambda must deliver again. */
import type { DynamoDBRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import type { Measure } from '../../../src/notify/measures.ts';
import {
  atOnceMax,
  changesIn,
  createStreamHandler,
  type Effect,
  eachItem,
  type StreamItem,
} from '../../../src/notify/stream-handler.ts';
import { createWorld } from './world.ts';

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields?: unknown;
}

/** Two records of one lock, a handler with the given effects, and what it logs and measures. */
async function world(...effects: readonly Effect[]) {
  const lock = createWorld();
  await lock.acquire('lease-holder-00001');
  await lock.release('lease-holder-00001');
  const [first, second] = lock.records() as [DynamoDBRecord, DynamoDBRecord];
  const logged: Line[] = [];
  const at = (level: string) => (message: string, fields?: unknown) => void logged.push({ level, message, fields });
  const log = { info: at('info'), warn: at('warn'), error: at('error') };
  const measured: Measure[] = [];
  let flushed = 0;
  const meter = {
    record: (measures: readonly Measure[]) => void measured.push(...measures),
    flush: () => void flushed++,
  };
  const handle = createStreamHandler(effects, log, meter);
  const deliver = async (...Records: readonly DynamoDBRecord[]) =>
    (await handle({ Records: [...Records] })).batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  return { first, second, logged, measured, deliver, log, flushes: () => flushed };
}

/** An effect that notes what it gets, and leaves what the test says. */
function effectOf(name: string, leave: (items: readonly StreamItem[]) => readonly StreamItem[] = () => []) {
  const seen: string[][] = [];
  const run: Effect['run'] = async (items) => {
    seen.push(items.map(({ recordId }) => recordId));
    return leave(items);
  };
  return { name, run, seen };
}

const sequenceOf = ({ dynamodb }: DynamoDBRecord) => dynamodb?.SequenceNumber;

describe('a batch', () => {
  it('goes to each effect as a whole, in order and without repetitions', async () => {
    const [one, other] = [effectOf('one'), effectOf('other')];
    const { first, second, deliver, logged, measured } = await world(one, other);
    expect(await deliver(first, second, structuredClone(first))).toEqual([]);
    expect([one.seen, other.seen]).toEqual([[['event-1', 'event-2']], [['event-1', 'event-2']]]);
    expect([logged, measured]).toEqual([[], []]);
  });

  it('without anything for an effect does not call it', async () => {
    const effect = effectOf('one');
    const { first, deliver } = await world(effect);
    const deleted = { ...first, eventName: 'REMOVE' } as const;
    const session = { dynamodb: { SequenceNumber: '9', Keys: { pk: { S: 'test/session/a' }, sk: { S: 'session' } } } };
    expect(await deliver(deleted, session)).toEqual([]);
    expect(effect.seen).toEqual([]);
  });

  it('tells records without an id apart by their number', async () => {
    const effect = effectOf('one');
    const { first, second, deliver } = await world(effect);
    await deliver({ ...first, eventID: undefined as never }, { ...second, eventID: undefined as never });
    expect(effect.seen).toEqual([[sequenceOf(first), sequenceOf(second)]]);
  });
});

describe('an effect that fails', () => {
  it('for some records names them, and they alone are tried again by this process', async () => {
    const flaky = effectOf('flaky', (items) => items.filter(({ recordId }) => recordId === 'event-2'));
    const fine = effectOf('fine');
    const { first, second, deliver, logged, measured, flushes } = await world(flaky, fine);
    expect(await deliver(first, second)).toEqual([sequenceOf(second)]);
    expect(logged).toEqual([
      { level: 'warn', message: 'An effect failed for some records.', fields: { effect: 'flaky', records: 1 } },
    ]);
    expect([measured, flushes()]).toEqual([[{ name: 'FailedBatches', unit: 'Count', value: 1 }], 1]);
    await deliver(first, second);
    expect([flaky.seen, fine.seen]).toEqual([[['event-1', 'event-2'], ['event-2']], [['event-1', 'event-2']]]);
  });

  it('for the whole batch names every record, and other effects are not repeated', async () => {
    const broken = effectOf('broken', () => {
      throw new Error('out of reach');
    });
    const fine = effectOf('fine');
    const { first, second, deliver, logged } = await world(broken, fine);
    expect(await deliver(first, second)).toEqual([sequenceOf(first), sequenceOf(second)]);
    expect(logged).toMatchObject([
      { level: 'error', message: 'An effect failed for the whole batch.', fields: { effect: 'broken' } },
    ]);
    expect(JSON.stringify(logged)).toContain('out of reach');
    await deliver(first, second);
    expect([broken.seen.length, fine.seen.length]).toEqual([2, 1]);
  });

  it('is the only reason to remember what was done', async () => {
    const fine = effectOf('fine');
    const { first, deliver } = await world(fine);
    await deliver(first);
    await deliver(first);
    expect(fine.seen).toHaveLength(2);
  });
});

describe('a record that can not be read', () => {
  it('is reported alone, and its images, which have lease ids, are not logged', async () => {
    const effect = effectOf('one');
    const { first, second, deliver, logged } = await world(effect);
    const spoiled = { ...first, dynamodb: { ...first.dynamodb, NewImage: { pk: { S: 'lease-holder-00001' }, h: 7 } } };
    expect(await deliver(spoiled as unknown as DynamoDBRecord, second)).toEqual([sequenceOf(first)]);
    expect(effect.seen).toEqual([['event-2']]);
    expect(logged).toMatchObject([
      { level: 'error', message: 'A stream record could not be read.', fields: { sequenceNumber: sequenceOf(first) } },
    ]);
    expect(JSON.stringify(logged)).not.toContain('lease-holder-00001');
  });
});

describe('eachItem', () => {
  const items = (count: number): StreamItem[] =>
    Array.from({ length: count }, (_, index) => ({ recordId: `r${index}`, sequenceNumber: `${index}` }));

  it('does the work for each item, and returns those that failed', async () => {
    const { log, logged } = await world();
    const worked: string[] = [];
    const left = await eachItem(log, 'show', items(3), async ({ recordId }) => {
      worked.push(recordId);
      if (recordId === 'r1') throw new Error('not now');
    });
    expect([worked, left]).toEqual([['r0', 'r1', 'r2'], [{ recordId: 'r1', sequenceNumber: '1' }]]);
    expect(logged).toMatchObject([
      {
        level: 'warn',
        message: 'A record failed and is tried again.',
        fields: { effect: 'show', sequenceNumber: '1', error: expect.stringContaining('not now') },
      },
    ]);
  });

  it('works on a limited number of items at once', async () => {
    const { log } = await world();
    let [now, most] = [0, 0];
    await eachItem(log, 'show', items(3 * atOnceMax), async () => {
      most = Math.max(most, ++now);
      await new Promise((resolve) => setImmediate(resolve));
      now -= 1;
    });
    expect(most).toBe(20);
  });
});

describe('changesIn', () => {
  it('leaves out watchers that connected', async () => {
    const events = {} as NonNullable<StreamItem['events']>;
    const change = { recordId: 'c', sequenceNumber: '1', events };
    expect(changesIn([{ recordId: 'w', sequenceNumber: '2' }, change])).toEqual([change]);
  });
});
