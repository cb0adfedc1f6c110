/** An afternoon of a small shop in a minute: enough happens to its locks that every part of the console has something to show. */
import { Holdfast, isHoldfastError, type Session } from '../../src/client/index.ts';
import { pauseFor, systemTimers } from '../../src/time/timers.ts';

export const namespace = 'payments';

const pause = (ms: number) => pauseFor(systemTimers, ms);

export interface Scene {
  /** Resolves when everybody has gone home. */
  stop(): Promise<void>;
}

/** Workers that take turns at one lock until they are stopped. */
async function takeTurns(
  locks: Holdfast,
  name: string,
  owner: string,
  holdMs: number,
  signal: AbortSignal,
): Promise<void> {
  for (let turn = 0; !signal.aborted; turn++) {
    try {
      const lock = await locks.acquire(name, { owner, leaseMs: 8_000, waitMs: 60_000, signal });
      await pause(holdMs * (0.6 + ((turn * 7) % 5) / 5));
      await lock.release();
      await pause(holdMs * 1.4);
    } catch (error) {
      if (!isHoldfastError(error) && !signal.aborted) throw error;
    }
  }
}

/** A worker that takes the lock and is never heard of again: its lease runs out. */
async function crashAt(locks: Holdfast, name: string): Promise<void> {
  await locks.acquire(name, { owner: 'worker-5', leaseMs: 6_000, waitMs: 60_000, autoRenew: false });
}

async function holdQuietly(locks: Holdfast): Promise<void> {
  const hour = { leaseMs: 3_600_000, autoRenew: false } as const;
  await locks.acquire('report:nightly', {
    ...hour,
    owner: 'report-runner',
    metadata: { job: 'nightly', attempt: '2' },
  });
  for (const n of [1, 2, 3]) await locks.acquire('import:eu', { ...hour, owner: `importer-${n}`, limit: 3 });
  for (const n of [1, 2, 3, 4]) await locks.acquire('prices', { ...hour, owner: `shop-${n}`, mode: 'shared' });
  await locks.acquire('deploy:api', { leaseMs: 90_000, autoRenew: false, owner: 'ci-runner-3' });
  for (const region of ['us', 'ap', 'sa', 'af']) {
    const lock = await locks.acquire(`import:${region}`, { owner: 'importer-7', leaseMs: 5_000 });
    await lock.release();
  }
}

async function openSessions(locks: Holdfast): Promise<Session[]> {
  const sessions: Session[] = [];
  for (const n of [0, 1, 2]) {
    const session = await locks.session({ owner: `consumer-${n}`, ttlMs: 60_000 });
    sessions.push(session);
    for (const shard of [0, 1, 2, 3]) {
      await session.acquire(`shard:${String(n * 4 + shard).padStart(2, '0')}`, { owner: `consumer-${n}` });
    }
  }
  return sessions;
}

/** Two who take two locks in opposite order, without a session: each waits for the other until a wait runs out. */
async function embrace(locks: Holdfast): Promise<void> {
  await locks.acquire('ledger', { owner: 'billing', leaseMs: 600_000, autoRenew: false });
  await locks.acquire('stock', { owner: 'shipping', leaseMs: 600_000, autoRenew: false });
  void locks.acquire('stock', { owner: 'billing', waitMs: 600_000 }).catch(() => undefined);
  void locks.acquire('ledger', { owner: 'shipping', waitMs: 600_000 }).catch(() => undefined);
}

/** Begins, and goes on until it is stopped. Everything has happened once after `runMs`. */
export async function startScene(url: string, runMs: number): Promise<Scene> {
  const locks = new Holdfast({ url, namespace, deadlineMs: 60_000 });
  const over = new AbortController();
  await holdQuietly(locks);
  const sessions = await openSessions(locks);
  await embrace(locks);
  await locks
    .record('wallet:42')
    .update(() => ({ owner: 'Ada', balance: 129.5, currency: 'EUR', flags: ['verified'], limit: null }));
  void locks.acquire('import:eu', { owner: 'importer-4', limit: 3, waitMs: 600_000 }).catch(() => undefined);
  const workers = [1, 2, 3, 4, 6, 7, 8, 9].map((n) => takeTurns(locks, 'wallet:42', `worker-${n}`, 1_100, over.signal));
  workers.push(...[1, 2].map((n) => takeTurns(locks, 'invoice:2041', `mailer-${n}`, 900, over.signal)));
  await pause(runMs * 0.35);
  await crashAt(locks, 'wallet:42');
  await pause(runMs * 0.45);
  const { holders } = await locks.inspect('wallet:42');
  const [holder] = holders;
  if (holder !== undefined) {
    await locks.revoke('wallet:42', { fence: holder.fence, reason: 'stuck since Tuesday' }).catch(() => undefined);
  }
  await pause(runMs * 0.2);
  return {
    async stop() {
      over.abort();
      await Promise.allSettled(workers);
      await Promise.all(sessions.map((session) => session.end()));
      await locks.close();
    },
  };
}
