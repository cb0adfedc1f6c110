/**
 * What a hand-off takes and costs in direct mode: `node test/bench/direct.ts` prints it as a table. The stores and use cases that are
 * deployed run on the built-in engine, in virtual time, so the figures are the same on every machine.
 */

import { acquire } from '../../src/service/acquire.ts';
import { type LockContext, systemLockContext } from '../../src/service/context.ts';
import { release } from '../../src/service/lease.ts';
import { VirtualTime } from '../../src/testing/virtual-time.ts';
import { pauseFor } from '../../src/time/timers.ts';
import { storesOn } from '../support/memory-table.ts';
import { CountedTable, tableName, type Used } from './counted-table.ts';

/** The time of a write to DynamoDB within a region. A read takes half as long. Virtual time has whole milliseconds. */
const writeMs = 4;
/** Each holder holds for as long as the benchmark on a real engine needs until the next waiter has joined. */
const holdMsDefault = 40;
/** Nobody is served before this: a lock may be held for long before the first hand-off. */
const quietMs = 3_000;
const joinMs = 3 * writeMs;
const handOffsMin = 60;
const lock = { namespace: 'bench', name: 'orders:daily-report' };

export interface DirectOptions {
  readonly waiting: number;
  /** Over how many processes the waiters are spread. */
  readonly processes: number;
  readonly holdMs?: number;
}

export interface DirectHandOffs {
  /** From the call of release until the next waiter has its answer, in the time of single writes. */
  readonly p50: number;
  readonly p99: number;
  /** For each hand-off, with the join of one more waiter and all looks. */
  readonly used: Used;
  /** Read units in a second, while everybody waits and while the lock is handed over. */
  readonly readUnitsPerSecond: { readonly quiet: number; readonly busy: number };
}

/** A small random generator, so that each run is the same. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

export async function measureDirect({
  waiting,
  processes,
  holdMs = holdMsDefault,
}: DirectOptions): Promise<DirectHandOffs> {
  const time = new VirtualTime({ turnsToSettle: 1 });
  const random = randomFrom(7);
  const table = new CountedTable((operation) =>
    // A quarter more or less, so that two requests of the same instant do not always come in the same order.
    pauseFor(time, (0.75 + random() / 2) * (/^(Get|BatchGet|Query)/.test(operation) ? writeMs / 4 : writeMs / 2)),
  );
  const newProcess = (): LockContext =>
    systemLockContext({
      ...storesOn({ table, tableName, random }),
      alone: false,
      clock: time,
      timers: time,
      random,
    });
  const contexts = Array.from({ length: processes }, newProcess);
  // Whoever has released waits again in the same process.
  const contextOf = (index: number) => contexts[(index % (waiting + 1)) % processes] as LockContext;
  const requestOf = (index: number) => ({
    leaseId: `lease-${String(index).padStart(18, '0')}`,
    owner: 'worker-17',
    leaseMs: 60_000,
    waitMs: 900_000,
    place: 'new' as const,
  });

  const times: number[] = [];
  let releasedAt = 0;
  let isOver = false;
  /** Waits for its turn, holds and releases. When the next one has the lock, it waits again. */
  const live = async (index: number): Promise<void> => {
    const context = contextOf(index);
    const { place, ...again } = requestOf(index);
    let { answer } = await acquire(context, lock, { ...again, place });
    while (answer.kind === 'waiting') {
      ({ answer } = await acquire(context, lock, { ...again, place: answer.place }));
    }
    if (answer.kind !== 'granted') throw new Error(`Expected a grant, got ${answer.kind}.`);
    if (index > 0) {
      times.push(time.now() - releasedAt);
      if (times.length >= Math.max(handOffsMin, 2 * waiting)) isOver = true;
      else void live(index + waiting);
    }
    await pauseFor(time, index === 0 ? waiting * joinMs + quietMs : holdMs);
    releasedAt = time.now();
    await release(context, lock, again);
  };

  void live(0);
  for (let index = 1; index <= waiting; index++) {
    await time.advance(joinMs);
    void live(index);
  }
  await time.advance(quietMs / 3);
  table.take();
  const quietFrom = time.now();
  await time.passUntil(time.now() + quietMs / 3);
  const quiet = table.take().readUnits / ((time.now() - quietFrom) / 1_000);
  await time.passUntil(time.now() + 3_600_000, () => times.length > 0);
  table.take();
  const busyFrom = time.now();
  await time.passUntil(time.now() + 3_600_000, () => isOver);
  const { requests, writeUnits, readUnits } = table.take();
  const [handOffs, seconds] = [times.length - 1, (time.now() - busyFrom) / 1_000];
  const sorted = times.slice(1).sort((one, other) => one - other);
  const inWrites = (part: number) => (sorted[Math.floor(part * (sorted.length - 1))] as number) / writeMs;
  return {
    p50: inWrites(0.5),
    p99: inWrites(0.99),
    used: { requests: requests / handOffs, writeUnits: writeUnits / handOffs, readUnits: readUnits / handOffs },
    readUnitsPerSecond: { quiet, busy: readUnits / seconds },
  };
}

if (import.meta.main) {
  const lines: string[] = [];
  for (const waiting of [2, 10, 50, 200]) {
    for (const processes of [1, 20, waiting + 1]) {
      for (const holdMs of [0, 5, 20, 40, 200]) {
        const { p50, p99, used, readUnitsPerSecond } = await measureDirect({ waiting, processes, holdMs });
        const cells = [waiting, processes, holdMs, p50.toFixed(1), p99.toFixed(1), used.requests.toFixed(1)];
        const units = [used.writeUnits.toFixed(1), used.readUnits.toFixed(1)];
        const rates = [readUnitsPerSecond.quiet.toFixed(0), readUnitsPerSecond.busy.toFixed(0)];
        lines.push(`| ${[...cells, ...units, ...rates].join(' | ')} |`);
      }
    }
  }
  process.stdout.write(
    [
      '| waiting | processes | hold, ms | p50, writes | p99, writes | requests | write units | read units | read units/s, quiet | read units/s, busy |',
      `|${'---|'.repeat(10)}`,
      ...lines,
      '',
    ].join('\n'),
  );
}
