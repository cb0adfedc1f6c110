import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Answer, LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { hasMore, type LockKey, type LockState, type Notify, unusedLock, type Waiter } from '../../src/lock/state.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import type { PageWrite } from '../../src/queue/page-store.ts';
import {
  append,
  attendIn,
  close,
  emptyPage,
  leaveIn,
  type Page,
  queueSizes,
  stepAwayIn,
} from '../../src/queue/pages.ts';
import { acquire } from '../../src/service/acquire.ts';
import { apply } from '../../src/service/apply.ts';
import type { LockContext } from '../../src/service/context.ts';
import { systemLockContext } from '../../src/service/context.ts';
import { release } from '../../src/service/lease.ts';
import { inspect } from '../../src/service/look.ts';
import { leaseNameOf } from '../../src/table/digest.ts';
import type { TableAccess } from '../../src/table/item-table.ts';
import { epochMs, after as later } from '../../src/time/clock.ts';
import { drawn, type FreshTable, freshTable } from '../support/engine.ts';
import { acquireOf, startOfTime } from '../support/lock-worlds.ts';
import { memoryStores, storesOn } from '../support/memory-table.ts';
import { countRequests } from '../support/request-count.ts';

let table: FreshTable;
beforeAll(async () => {
  table = await freshTable();
});

const tables: [string, () => TableAccess][] = [
  ['the built-in engine', () => memoryStores().access],
  ['a table', () => table.access],
];

const newKey = (): LockKey => ({ namespace: 'pages', name: randomUUID() });
const leaseIdOf = (index: number) => `lease-${String(index).padStart(12, '0')}`;
/** The name of a lease, as rules and table know it. */
const leaseOf = (index: number) => leaseNameOf(leaseIdOf(index));
const waiterOf = (index: number, more: Partial<Waiter> = {}): Waiter => ({
  leaseId: leaseOf(index),
  owner: `owner ${index}`,
  permits: 1_024,
  leaseMs: 60_000,
  queuedAt: epochMs(startOfTime + index),
  deadlineAt: later(startOfTime, 60_000),
  presentUntil: later(startOfTime, 30_000),
  ...more,
});

const waysToWait: readonly (Notify | undefined)[] = [
  undefined,
  { type: 'websocket', connectionId: 'connection-1' },
  { type: 'websocket', connectionId: 'connection-2' },
  { type: 'task-token', token: 'token-1' },
  { type: 'task-token', token: 'token-2', always: true },
  { type: 'durable-callback', id: 'callback' },
];

const arbitraryStep = fc.record({
  kind: fc.constantFrom('append', 'append', 'append', 'attend', 'attend', 'step-away', 'release', 'give-up', 'close'),
  index: fc.nat({ max: 5 }),
  // None, one of two connections, one of two task tokens, or a callback.
  way: fc.nat({ max: 5 }),
  ms: fc.nat({ max: 90_000 }),
});

describe.each(tables)('a page in %s', (_name, open) => {
  it('follows the rules, step by step', async () => {
    const { pages } = storesOn(open());
    const seen = { applied: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(fc.array(arbitraryStep, { minLength: 1, maxLength: 8 }), async (steps) => {
        const page = { lock: newKey(), number: 7 };
        let model: Page = emptyPage(7);
        for (const { kind, index, ms, way } of steps) {
          const notify = waysToWait[way];
          const connectionId = notify?.type === 'websocket' ? notify.connectionId : undefined;
          const at = later(startOfTime, ms);
          const sizes = { front: 1, page: 3 };
          const waiter = waiterOf(index, notify === undefined ? {} : { notify });
          const next =
            kind === 'append'
              ? append(model, { waiter, fence: 5 }, sizes)
              : kind === 'attend'
                ? attendIn(model, { leaseId: waiter.leaseId, presentUntil: at, notify })
                : kind === 'step-away'
                  ? stepAwayIn(model, { leaseId: waiter.leaseId, presentUntil: at, connectionId })
                  : kind === 'close'
                    ? close(model, at)
                    : leaveIn(model, waiter.leaseId, kind === 'release' ? 'released' : 'gave-up');
          const { leaseId } = waiter;
          const write: PageWrite =
            kind === 'append'
              ? { kind: 'join', waiter, fence: 5, sizes }
              : kind === 'attend'
                ? { kind, attendance: { leaseId, presentUntil: at, notify } }
                : kind === 'step-away'
                  ? { kind, absence: { leaseId, presentUntil: at, connectionId } }
                  : kind === 'close'
                    ? { kind, now: at }
                    : { kind: 'leave', leaseId, how: kind === 'release' ? 'released' : 'gave-up', now: at };
          const written = await pages.write(page, write);
          expect(written.applied).toBe(next !== undefined);
          model = next ?? model;
          const sorted = (shown: Page) => ({
            ...shown,
            left: shown.left.toSorted((a, b) => (`${a.leaseId} ${a.how}` < `${b.leaseId} ${b.how}` ? -1 : 1)),
          });
          expect(sorted(written.page)).toEqual(sorted(model));
          if (next === undefined) seen.refused += 1;
          else seen.applied += 1;
        }
        const [read] = await pages.read([page]);
        expect(read?.waiters).toEqual(model.waiters);
      }),
      { numRuns: drawn(60) },
    );
    expect(seen.applied).toBeGreaterThan(drawn(50));
    expect(seen.refused).toBeGreaterThan(drawn(20));
  });
});

