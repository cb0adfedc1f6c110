/**
 * What waiting costs the table, counted: `node test/bench/waiting.ts` prints it as a table. The stores and use cases that are deployed run on the
 * built-in engine, which charges units as DynamoDB does. No time is measured, so the counts are the same on every machine.
 */

import type { LockState } from '../../src/lock/state.ts';
import { everyPermit } from '../../src/lock/state.ts';
import { runsLow } from '../../src/lock/view.ts';
import { apply, refill } from '../../src/service/apply.ts';
import type { LockContext } from '../../src/service/context.ts';
import { bareFacts, systemLockContext } from '../../src/service/context.ts';
import { leaseNameOf } from '../../src/table/digest.ts';
import { epochMs } from '../../src/time/clock.ts';
import { storesOn } from '../support/memory-table.ts';
import { CountedTable, tableName, type Used } from './counted-table.ts';

export interface WaitingCosts {
  readonly waiting: number;
  /** A release with its hand-off, what the notifier does for it, and one new waiter. */
  readonly handOff: Used;
  /** A waiter far back that asks again, with its place from the last answer. */
  readonly rePoll: Used;
  readonly look: Used;
  /** The largest size in the run. */
  readonly itemBytes: number;
  readonly pageBytes: number;
}

export interface WaitingOptions {
  readonly waiting: number;
  /** How many processes share the requests. Each remembers only what it has seen itself. */
  readonly processes: number;
  /** Between two hand-offs, by the clock that the processes read. */
  readonly handOffMs?: number;
}

const handOffs = 160;
/** Not counted: after these, each of the processes has seen the lock. The first request of one that has not is refused. */
const handOffsBefore = 20;
const lock = { namespace: 'bench', name: 'orders:daily-report' };

/** The ids that the SDK makes have 24 characters. */
const leaseOf = (index: number): string => leaseNameOf(`lease-${String(index).padStart(18, '0')}`);

const sum = (one: Used, other: Used): Used => ({
  requests: one.requests + other.requests,
  writeUnits: one.writeUnits + other.writeUnits,
  readUnits: one.readUnits + other.readUnits,
});

const share = (used: Used, count: number): Used => ({
  requests: used.requests / count,
  writeUnits: used.writeUnits / count,
  readUnits: used.readUnits / count,
});

/** A lock with this many waiters and many hand-offs. After each release, a new waiter joins. */
export async function countWaiting({ waiting, processes, handOffMs = 50 }: WaitingOptions): Promise<WaitingCosts> {
  const table = new CountedTable();
  let now = epochMs(1_800_000_000_000);
  const newProcess = (): LockContext =>
    systemLockContext({
      ...storesOn({ table, tableName, random: () => 0.5 }),
      alone: false,
      clock: { now: () => now },
    });
  const notifier = newProcess();
  const serving = Array.from({ length: processes }, newProcess);
  let turn = 0;
  const next = () => serving[turn++ % processes] as LockContext;

  const places = new Map<number, number | undefined>();
  const ask = async (index: number, place: number | 'new' | undefined, attendMs: number | null = null) => {
    const { answer } = await apply(next(), lock, {
      kind: 'acquire',
      leaseId: leaseOf(index),
      owner: 'worker-17',
      permits: everyPermit,
      limit: everyPermit,
      leaseMs: 60_000,
      waitMs: 900_000,
      attendMs,
      ...(place === undefined ? {} : { place }),
    });
    if (index > 0 && answer.kind !== 'waiting') throw new Error(`Expected to wait, got ${answer.kind}.`);
    places.set(index, answer.kind === 'waiting' ? answer.place : undefined);
  };
  const handOver = async (holder: number): Promise<LockState> => {
    const { answer, state } = await apply(next(), lock, { kind: 'release', leaseId: leaseOf(holder) });
    if (answer.kind !== 'released' || answer.reason !== 'ok') throw new Error(`${holder} was not the holder.`);
    return state;
  };

  for (let index = 0; index <= waiting; index++) await ask(index, 'new');
  let handOff: Used = { requests: 0, writeUnits: 0, readUnits: 0 };
  let [itemMax, pageMax] = [0, 0];
  for (let holder = 0; holder < handOffsBefore + handOffs; holder++) {
    if (holder === handOffsBefore) table.take();
    now = epochMs(now + handOffMs);
    const state = await handOver(holder);
    if (runsLow(state, bareFacts(notifier))) await refill(notifier, lock, state);
    const joining = holder + waiting + 1;
    await ask(joining, 'new');
    if (holder >= handOffsBefore) handOff = sum(handOff, table.take());
    itemMax = Math.max(itemMax, table.bytesOf(`bench/lock/${lock.name}`, 'lock'));
    pageMax = Math.max(pageMax, table.bytesOf(`bench/page/${lock.name}#${places.get(joining)}`, 'page'));
  }
  const last = handOffsBefore + handOffs + waiting;
  await ask(last, places.get(last), 25_000);
  const rePoll = table.take();
  await notifier.store.read(lock);
  const look = table.take();
  return { waiting, handOff: share(handOff, handOffs), rePoll, look, itemBytes: itemMax, pageBytes: pageMax };
}

/** The lengths of the queue in the docs. */
export const waitingLengths = [2, 10, 50, 200, 1_000, 5_000] as const;

if (import.meta.main) {
  const rows: string[] = [];
  for (const waiting of waitingLengths) {
    const one = await countWaiting({ waiting, processes: 1 });
    const many = await countWaiting({ waiting, processes: 20 });
    const shown = ({ writeUnits, readUnits, requests }: Used) =>
      `${writeUnits.toFixed(1)} | ${readUnits.toFixed(1)} | ${requests.toFixed(1)}`;
    rows.push(
      `| ${waiting.toLocaleString('en')} | ${shown(one.handOff)} | ${shown(many.handOff)} | ${one.rePoll.writeUnits} | ${one.itemBytes} |`,
    );
  }
  process.stdout.write(
    [
      '| waiting | write units | read units | requests | write units, 20 processes | read units | requests | a re-poll, write units | bytes of the item |',
      '|---|---|---|---|---|---|---|---|---|',
      ...rows,
      '',
    ].join('\n'),
  );
}
