/** A lock with more waiters than its front takes, and what tests ask about it. */
import type { LockState } from '../../../src/lock/state.ts';
import { apply } from '../../../src/service/apply.ts';
import { type LockContext, systemLockContext } from '../../../src/service/context.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { memoryStores } from '../../support/memory-table.ts';

export const key = { namespace: 'test', name: 'lock' };

export const leaseOf = (index: number) => `lease-${String(index).padStart(12, '0')}`;
export const waiting = { waitMs: 60_000 };
export const newcomer = { ...waiting, place: 'new' } as const;

/** Processes on one table, in virtual time. Those who are `elsewhere` are not noted by the table. */
export function processes(sizes = { front: 2, page: 2 }) {
  const time = new VirtualTime();
  const parts = { clock: time, timers: time, random: () => 0.5 };
  const { table, elsewhere, ...stores } = memoryStores(parts);
  const newProcess = (alone = true): LockContext => systemLockContext({ ...stores, ...parts, alone, sizes });
  const another = systemLockContext({ ...elsewhere, ...parts, alone: false, sizes });
  return { time, table, newProcess, another, elsewhere, ...stores };
}

/** A held lock with waiters 1, 2 and so on: two in the front, and two in each page. */
export async function longQueue(waiters: number, sizes = { front: 2, page: 2 }) {
  const world = processes(sizes);
  const { time, newProcess, elsewhere } = world;
  const context = newProcess();
  const ask = async (index: number, more: object = waiting, process = context) =>
    (await apply(process, key, acquireOf(leaseOf(index), { leaseMs: 600_000, ...more }))).answer;
  const tell = async (kind: 'release' | 'step-away' | 'give-up', index: number, more: object = {}, process = context) =>
    (await apply(process, key, { kind, leaseId: leaseOf(index), ...more })).answer;
  await ask(0);
  for (let index = 1; index <= waiters; index++) await ask(index, newcomer);
  const lock = () => elsewhere.store.read(key);
  const first = (await lock()).behind?.first ?? 0;
  const pageAt = async (number: number) => (await elsewhere.pages.read([{ lock: key, number }]))[0];
  const waiterIn = async (page: number, index: number) =>
    (await pageAt(page))?.waiters.find(({ leaseId }) => leaseId === leaseOf(index));
  const close = (number: number) => elsewhere.pages.write({ lock: key, number }, { kind: 'close', now: time.now() });
  world.table.take();
  return { ...world, context, ask, tell, lock, first, pageAt, waiterIn, close };
}

export const leasesIn = ({ queue }: Pick<LockState, 'queue'>) => queue.map(({ leaseId }) => leaseId);
export const holdersOf = ({ holders }: Pick<LockState, 'holders'>) => holders.map(({ leaseId }) => leaseId);
