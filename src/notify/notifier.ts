/**
 * The stream-driven notifier: stream records in, deliveries out.
 *
 *     record ──> change ──> events ──┬─> deliver  grants to parked waiters, failures to their tasks
 *                                    ├─> arm      timers for the reaper
 *                                    └─> refill   the front of a long queue, before it is empty
 *
 * It does only what waiters depend on. The publisher does the rest, and reads the stream separately.
 */
import { queueSizes, runsLow } from '../lock/pages.ts';
import { hasPages, type LockState, lockIdOf } from '../lock/state.ts';
import { apply } from '../service/apply.ts';
import { factsAbout } from '../service/context.ts';
import { epochMs } from '../time/clock.ts';
import { forEachAtMost } from '../tools/pool.ts';
import type { ChangeEvents } from './change-events.ts';
import { callsForTimer, lookDueAt } from './look-times.ts';
import { deliverEndedWait, deliverGrant } from './parked.ts';
import type { NotifierPorts } from './ports.ts';
import {
  atOnceMax,
  createStreamHandler,
  type Effect,
  eachItem,
  type StreamHandler,
  type StreamItem,
} from './stream-handler.ts';

export function createNotifier(ports: NotifierPorts): StreamHandler {
  return createStreamHandler(notifierEffects(ports), ports.log, ports.meter);
}

/** For a process that reads the stream once for all effects. */
export function notifierEffects(ports: NotifierPorts): Effect[] {
  return [
    { name: 'deliver', run: (items) => deliverAll(ports, items) },
    { name: 'arm', run: (items) => armAll(ports, items) },
    { name: 'arm-pages', run: (items) => armForPages(ports, items) },
    { name: 'refill', run: (items) => refillAll(ports, items) },
  ];
}

function deliverAll(ports: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const concerned = items.filter(({ events }) => (events?.grants.length ?? 0) + (events?.endedWaits.length ?? 0) > 0);
  return eachItem(ports.log, 'deliver', concerned, async ({ events }) => {
    const { change, grants, endedWaits } = events as ChangeEvents;
    const deliveries = [
      ...grants.map((holder) => () => deliverGrant(ports, change.key, holder)),
      ...endedWaits.map((wait) => () => deliverEndedWait(ports, change.key, wait)),
    ];
    await forEachAtMost(deliveries, atOnceMax, (deliver) => deliver());
  });
}

/** At most one timer per lock, even after several changes in this batch. The latest state says when. */
async function armAll(ports: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const { locks, timers, log } = ports;
  const awaited = items.filter(({ events }) => events !== undefined && isAwaited(events.change.after));
  const byLock = Map.groupBy(awaited, ({ events }) => lockId(events as ChangeEvents));
  const latest = [...byLock.values()].map((changes) => changes.at(-1) as StreamItem);
  const left = await eachItem(log, 'arm', latest, async (item) => {
    const { key, after } = (item.events as ChangeEvents).change;
    const facts = await factsAbout(locks, key, after);
    const changes = byLock.get(lockId(item.events as ChangeEvents)) ?? [];
    const isCalledFor = changes.some(({ events }) => {
      const { change } = events as ChangeEvents;
      return callsForTimer(change.before, change.after, facts);
    });
    const dueAt = lookDueAt(after, facts);
    if (isCalledFor && dueAt !== null) await timers.arm(key, dueAt);
  });
  return left.flatMap(({ events }) => byLock.get(lockId(events as ChangeEvents)) ?? []);
}

/** A timer for the first deadline of the waiters that have just parked in a page. */
function armForPages({ timers, log }: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const concerned = items.filter(({ events }) => (events?.parked?.length ?? 0) > 0);
  return eachItem(log, 'arm-pages', concerned, async ({ events }) => {
    const { change, parked = [] } = events as ChangeEvents;
    await timers.arm(change.key, epochMs(Math.min(...parked.map(({ deadlineAt }) => deadlineAt))));
  });
}

/** Moves a page up for each lock whose front has few waiters left, so that no release has to do it. */
async function refillAll({ locks, log }: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const sizes = locks.sizes ?? queueSizes;
  const low = items.filter(({ events }) => {
    const state = events?.change.after;
    return state !== undefined && runsLow(state, sizes);
  });
  const byLock = new Map(low.map((item) => [lockId(item.events as ChangeEvents), item]));
  return eachItem(log, 'refill', [...byLock.values()], async ({ events }) => {
    await apply(locks, (events as ChangeEvents).change.key, { kind: 'refill' });
  });
}

const isAwaited = (state: LockState): boolean => state.queue.length > 0 || hasPages(state);

const lockId = ({ change: { key } }: ChangeEvents): string => lockIdOf(key);
