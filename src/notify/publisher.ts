/**
 * Shows others what happened to locks. It reads the stream separately from the notifier. So if the bus hangs or the history can't be
 * written, no hand-off is delayed.
 *
 *     record ──> change ──> events ──┬─> record   the lock's history
 *                                    ├─> publish  to the event bus
 *                                    ├─> show     to WebSocket watchers
 *                                    └─> measure  metrics
 */
import type { Watcher } from '../store/watchers.ts';
import { busEventOf } from './change-events.ts';
import { measuresOf } from './measures.ts';
import type { PublisherPorts } from './ports.ts';
import {
  changesIn,
  createStreamHandler,
  type Effect,
  eachItem,
  type StreamHandler,
  type StreamItem,
} from './stream-handler.ts';
import { push, welcome } from './watchers.ts';

export function createPublisher(ports: PublisherPorts): StreamHandler {
  return createStreamHandler(publisherEffects(ports), ports.log, ports.meter);
}

/** For a process that reads the stream once for all effects. */
export function publisherEffects(ports: PublisherPorts): Effect[] {
  const effects = { record: recordAll, publish: publishAll, show: showAll, measure: measureAll };
  return Object.entries(effects).map(([name, run]) => ({ name, run: (items) => run(ports, items) }));
}

async function recordAll({ history }: PublisherPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  if (history === undefined) return [];
  const unwritten = new Set(await history.append(items.flatMap(({ events }) => events?.kept ?? [])));
  return items.filter(({ events }) => events?.kept.some((entry) => unwritten.has(entry)));
}

async function publishAll(ports: PublisherPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const { bus, log, meter } = ports;
  const published = changesIn(items).flatMap((item) =>
    item.events.entries.map((entry) => ({ item, event: busEventOf(entry) })),
  );
  if (bus === undefined || published.length === 0) return [];
  const untaken = await bus.publish(published.map(({ event }) => event));
  const refused = untaken.filter(({ isFinal }) => isFinal).length;
  if (refused > 0) {
    // Retries would be refused too, and the history of other locks would wait behind them. The metric has an alarm.
    log.error('The event bus refuses events for good. They are lost.', { events: refused });
    meter.record([{ name: 'EventsRefused', unit: 'Count', value: refused }]);
    meter.flush();
  }
  const left = new Set(untaken.filter(({ isFinal }) => !isFinal).map(({ event }) => event));
  return [...new Set(published.filter(({ event }) => left.has(event)).map(({ item }) => item))];
}

/** First messages are sent first. So a watcher that connected in this batch gets the other events of the batch. */
async function showAll(ports: PublisherPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  const arrivals = items.filter(({ arrival }) => arrival !== undefined);
  const left = await eachItem(ports.log, 'show', arrivals, ({ arrival }) => welcome(ports, arrival as Watcher));
  const changes = changesIn(items).map(({ events }) => events);
  await push(ports, changes);
  return left;
}

async function measureAll({ meter }: PublisherPorts, items: readonly StreamItem[]): Promise<readonly StreamItem[]> {
  meter.record(changesIn(items).flatMap(({ events }) => measuresOf(events)));
  meter.flush();
  return [];
}