describe.each(tables)('a task in a page in %s', (_name, open) => {
  it.each([3, 4, 5])('keeps its lease to itself, and may ask again (%i)', async (way) => {
    const { pages } = storesOn(open());
    const page = { lock: newKey(), number: 7 };
    const notify = waysToWait[way] as Notify;
    await pages.write(page, { kind: 'join', waiter: waiterOf(1, { notify }), fence: 5, sizes: queueSizes });
    const presentUntil = later(startOfTime, 20_000);
    const ask = (other: Notify | undefined) =>
      pages.write(page, { kind: 'attend', attendance: { leaseId: leaseOf(1), presentUntil, notify: other } });
    for (const other of waysToWait.slice(3)) {
      const written = await ask(other);
      expect(written.applied).toBe(other === notify);
      expect(written.page.waiters[0]?.notify).toEqual(notify);
    }
    // It polls from now on, so another task may take its place over.
    expect((await ask(undefined)).applied).toBe(true);
    expect((await ask({ type: 'task-token', token: 'token-3' })).applied).toBe(true);
  });
});

/** A lock with the given number of waiters in its front, and perhaps pages. */
async function crowdedLock(access: TableAccess, waiters: number, behind?: LockState['behind']): Promise<LockKey> {
  const key = newKey();
  const context = systemLockContext({ ...storesOn(access), alone: false });
  const { store } = context;
  await apply(context, key, acquireOf(leaseOf(99), { leaseMs: 60_000 }));
  const state = await store.read(key);
  const now = context.clock.now();
  const queue = Array.from({ length: waiters }, (_, index) =>
    waiterOf(index, { queuedAt: now, deadlineAt: later(now, 60_000), presentUntil: later(now, 60_000) }),
  );
  await store.write(key, {
    kind: 'replace',
    next: { ...state, rev: state.rev + 1, queue, ...(behind === undefined ? {} : { behind }) },
  });
  return key;
}

