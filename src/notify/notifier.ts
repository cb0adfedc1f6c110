/**
 * The stream-driven notifier: stream records in, deliveries out.
 *
 *     record ──> change ──> events ──┬─> deliver  grants to parked waiters, failures to their tasks
 *                                    ├─> arm      timers for the reaper
 *                                    ├─> record   the lock's history
 *                                    ├─> publish  to the event bus
 *                                    ├─> show     to WebSocket watchers
 *                                    └─> measure  metrics
 */
import { factsAbout } from '../service/context.ts';
import { lockIdOf } from '../store/lock-store.ts';
import type { Watcher } from '../store/watcher-store.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { busEventOf, type ChangeEvents } from './change-events.ts';
import { callsForTimer, lookDueAt } from './look-times.ts';
import { measuresOf } from './measures.ts';
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
import { push, welcome } from './watchers.ts';

export function createNotifier(ports: NotifierPorts): StreamHandler {
  return createStreamHandler(effectsOf(ports), ports.log);
}

function effectsOf(ports: NotifierPorts): Effect[] {
  return [
    { name: 'deliver', run: (items) => deliverAll(ports, items) },
    { name: 'arm', run: (items) => armAll(ports, items) },
    { name: 'record', run: (items) => recordAll(ports, items) },
    { name: 'publish', run: (items) => publishAll(ports, items) },
    { name: 'show', run: (items) => showAll(ports, items) },
    { name: 'measure', run: (items) => measureAll(ports, items) },
  ];
}

function deliverAll(ports: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const concerned = items.filter(({ events }) => (events?.grants.length ?? 0) + (events?.endedWaits.length ?? 0) > 0);
  return eachItem(ports.log, 'deliver', concerned, async ({ events }) => {
    const { change, grants, endedWaits } = events as ChangeEvents;
    const deliveries = [
      ...grants.map((holder) => () => deliverGrant(ports, change.key, holder)),
      ...endedWaits.map((wait) => () => deliverEndedWait(ports, wait)),
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

async function recordAll({ history }: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const unwritten = new Set(await history.append(items.flatMap(({ events }) => events?.entries ?? [])));
  return items.filter(({ events }) => events?.entries.some((entry) => unwritten.has(entry)));
}

async function publishAll({ bus }: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const published = items.flatMap((item) =>
    (item.events?.entries ?? []).map((entry) => ({ item, event: busEventOf(entry) })),
  );
  if (published.length === 0) return [];
  const untaken = new Set(await bus.publish(published.map(({ event }) => event)));
  return [...new Set(published.filter(({ event }) => untaken.has(event)).map(({ item }) => item))];
}

/** First messages come first: a watcher that connected in this batch may then be shown the rest of it. */
async function showAll(ports: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const arrivals = items.filter(({ arrival }) => arrival !== undefined);
  const left = await eachItem(ports.log, 'show', arrivals, ({ arrival }) => welcome(ports, arrival as Watcher));
  await push(
    ports,
    items.flatMap(({ events }) => (events === undefined ? [] : [events])),
  );
  return left;
}

async function measureAll({ meter }: NotifierPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  meter.record(items.flatMap(({ events }) => (events === undefined ? [] : measuresOf(events))));
  meter.flush();
  return [];
}

const lockId = ({ change: { key } }: ChangeEvents): string => lockIdOf(key);
