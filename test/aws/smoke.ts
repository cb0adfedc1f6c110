/** What a deployed service must do, through the SDK. The emulator runs the same checks. */
import { strict as assert } from 'node:assert';
import { randomUUID } from 'node:crypto';
import { Holdfast, type HoldfastOptions, LockHeldError, StaleFenceError } from '../../src/client/index.ts';

/** The checks by their names, in the order in which they run. */
export const sdkChecks: Readonly<Record<string, (options: HoldfastOptions) => Promise<void>>> = {
  'a lock excludes, renews and rises': async (options) => {
    await withClients(options, async (one, other) => {
      const name = `check:${randomUUID()}`;
      const first = await one.acquire(name, { leaseMs: 60_000 });
      await first.renew();
      await assert.rejects(other.acquire(name, { waitMs: 0 }), LockHeldError);
      await first.release();
      const second = await other.acquire(name);
      assert.ok(second.fence > first.fence, 'a later grant has a higher fence');
      await second.release();
    });
  },
  'a waiter is granted by push after four seconds': async (options) => {
    await withClients(options, async (one, other) => {
      const name = `check:${randomUUID()}`;
      const held = await one.acquire(name, { leaseMs: 60_000 });
      const waiting = other.acquire(name, { waitMs: 60_000 });
      await new Promise((resolve) => setTimeout(resolve, 4_000));
      await held.release();
      await (await waiting).release();
    });
  },
  'a record refuses a stale fence': async (options) => {
    await withClients(options, async (one) => {
      const record = one.record<number>(`check:${randomUUID()}`);
      await record.put(1, 'absent', { fence: 7 });
      await assert.rejects(record.put(2, { version: 1 }, { fence: 6 }), StaleFenceError);
      await record.delete({ version: 1 }, { fence: 7 });
    });
  },
  'a session ends its locks': async (options) => {
    await withClients(options, async (one, other) => {
      const name = `check:${randomUUID()}`;
      const session = await one.session({ ttlMs: 60_000 });
      await session.acquire(name);
      await session.end();
      await (await other.acquire(name, { waitMs: 30_000 })).release();
    });
  },
};

async function withClients(
  options: HoldfastOptions,
  check: (one: Holdfast, other: Holdfast) => Promise<void>,
): Promise<void> {
  const clients = [new Holdfast(options), new Holdfast(options)] as const;
  try {
    await check(...clients);
  } finally {
    await Promise.all(clients.map((client) => client.close()));
  }
}