describe.each(tables)('a lock with pages in %s', (_name, open) => {
  const arrival = (index: number, frontLengthMax = queueSizes.front) => ({
    waiter: waiterOf(index),
    limit: 1_024,
    frontLengthMax,
  });
  const openPage = (store: LockStore, key: LockKey, index: number, seen: LockState['behind']) =>
    store.write(key, { kind: 'open-page', ...arrival(index, 2), seen });

  it('names a new last page only after the one that was read, and only if there is no other place', async () => {
    const access = open();
    const { store } = storesOn(access);
    const roomy = await crowdedLock(access, 1);
    expect((await openPage(store, roomy, 5, undefined)).applied, 'the front has room').toBe(false);
    const full = await crowdedLock(access, 2);
    const opened = await openPage(store, full, 5, undefined);
    expect(opened).toMatchObject({ applied: true, state: { behind: { first: waiterOf(5).queuedAt } } });
    expect((await openPage(store, full, 6, undefined)).applied, 'somebody else did').toBe(false);
    const again = await openPage(store, full, 6, opened.state.behind);
    expect(again.state.behind).toEqual({ first: waiterOf(5).queuedAt, last: waiterOf(5).queuedAt + 1 });
    const drained = await crowdedLock(access, 0, { first: 8, last: 7 });
    expect((await openPage(store, drained, 5, { first: 8, last: 7 })).applied).toBe(false);
  });

  it('lets nobody join the front or take the lock before the waiters in pages', async () => {
    const access = open();
    const { store } = storesOn(access);
    const key = await crowdedLock(access, 1, { first: 7, last: 7 });
    expect((await store.write(key, { kind: 'arrive', ...arrival(5) })).applied).toBe(false);
    const free = newKey();
    await apply(systemLockContext({ ...storesOn(access), alone: false }), free, acquireOf(leaseOf(1)));
    const held = await store.read(free);
    await store.write(free, {
      kind: 'replace',
      next: { ...held, rev: held.rev + 1, holders: [], behind: { first: 7, last: 7 } },
    });
    const facts = { now: epochMs(Date.now()), graceMs: 250 };
    expect((await store.attempt(free, acquireOf(leaseOf(2)), facts)).applied).toBe(false);
  });

  it('takes the waiters of its first pages once, also if it was handed over since it was read', async () => {
    const access = open();
    const { store } = storesOn(access);
    const key = await crowdedLock(access, 2, { first: 7, last: 9 });
    const before = await store.read(key);
    const moved = { from: 7, to: 9, waiters: [waiterOf(5), waiterOf(6)] };
    const context = systemLockContext({ ...storesOn(access), alone: false });
    await apply(context, key, { kind: 'release', leaseId: leaseOf(99) });
    const written = await store.write(key, { kind: 'move-up', pages: moved, now: context.clock.now() });
    expect(written).toMatchObject({ applied: true, state: { rev: before.rev + 2, behind: { first: 9, last: 9 } } });
    expect(written.state.queue.map(({ leaseId }) => leaseId)).toEqual([1, 5, 6].map(leaseOf));
    expect(
      (await store.write(key, { kind: 'move-up', pages: moved, now: context.clock.now() })).applied,
      'the second time',
    ).toBe(false);
    const emptied = await store.write(key, {
      kind: 'move-up',
      pages: { from: 9, to: 10, waiters: [] },
      now: context.clock.now(),
    });
    expect(emptied).toMatchObject({
      applied: true,
      state: { queue: written.state.queue, behind: { first: 10, last: 9 } },
    });
    expect(await store.read(key)).toEqual(emptied.state);
  });

  it('is not freed by a release: the first page moves up, and its first waiter is served', async () => {
    const access = open();
    const { store, pages } = storesOn(access);
    const key = await crowdedLock(access, 0, { first: 7, last: 8 });
    const context = systemLockContext({ ...storesOn(access), alone: false });
    const now = context.clock.now();
    const present = { deadlineAt: later(now, 60_000), presentUntil: later(now, 60_000) };
    for (const [number, index] of [
      [7, 1],
      [7, 2],
      [8, 3],
    ] as const)
      await pages.write(
        { lock: key, number },
        { kind: 'join', waiter: waiterOf(index, present), fence: 1, sizes: queueSizes },
      );
    await release(context, key, { leaseId: leaseIdOf(99) });
    const state = await store.read(key);
    expect(state.holders.map(({ leaseId }) => leaseId)).toEqual([leaseOf(1)]);
    expect(state.queue.map(({ leaseId }) => leaseId)).toEqual([leaseOf(2)]);
    expect(state.behind).toEqual({ first: 8, last: 8 });
    const late = await pages.write(
      { lock: key, number: 7 },
      { kind: 'join', waiter: waiterOf(4), fence: 1, sizes: queueSizes },
    );
    expect(late.applied, 'it moved up already').toBe(false);
    expect((await inspect(context, key)).state.queue.map(({ leaseId }) => leaseId)).toEqual([leaseOf(2), leaseOf(3)]);
  });
});

