import type { Context, SQSRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { type OnceRecordsOptions, onceRecords } from '../../../src/middleware/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { seededRandom } from '../../../src/testing/virtual-time.ts';

const contextWith = (remainingMs: number) => ({ getRemainingTimeInMillis: () => remainingMs }) as Context;

const message = (messageId: string, group?: string): SQSRecord =>
  ({
    messageId,
    body: `body of ${messageId}`,
    eventSource: 'aws:sqs',
    attributes: group === undefined ? {} : { MessageGroupId: group },
  }) as unknown as SQSRecord;

type Work = (record: SQSRecord) => unknown;

function world(options: Partial<OnceRecordsOptions> = {}) {
  const twin = new Twin();
  const locks = twin.client();
  const done: string[] = [];
  const complete: Work = ({ messageId }) => done.push(messageId);
  const deliver = async (
    records: readonly SQSRecord[],
    work: Work = complete,
    remainingMs = 30_000,
    client = locks,
  ) => {
    const handler = onceRecords({ locks: client, ...options }, work);
    const { batchItemFailures } = await handler({ Records: [...records] }, contextWith(remainingMs));
    return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  };
  return { twin, locks, done, complete, deliver };
}

describe('onceRecords', () => {
  it('does each message once, and reports only those that failed', async () => {
    const { done, complete, deliver } = world();
    const records = ['m1', 'm2', 'm3'].map((id) => message(id));
    const failing: Work = (record) => {
      if (record.messageId === 'm2') throw new Error('not yet');
      return complete(record);
    };
    expect(await deliver(records, failing)).toEqual(['m2']);
    expect(await deliver(records, failing)).toEqual(['m2']);
    expect(await deliver(records)).toEqual([]);
    expect(done.toSorted()).toEqual(['m1', 'm2', 'm3']);
  });

  it('does a message once that comes twice in one batch, or that its producer sent twice', async () => {
    const { done, deliver } = world({ key: ({ body }) => body.replace(/ again$/, '') });
    const copy = { ...message('m1'), messageId: 'm2', body: 'body of m1 again' };
    expect(await deliver([message('m1'), copy, message('m1')])).toEqual([]);
    expect(done).toEqual(['m1']);
  });

  it('reports a message that another delivery is working on, and does it no second time', async () => {
    const { twin, done, deliver } = world();
    const gate = Promise.withResolvers<void>();
    const first = deliver([message('m1')], async ({ messageId }) => {
      await gate.promise;
      done.push(messageId);
    });
    await twin.advance(10);
    expect(await deliver([message('m1')], undefined, 30_000, twin.client())).toEqual(['m1']);
    gate.resolve();
    expect(await first).toEqual([]);
    expect(await deliver([message('m1')])).toEqual([]);
    expect(done).toEqual(['m1']);
  });

  it('lets no message overtake a failed one of its FIFO group', async () => {
    const { done, complete, deliver } = world();
    const records = [
      message('a1', 'a'),
      message('b1', 'b'),
      message('a2', 'a'),
      message('b2', 'b'),
      message('a3', 'a'),
    ];
    const failing: Work = (record) => {
      if (record.messageId === 'a2') throw new Error('not yet');
      return complete(record);
    };
    expect(await deliver(records, failing)).toEqual(['a2', 'a3']);
    expect(await deliver(records.filter(({ messageId }) => messageId.startsWith('a')))).toEqual([]);
    expect(done.filter((id) => id.startsWith('a'))).toEqual(['a1', 'a2', 'a3']);
  });

  it('begins no message for which no time is left, and reports it', async () => {
    const { done, deliver } = world();
    expect(await deliver([message('m1')], undefined, 1_400)).toEqual(['m1']);
    expect(done).toEqual([]);
    expect(await deliver([message('m1')], undefined, 1_500)).toEqual([]);
  });

  it('fails a message without a key, and not the batch', async () => {
    const errors: unknown[] = [];
    const { done, deliver } = world({
      key: ({ messageId }) => `order:${messageId === 'm1' ? undefined : messageId}`,
      onFailedRecord: (_, error) => errors.push(error),
    });
    expect(await deliver([message('m1'), message('m2')])).toEqual(['m1']);
    expect(done).toEqual(['m2']);
    expect(errors).toMatchObject([{ code: 'invalid-request' }]);
  });

  it('closes a message that failed if asked to', async () => {
    const { deliver } = world({ onFailure: 'close' });
    let runs = 0;
    const fail: Work = () => {
      runs += 1;
      throw new Error('never');
    };
    for (let time = 0; time < 2; time++) expect(await deliver([message('m1')], fail)).toEqual(['m1']);
    expect(runs).toBe(1);
  });

  it.each([1, 2, 3, 4, 5])('completes each message once through failures, copies and kills (%i)', async (seed) => {
    const { twin, done, complete, deliver } = world();
    const random = seededRandom(seed);
    const ids = Array.from({ length: 12 }, (_, index) => `m${index}`);
    let waiting = ids.map((id) => message(id));
    for (let round = 0; waiting.length > 0 && round < 40; round++) {
      // A copy, as standard queues make them now and then.
      const batch = [...waiting, ...waiting.filter(() => random() < 0.2)].slice(0, 10);
      if (random() < 0.3) {
        // The function is killed in the middle: nothing of it is ever answered, and its lease expires.
        const killed = twin.client();
        void deliver(batch, () => new Promise(() => {}), 5_000, killed);
        await twin.advance(5);
        twin.partition(killed);
        await twin.advance(6_000);
        continue;
      }
      const failing: Work = (record) => {
        if (random() < 0.3) throw new Error('not yet');
        return complete(record);
      };
      const failed = await twin.until(deliver(batch, failing));
      const delivered = new Set(batch.map(({ messageId }) => messageId));
      waiting = waiting.filter(({ messageId }) => failed.includes(messageId) || !delivered.has(messageId));
    }
    expect(waiting).toEqual([]);
    expect(done.toSorted()).toEqual(ids.toSorted());
  });
});
