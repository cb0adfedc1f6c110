/** Work that ends after its lease: every wrapper tells its caller in the same way, whether or not another took the lock. */
import type { DurableContext } from '@aws/durable-execution-sdk-js';
import type { Context, SQSRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/client/index.ts';
import { lockedStep } from '../../../src/durable/index.ts';
import { holdfastLock, withLockHandler, withRecordLocks } from '../../../src/middleware/index.ts';
import { Twin } from '../../../src/testing/index.ts';

const context = { getRemainingTimeInMillis: () => 60_000 } as Context;
const message = { messageId: 'm1', body: '{}', eventSource: 'aws:sqs', attributes: {} } as unknown as SQSRecord;

/** Steps that are run at once. */
const durable = {
  step: (_name: string, run: () => Promise<unknown>) => run(),
  createCallback: async () => [new Promise(() => {}), 'callback1'],
} as unknown as DurableContext;

type Work = () => Promise<unknown>;

const wrappers: Record<string, (locks: Holdfast, work: Work) => Promise<unknown>> = {
  withLock: (locks, work) => locks.withLock('a', work),
  withLocks: (locks, work) => locks.withLocks(['a', 'b'], work),
  'withLock of a semaphore': (locks, work) => locks.semaphore('a', 3).withLock(work),
  withLockHandler: (locks, work) => withLockHandler({ locks, name: 'a' }, work)({}, context),
  holdfastLock: async (locks, work) => {
    const { before, after } = holdfastLock({ locks, name: 'a' });
    const request = { event: {}, context, response: undefined } as never;
    await before?.(request);
    await work();
    await after?.(request);
  },
  lockedStep: (locks, work) => lockedStep(durable, locks, 'a', { leaseMs: 30_000 }, work),
};

describe.each(Object.entries(wrappers))('work that ends after its lease, in %s', (name, run) => {
  it('rejects with LeaseLostError, even if nobody has taken the lock, and leaves the lock free', async () => {
    const twin = new Twin();
    const [one, other] = [twin.client(), twin.client()];
    const working = run(one, () => twin.expire('a'));
    await expect(working).rejects.toMatchObject({ name: 'LeaseLostError', code: 'lease-lost', reason: 'expired' });
    expect((await other.inspect('a')).holders).toEqual([]);
  });

  it('rejects with LeaseLostError if another has it by then', async () => {
    const twin = new Twin();
    const [one, other] = [twin.client(), twin.client()];
    const limit = name.endsWith('semaphore') ? 3 : 1;
    const working = run(one, async () => {
      await twin.expire('a');
      await other.acquire('a', { leaseMs: 60_000, limit, permits: limit });
    });
    await expect(working).rejects.toMatchObject({ name: 'LeaseLostError', code: 'lease-lost', reason: 'expired' });
  });
});

describe('a message whose work ends after its lease', () => {
  it('is reported as failed, so that it comes again', async () => {
    const twin = new Twin();
    const locks = twin.client();
    const errors: unknown[] = [];
    const onFailure = (_: SQSRecord, error: unknown) => errors.push(error);
    const handler = withRecordLocks({ locks, name: () => 'a', onFailure }, () => twin.expire('a'));
    expect(await twin.until(handler({ Records: [message] }, context))).toEqual({
      batchItemFailures: [{ itemIdentifier: 'm1' }],
    });
    expect(errors).toMatchObject([{ code: 'lease-lost', reason: 'expired' }]);
  });
});