describe.each(tables)('a waiter in a page in %s', (_name, open) => {
  const contextOn = (access: TableAccess): LockContext =>
    systemLockContext({
      ...storesOn(access),
      alone: false,
      pollMs: 1,
      sizes: { front: 1, page: 4 },
    });
  const parked = (index: number, connectionId: string) => ({
    leaseId: leaseIdOf(index),
    owner: 'me',
    waitMs: 600_000,
    notify: { type: 'websocket' as const, connectionId },
  });
  const leasesOf = ({ queue }: LockState) => queue.map(({ leaseId }) => leaseId);

  /** Somebody holds it, one waits in the front and three in a page. */
  async function awaited() {
    const access = open();
    const context = contextOn(access);
    const key = newKey();
    for (let index = 0; index <= 4; index++) await acquire(context, key, parked(index, 'first'));
    expect(leasesOf((await inspect(context, key)).state)).toEqual([1, 2, 3, 4].map(leaseOf));
    return { access, context, key };
  }
  const find = ({ queue }: LockState, index: number) => queue.find(({ leaseId }) => leaseId === leaseOf(index));

  it('may change how it waits, and keeps its place', async () => {
    const { access, context, key } = await awaited();
    const other = contextOn(access);
    const { answer } = await acquire(other, key, parked(3, 'second'));
    expect(answer).toMatchObject({ kind: 'waiting', position: 3, waiter: { notify: { connectionId: 'second' } } });
    // The end of the connection that it has left is nothing to it.
    await apply(other, key, { kind: 'step-away', leaseId: leaseOf(3), connectionId: 'first' });
    const { state, facts } = await inspect(context, key);
    expect(find(state, 3)?.presentUntil).toBeGreaterThan(facts.now + 60_000);
    await apply(other, key, { kind: 'step-away', leaseId: leaseOf(3), connectionId: 'second' });
    expect(find((await inspect(context, key)).state, 3)?.presentUntil).toBeLessThanOrEqual(context.clock.now() + 5_000);
    await acquire(other, key, parked(3, 'third'));
    for (const index of [0, 1, 2]) await release(context, key, { leaseId: leaseIdOf(index) });
    expect((await context.store.read(key)).holders).toMatchObject([
      { leaseId: leaseOf(3), notify: { connectionId: 'third' } },
    ]);
  });

  it('never gets too low a position, even if its process remembers the lock without pages', async () => {
    const access = open();
    const [context, other] = [contextOn(access), contextOn(access)];
    const key = newKey();
    await acquire(context, key, parked(0, 'first'));
    // The other process sees the lock with an empty queue, a moment before the others queue.
    await apply(other, key, { kind: 'renew', leaseId: leaseOf(0) });
    let place: number | undefined;
    for (const index of [1, 2, 3]) {
      const { answer } = await acquire(context, key, parked(index, 'first'));
      place = answer.kind === 'waiting' ? answer.place : undefined;
    }
    expect(place).toBeGreaterThan(0);
    const { answer } = await acquire(other, key, { ...parked(3, 'first'), place });
    expect(answer).toMatchObject({ kind: 'waiting', position: 3 });
  });

  it('queues again at the end after its wait has ended, and overtakes nobody', async () => {
    const { context, key } = await awaited();
    const { answer } = await apply(context, key, { kind: 'give-up', leaseId: leaseOf(2) });
    expect(answer.kind).toBe('wait-timeout');
    await acquire(context, key, parked(2, 'first'));
    expect(leasesOf((await inspect(context, key)).state)).toEqual([1, 3, 4, 2].map(leaseOf));
    expect((await context.store.read(key)).behind).toMatchObject({ first: expect.anything() });
    await acquire(context, key, parked(5, 'first'));
    expect(leasesOf((await inspect(context, key)).state)).toEqual([1, 3, 4, 2, 5].map(leaseOf));
  });

  it('that gave its place back does not join again by a late copy of its request', async () => {
    const { access, context, key } = await awaited();
    await release(context, key, { leaseId: leaseIdOf(3) });
    expect((await acquire(contextOn(access), key, parked(3, 'first'))).answer).toEqual({
      kind: 'lost',
      reason: 'released',
    });
    expect(leasesOf((await inspect(context, key)).state)).toEqual([1, 2, 4].map(leaseOf));
  });

  it('leaves it, even if the page moves up at the same moment', async () => {
    const { access, context, key } = await awaited();
    const { behind } = await context.store.read(key);
    // Somebody closed the page and died before it moved up.
    await context.pages.write({ lock: key, number: behind?.first ?? 0 }, { kind: 'close', now: context.clock.now() });
    const other = contextOn(access);
    expect((await release(other, key, { leaseId: leaseIdOf(3) })).answer).toEqual({
      kind: 'released',
      reason: 'cancelled',
    });
    expect(leasesOf(await context.store.read(key))).toEqual([1, 2, 4].map(leaseOf));
  });

  it('is ended by a deadlock, and learns of it', async () => {
    const { access, context, key } = await awaited();
    const cycle = JSON.stringify([{ sessionId: 's', owner: 'me', waitsFor: key.name }]);
    await apply(contextOn(access), key, { kind: 'give-up', leaseId: leaseOf(3), deadlock: cycle });
    expect(leasesOf((await inspect(context, key)).state)).toEqual([1, 2, 4].map(leaseOf));
    expect((await acquire(context, key, parked(3, 'first'))).answer).toEqual({ kind: 'deadlock', cycle });
  });

  it('is granted by one release, even if hundreds of pages ahead have only absent waiters', async () => {
    const access = open();
    const key = await crowdedLock(access, 0, { first: 1, last: 600 });
    const context = contextOn(access);
    const { store, pages } = context;
    const now = context.clock.now();
    // Of most pages nobody ever joined: they are as empty as if all had died.
    const dead = { deadlineAt: later(now, 60_000), presentUntil: later(now, -1) };
    const alive = { deadlineAt: later(now, 60_000), presentUntil: later(now, 60_000) };
    for (const [number, waiter] of [
      [1, waiterOf(1, dead)],
      [450, waiterOf(2, dead)],
      [600, waiterOf(3, alive)],
    ] as const)
      await pages.write({ lock: key, number }, { kind: 'join', waiter, fence: 1, sizes: queueSizes });
    expect((await release(context, key, { leaseId: leaseIdOf(99) })).answer).toEqual({
      kind: 'released',
      reason: 'ok',
    });
    const state = await store.read(key);
    expect(state).toMatchObject({
      holders: [{ leaseId: leaseOf(3) }],
      queue: [],
      behind: { first: 601, last: 600 },
    });
  });

  it('that holds the lock by now learns it from a process with an older memory of the lock', async () => {
    const { access, context, key } = await awaited();
    const other = contextOn(access);
    await acquire(other, key, parked(5, 'first'));
    for (const index of [0, 1, 2, 3, 4]) await release(other, key, { leaseId: leaseIdOf(index) });
    const { answer, state } = await acquire(context, key, parked(5, 'first'));
    expect(answer).toMatchObject({ kind: 'granted', holder: { leaseId: leaseOf(5) } });
    expect(state.queue).toEqual([]);
  });

  it('learns how long it waited when its time is over', async () => {
    const { context, key } = await awaited();
    const until = context.clock.now() + 30;
    while (context.clock.now() < until) await new Promise((resolve) => setImmediate(resolve));
    const { answer } = await apply(context, key, { kind: 'give-up', leaseId: leaseOf(4) });
    expect(answer).toMatchObject({ kind: 'wait-timeout' });
    expect(answer.kind === 'wait-timeout' && answer.waitedMs).toBeGreaterThanOrEqual(30);
  });
});

