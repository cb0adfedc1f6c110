import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { type LockState, unusedLock } from '../../src/lock/state.ts';
import { serviceOn } from '../../src/process/wiring.ts';
import { apply } from '../../src/service/apply.ts';
import type { LockContext } from '../../src/service/context.ts';
import { epochMs } from '../../src/time/clock.ts';
import { freshTable } from '../support/engine.ts';
import { acquireOf, startOfTime } from '../support/lock-worlds.ts';
import { countRequests, type RequestCount } from '../support/request-count.ts';

/** Two processes on one table: what one of them remembers of a queue, the other has changed since. */
let processes: readonly LockContext[];
let sent: RequestCount;
let now = startOfTime;

beforeAll(async () => {
  const { client, access } = await freshTable();
  sent = countRequests(client);
  processes = [1, 2].map(() => ({
    ...serviceOn({ ...access, alone: true, engine: 'test' }).locks,
    clock: { now: () => now },
  }));
});

const newKey = () => ({ namespace: 'crowd', name: randomUUID() });
const lease = (index: number) => `lease-${index}-000000000000`;
const waits = (index: number, more: object = {}) => acquireOf(lease(index), { waitMs: 60_000, ...more });
const inProcess = (index: number) => processes[index % 2] as LockContext;

const places = fc.nat({ max: 29 });
const commands: fc.Arbitrary<LockCommand> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .tuple(places, fc.constantFrom({}, {}, { metadata: { job: 'nightly', 1: 'one' } }, { attendMs: 4_000 }))
      .map(([index, more]) => waits(index, more)),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom('release' as const, 'give-up' as const, 'step-away' as const),
      leaseId: places.map(lease),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('renew' as const), leaseId: places.map(lease) }) },
);

/** Either one of the crowd acts, or the holder releases. */
const steps = fc.record({
  afterMs: fc.constantFrom(0, 0, 1, 10, 700),
  process: fc.nat({ max: 1 }),
  command: fc.option(commands, { nil: 'the holder releases' as const, freq: 3 }),
});

const releaseOfHolder = ({ holders }: LockState): LockCommand => ({
  kind: 'release',
  leaseId: holders[0]?.leaseId ?? lease(0),
});

describe('a lock with a long queue', () => {
  it('goes from state to state as decide has it, whatever is written directly and by which process', async () => {
    const reached = { longest: 0, handOffsFromLongQueues: 0, leftFromBehind: 0 };
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 30, maxLength: 40 }), async (taken) => {
        const key = newKey();
        now = startOfTime;
        let state = unusedLock;
        const crowd = Array.from({ length: 22 }, (_, index) => ({ afterMs: 1, process: 0, command: waits(index) }));
        for (const { afterMs, process, command } of [...crowd, ...taken]) {
          now = epochMs(now + afterMs);
          const asked = command === 'the holder releases' ? releaseOfHolder(state) : command;
          const expected = decide(state, asked, { now, graceMs: lockLimits.graceMs });
          const applied = await apply(inProcess(process), key, asked);
          expect(applied.answer).toEqual(expected.answer);
          expect(applied.state).toEqual(expected.next);
          reached.longest = Math.max(reached.longest, expected.next.queue.length);
          if (state.queue.length > 8 && expected.next.fence > state.fence) reached.handOffsFromLongQueues += 1;
          if (state.queue.length - expected.next.queue.length === 1 && expected.next.fence === state.fence)
            reached.leftFromBehind += 1;
          state = expected.next;
        }
        expect(await inProcess(0).store.read(key)).toEqual(state);
      }),
      { numRuns: 10 },
    );
    expect(reached.longest).toBeGreaterThan(20);
    expect(reached.handOffsFromLongQueues).toBeGreaterThan(20);
    expect(reached.leftFromBehind).toBeGreaterThan(10);
  });

  it('lets a crowd leave at once without a fight', async () => {
    const key = newKey();
    for (let index = 0; index <= 60; index++) await apply(inProcess(0), key, waits(index));
    sent.take();
    const leaving = Array.from({ length: 60 }, (_, index) => index + 1);
    const answers = await Promise.all(
      leaving.map((index) => apply(inProcess(index), key, { kind: 'release', leaseId: lease(index) })),
    );
    expect(answers.map(({ answer }) => answer)).toEqual(leaving.map(() => ({ kind: 'released', reason: 'cancelled' })));
    const state = await inProcess(0).store.read(key);
    expect(state).toMatchObject({ queue: [], holders: [{ leaseId: lease(0) }] });
    // Each is refused the direct release and struck out; the first in line swaps, and a waiter that met that swap tries once more.
    expect(sent.take().writes).toBeLessThan(4 * leaving.length);
  });

  it('never gives a place back to one that left', async () => {
    const key = newKey();
    for (let index = 0; index <= 12; index++) await apply(inProcess(0), key, waits(index));
    const { queue } = await inProcess(0).store.read(key);
    for (const index of [2, 10]) {
      const waiter = queue[index] as LockState['queue'][number];
      // Its own request to stay, on its way since before it left, and built on what was seen then.
      const late = { ...waiter, aliveUntil: epochMs(waiter.aliveUntil + 1_000) };
      await apply(inProcess(1), key, { kind: 'release', leaseId: waiter.leaseId });
      expect((await inProcess(0).store.attend(key, index, late, now)).applied).toBe(false);
    }
    expect((await inProcess(1).store.read(key)).queue).toHaveLength(10);
  });

  it('queues a newcomer behind the tail, also from a process that knows of no tail', async () => {
    const key = newKey();
    for (let index = 0; index <= 12; index++) await apply(inProcess(0), key, waits(index));
    for (let index = 0; index < 4; index++) await apply(inProcess(0), key, { kind: 'release', leaseId: lease(index) });
    const { answer } = decide(await inProcess(0).store.read(key), waits(20), { now, graceMs: lockLimits.graceMs });
    if (answer.kind !== 'waiting') throw new Error(`expected to wait, got ${answer.kind}`);
    const { applied, state } = await inProcess(1).store.enqueue(key, answer.waiter, answer.waiter.permits);
    expect(applied).toBe(true);
    expect(state.queue.map(({ leaseId }) => leaseId)).toEqual([5, 6, 7, 8, 9, 10, 11, 12, 20].map(lease));
  });

  it('takes back what another process has granted since the queue was last seen here', async () => {
    const key = newKey();
    for (let index = 0; index <= 12; index++) await apply(inProcess(0), key, waits(index));
    // Here the front has run down to one with a tail behind it: the next release is foreseen to need a swap.
    for (let index = 0; index < 7; index++) await apply(inProcess(0), key, { kind: 'release', leaseId: lease(index) });
    // There nothing is foreseen. The table itself must not let the front run empty, or those in the tail would be passed over.
    for (let index = 7; index <= 12; index++) {
      const { answer } = await apply(inProcess(1), key, { kind: 'release', leaseId: lease(index) });
      expect(answer).toEqual({ kind: 'released', reason: 'ok' });
    }
    await apply(inProcess(1), key, waits(20));
    const { answer } = await apply(inProcess(0), key, { kind: 'release', leaseId: lease(20) });
    expect(answer).toEqual({ kind: 'released', reason: 'ok' });
  });
});
