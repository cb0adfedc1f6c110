import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { apply } from '../../../src/service/apply.ts';
import type { LockContext } from '../../../src/service/context.ts';
import { LockMemory } from '../../../src/service/lock-memory.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { StoreError } from '../../../src/table/store-error.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { key } from './world.ts';

const { frontLengthMax, pageLengthMax } = lockLimits;

/** A store whose calls take four milliseconds, as in DynamoDB, so that requests of many processes cross. */
class SlowStore extends MemoryLockStore {
  readonly #time: VirtualTime;
  callMs = 4;
  /** Writes without a read, to the lock itself. */
  attempts = 0;
  /** The lock's key takes no writes. */
  isThrottled = false;
  refused = 0;

  constructor(time: VirtualTime) {
    super();
    this.#time = time;
  }

  async #slowly<T>(work: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => this.#time.after(this.callMs, resolve));
    const done = await work();
    if ((done as { applied?: boolean }).applied === false) this.refused += 1;
    return done;
  }

  override read(...args: Parameters<MemoryLockStore['read']>) {
    return this.#slowly(() => super.read(...args));
  }

  override attempt(...args: Parameters<MemoryLockStore['attempt']>) {
    this.attempts += 1;
    if (this.isThrottled) return Promise.reject(new StoreError('throttled', 'The store asked for less traffic.'));
    return this.#slowly(() => super.attempt(...args));
  }

  override appendToPage(...args: Parameters<MemoryLockStore['appendToPage']>) {
    return this.#slowly(() => super.appendToPage(...args));
  }

  override openPage(...args: Parameters<MemoryLockStore['openPage']>) {
    return this.#slowly(() => super.openPage(...args));
  }
}

function createWorld() {
  const time = new VirtualTime();
  const store = new SlowStore(time);
  const random = seededRandom(1);
  /** A process that knows nothing of the lock yet, one of several. */
  const newProcess = (): LockContext => {
    const parts = { store, clock: time, timers: time, random, graceMs: 250, rememberedMs: 100 };
    return { ...parts, memory: new LockMemory(time) } as unknown as LockContext;
  };
  let leases = 0;
  const join = async (process: LockContext) => {
    leases += 1;
    const leaseId = `lease-${String(leases).padStart(16, '0')}`;
    const command = acquireOf(leaseId, { waitMs: 60_000, attendMs: null });
    return (await apply(process, key, { ...command, place: 'new' })).answer.kind;
  };
  const run = async <T>(work: Promise<T>): Promise<T> => {
    let isDone = false;
    void work.finally(() => {
      isDone = true;
    });
    while (!isDone) await time.advance(100);
    return work;
  };
  return { time, store, newProcess, join, run };
}

describe('a crowd that joins a queue', () => {
  it('gets in whole from many processes, with few refused writes for each', async () => {
    const { store, newProcess, join, run } = createWorld();
    const [holder, ...waiting] = await run(
      (async () => {
        const first = await join(newProcess());
        return [first, ...(await Promise.all(Array.from({ length: 200 }, () => join(newProcess()))))];
      })(),
    );
    expect([holder, new Set(waiting)]).toEqual(['granted', new Set(['waiting'])]);
    // Without pauses each is refused by every page that fills up before its turn: more than twelve times.
    expect(store.refused / waiting.length).toBeLessThan(10);
  });

  it('finds the next page open, because the waiter that filled the last one opened it', async () => {
    const { store, newProcess, join, run } = createWorld();
    const process = newProcess();
    for (let index = 0; index <= frontLengthMax + pageLengthMax; index++) await run(join(process));
    const { pages } = await run(store.read(key));
    expect((pages?.last ?? 0) - (pages?.first ?? 0)).toBe(1);
    store.refused = 0;
    const newcomer = newProcess();
    expect(await run(join(newcomer))).toBe('waiting');
    // The first write of a process that knows nothing of the lock is refused, and no other.
    expect(store.refused).toBe(1);
  });

  it('waits for its turn on a slow store without further writes to the lock, and is told in time to repeat', async () => {
    const { time, store, newProcess, join, run } = createWorld();
    const process = newProcess();
    for (let index = 0; index <= frontLengthMax; index++) await run(join(process));
    store.attempts = 0;
    store.callMs = 500;
    const startedAt = time.now();
    const answers = await run(
      Promise.all(
        Array.from({ length: 100 }, () => join(process).catch((error: unknown) => (error as StoreError).code)),
      ),
    );
    expect(new Set(answers)).toEqual(new Set(['waiting', 'throttled']));
    expect(store.attempts).toBe(0);
    // Long before API Gateway would cut the request.
    expect(time.now() - startedAt).toBeLessThan(20_000);
  });

  it('joins by what a read shows if the key of the lock takes no writes', async () => {
    const { store, newProcess, join, run } = createWorld();
    for (let index = 0; index <= frontLengthMax + 1; index++) await run(join(newProcess()));
    store.isThrottled = true;
    expect(await run(join(newProcess()))).toBe('waiting');
  });
});