/** What somebody may do to a lock, by somebody that the step picks among those that are there. */
const arbitraryAct = fc.record({
  kind: fc.constantFrom(
    ...Array.from({ length: 10 }, () => 'arrive' as const),
    ...([
      'ask again',
      'release',
      'release',
      'leave',
      'give up',
      'revoke',
      'renew',
      'sweep',
      'refill',
      'close',
    ] as const),
  ),
  who: fc.nat({ max: 30 }),
  isReader: fc.boolean(),
  knowsPlace: fc.boolean(),
  process: fc.nat({ max: 1 }),
});

describe.each(tables)('a queue in pages in %s', (name, open) => {
  it.each([
    { front: 1, page: 1 },
    { front: 2, page: 2 },
  ])('gives the same as decide with one long queue: front $front, pages of $page', async (sizes) => {
    const access = open();
    let seen = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(arbitraryAct, { minLength: 10, maxLength: 40 }), async (acts) => {
        const key = newKey();
        let now = startOfTime;
        const processOf = () =>
          systemLockContext({
            ...storesOn(access),
            alone: false,
            clock: { now: () => now },
            sizes,
          });
        const processes = [processOf(), processOf()] as const;
        const places = new Map<string, number>();
        let model = unusedLock;
        for (const [index, { kind, who, isReader, knowsPlace, process }] of acts.entries()) {
          now = later(now, 10);
          const context = processes[process === 0 ? 0 : 1];
          const pick = <T>(entries: readonly T[]): T | undefined => entries[who % Math.max(1, entries.length)];
          const waiter = pick(model.queue);
          const holder = pick(model.holders);
          const mode = isReader ? ('shared' as const) : ('exclusive' as const);
          const parked = { waitMs: 3_600_000, attendMs: null, leaseMs: 3_600_000 };
          const hint = (leaseId: string) => {
            const place = places.get(leaseId);
            return knowsPlace && place !== undefined ? { place } : {};
          };
          const command = ((): LockCommand | undefined => {
            switch (kind) {
              case 'arrive':
                return {
                  ...acquireOf(leaseOf(index), { ...parked, mode }),
                  ...(knowsPlace ? { place: 'new' as const } : {}),
                };
              case 'ask again': {
                const asker = waiter ?? holder;
                return asker && { ...acquireOf(asker.leaseId, parked), permits: asker.permits, ...hint(asker.leaseId) };
              }
              case 'release':
                return holder && { kind: 'release', leaseId: holder.leaseId };
              case 'leave':
                return waiter && { kind: 'release', leaseId: waiter.leaseId, ...hint(waiter.leaseId) };
              case 'give up':
                return waiter && { kind: 'give-up', leaseId: waiter.leaseId, ...hint(waiter.leaseId) };
              case 'revoke':
                return holder && { kind: 'revoke', fence: holder.fence, reason: 'test' };
              case 'renew':
                return holder && { kind: 'renew', leaseId: holder.leaseId };
              case 'sweep':
                return { kind: 'sweep' };
              case 'refill':
                return { kind: 'refill' };
              case 'close':
                return undefined;
            }
          })();
          if (kind === 'close') {
            // A process dies after it has closed the first page, and before that moved up.
            const state = await context.store.read(key);
            if (hasMore(state))
              await context.pages.write({ lock: key, number: state.behind.first }, { kind: 'close', now });
          }
          if (command === undefined) continue;
          const facts = { now, graceMs: 250, frontLengthMax: 1_000 };
          const expected = decide(model, command.kind === 'refill' ? { kind: 'sweep' } : command, facts);
          model = expected.next;
          const { answer } = await apply(context, key, command);
          const told = ({ kind: what, ...rest }: Answer) => ({ what, reason: 'reason' in rest ? rest.reason : '' });
          expect(told(answer), JSON.stringify(command)).toEqual(told(expected.answer));
          if (answer.kind === 'waiting' && 'leaseId' in command) {
            if (answer.place !== undefined) places.set(command.leaseId, answer.place);
            const position = model.queue.findIndex(({ leaseId }) => leaseId === command.leaseId) + 1;
            expect(answer.position, 'never too low').toBeGreaterThanOrEqual(position);
          }
          const { state } = await inspect(context, key);
          expect(state.holders.map(({ leaseId, fence }) => [leaseId, fence])).toEqual(
            model.holders.map(({ leaseId, fence }) => [leaseId, fence]),
          );
          expect(state.queue.map(({ leaseId }) => leaseId)).toEqual(model.queue.map(({ leaseId }) => leaseId));
          seen = Math.max(seen, model.queue.length);
        }
      }),
      { numRuns: name === 'a table' ? drawn(16) : 150 },
    );
    expect(seen, 'long enough for several pages').toBeGreaterThan(5);
  });
});

