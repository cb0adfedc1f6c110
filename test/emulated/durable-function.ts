/** A user's durable function, which the emulated stack has beside the service: it waits for its lock without running. */
import { withDurableExecution } from '@aws/durable-execution-sdk-js';
import { Holdfast } from '../../src/client/index.ts';
import { lockedStep } from '../../src/durable/index.ts';

interface Work {
  readonly url: string;
  readonly lock: string;
}

export const handler = withDurableExecution(async ({ url, lock }: Work, ctx) => {
  const locks = new Holdfast({ url, namespace: 'orders', owner: 'durable' });
  return lockedStep(ctx, locks, lock, { leaseMs: 60_000 }, async ({ fence }) => ({ fence }));
});
