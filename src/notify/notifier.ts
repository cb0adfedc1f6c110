/**
 * The stream-driven notifier: stream records in, deliveries out.
 *
 *     record ──> change ──> events ──┬─> deliver  grants to parked waiters, failures to their tasks
 *                                    └─> arm      timers for the reaper
 *
 * It does only what waiters depend on. The publisher does the rest, and reads the stream by itself.
 */
import { factsAbout } from '../service/context.ts';
import { lockIdOf } from '../store/lock-store.ts';
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

/** One timer per lock at most, whatever happened to it in this batch, for what its latest state needs. */
async function armAll(ports: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const { locks, timers, log } = ports;
  const awaited = items.filter(({ events }) => (events?.change.after.queue.length ?? 0) > 0);
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

const lockId = ({ change: { key } }: ChangeEvents): string => lockIdOf(key);