describe('many waiters', () => {
  const sizes = [{ front: 1, page: 1 }, { front: 2, page: 2 }, queueSizes];

  it.each(sizes)('are granted in the order of arrival, with a front of $front and pages of $page', async (given) => {
    const contextOf = (): LockContext =>
      systemLockContext({
        ...storesOn(table.access),
        alone: false,
        pollMs: 1,
        sizes: given,
      });
    const [one, other] = [contextOf(), contextOf()];
    const key = newKey();
    const ask = (index: number, more: object = {}) => ({
      // Parked, so that a slow machine does not make it absent.
      notify: { type: 'event' as const, ref: 'crowd' },
      leaseId: leaseIdOf(index),
      owner: 'me',
      leaseMs: 600_000,
      waitMs: 600_000,
      ...more,
    });
    await acquire(one, key, ask(0));
    const count = 24;
    for (let index = 1; index <= count; index++) {
      const { answer } = await acquire(index % 2 === 0 ? one : other, key, ask(index, { place: 'new' }));
      expect(answer).toMatchObject({ kind: 'waiting', position: index });
      // A repeat that does not know its place keeps it.
      expect((await acquire(other, key, ask(index))).answer).toMatchObject({ kind: 'waiting', position: index });
    }
    expect((await inspect(one, key)).state.queue.map(({ leaseId }) => leaseId)).toEqual(
      Array.from({ length: count }, (_, index) => leaseOf(index + 1)),
    );
    const gone = 7;
    expect((await release(other, key, { leaseId: leaseIdOf(gone) })).answer).toEqual({
      kind: 'released',
      reason: 'cancelled',
    });
    expect((await release(one, key, { leaseId: leaseIdOf(gone) })).answer).toEqual({
      kind: 'released',
      reason: 'already_released',
    });
    for (let index = 0; index < count; index++) {
      if (index === gone) continue;
      await release(index % 3 === 0 ? one : other, key, { leaseId: leaseIdOf(index) });
      const next = index + 1 === gone ? gone + 1 : index + 1;
      expect((await acquire(one, key, ask(next))).answer).toMatchObject({ kind: 'granted' });
    }
    await release(one, key, { leaseId: leaseIdOf(count) });
    expect(await one.store.read(key)).toMatchObject({ holders: [], queue: [] });
  });

  it('that leave at the same time, 200 of them, need at most two writes each', async () => {
    const contextOf = () =>
      systemLockContext({
        ...storesOn(table.access),
        alone: false,
        pollMs: 1,
      });
    const [context, other] = [contextOf(), contextOf()];
    const key = newKey();
    await acquire(context, key, { leaseId: leaseIdOf(0), owner: 'me', leaseMs: 600_000, waitMs: 0 });
    const places = new Map<number, number | undefined>();
    for (let index = 1; index <= 200; index++) {
      const asked = { leaseId: leaseIdOf(index), owner: 'me', waitMs: 600_000, place: 'new' as const };
      const { answer } = await acquire(context, key, {
        ...asked,
        notify: { type: 'event', ref: 'crowd' },
      });
      places.set(index, answer.kind === 'waiting' ? answer.place : undefined);
    }
    const counted = countRequests(table.client);
    counted.take();
    const answers = await Promise.all(
      [...places].map(([index, place]) =>
        apply(other, key, { kind: 'release', leaseId: leaseOf(index), ...(place === undefined ? {} : { place }) }),
      ),
    );
    expect(new Set(answers.map(({ answer }) => JSON.stringify(answer)))).toEqual(
      new Set([JSON.stringify({ kind: 'released', reason: 'cancelled' })]),
    );
    // Each strikes out its own place in its page. Only those in the front write to the lock, and may be refused.
    expect(counted.take().writes).toBeLessThanOrEqual(2 * places.size);
    expect((await inspect(other, key)).state.queue).toEqual([]);
    await release(context, key, { leaseId: leaseIdOf(0) });
    const fresh = await acquire(other, key, { leaseId: leaseIdOf(999), owner: 'me', waitMs: 0 });
    expect(fresh.answer.kind).toBe('granted');
  });

  it('that are readers behind a writer are granted by one release, with long ids and large claims', async () => {
    const store = new LockStore(table.access);
    const context = systemLockContext({ ...storesOn(table.access), alone: false, pollMs: 1 });
    const key = newKey();
    await acquire(context, key, { leaseId: leaseIdOf(0), owner: 'writer', leaseMs: 600_000, waitMs: 0 });
    const long = (index: number) => `reader-${String(index).padStart(121, '0')}`;
    const metadata = { note: 'x'.repeat(900) };
    for (let index = 0; index < 40; index++) {
      const reader = {
        leaseId: long(index),
        owner: 'r'.repeat(128),
        waitMs: 600_000,
        mode: 'shared' as const,
        metadata,
        // Parked, so that a slow machine does not make the first ones absent before the last has joined.
        notify: { type: 'event' as const, ref: 'crowd' },
      };
      await acquire(context, key, { ...reader, place: 'new' });
    }
    expect((await release(context, key, { leaseId: leaseIdOf(0) })).answer).toEqual({ kind: 'released', reason: 'ok' });
    expect((await store.read(key)).holders).toHaveLength(40);
  });
});
