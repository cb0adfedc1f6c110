/**
 * The stream-driven notifier: stream records in, deliveries out.
 *
 *     record ──> change ──> news ──┬─> tell      parked waiters, and who waits for a task token in vain
 *                                  ├─> arm       timers for the reaper
 *                                  ├─> remember  the lock's history
 *                                  ├─> publish   the event bus
 *                                  ├─> show      WebSocket watchers
 *                                  └─> measure   metrics
 *
 * Records may be repeated, late, and in any order across locks. Each effect takes the whole batch and says which records it
 * could not do; only those are reported, and the effects that were done are not done again by the same process.
 */
import type { DynamoDBBatchResponse, DynamoDBRecord, DynamoDBStreamEvent } from 'aws-lambda';
import { factsAbout } from '../service/context.ts';
import { arrivalOf } from '../store/dynamodb/connection-items.ts';
import { watcherSortPrefix } from '../store/dynamodb/table.ts';
import { lockIdOf } from '../store/lock-store.ts';
import type { Watcher } from '../store/watcher-store.ts';
import { describe, eachBounded } from './bounded.ts';
import { lockChangeOf } from './lock-change.ts';
import { callsForTimer, lookDueAt } from './look-times.ts';
import { measuresOf } from './measures.ts';
import { busEventOf, type LockNews, newsOf } from './news.ts';
import { tellEndedWait, tellGrant } from './parked.ts';
import type { NotifierPorts } from './ports.ts';
import { push, welcome } from './watchers.ts';

/** The filter of the event source mapping, where no mapping applies it. */
export function concernsNotifier({ dynamodb }: DynamoDBRecord): boolean {
  const sortKey = dynamodb?.Keys?.sk?.S;
  return sortKey === 'lock' || (sortKey?.startsWith(watcherSortPrefix) ?? false);
}

/** Calls to the store and to AWS under way at once in one effect: a batch of 100 is done in a few rounds. */
const atOnceMax = 20;
/** Deeds remembered: a few batches' worth, which is how far a repeat reaches back. */
const deedsMax = 10_000;

/** One record and what it is about. */
interface Item {
  readonly recordId: string;
  readonly sequenceNumber: string;
  readonly news?: LockNews;
  readonly arrival?: Watcher;
}

interface Effect {
  readonly name: string;
  /** Comes back with those that it could not do. Where it throws, it could do none. */
  run(items: readonly Item[]): Promise<readonly Item[]>;
}

export type StreamHandler = (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse>;

export function createNotifier(ports: NotifierPorts): StreamHandler {
  const effects = effectsOf(ports);
  const deeds = new Set<string>();

  return async ({ Records }) => {
    const failed = new Set<string>();
    const read = Records.flatMap((record) => readRecord(record, ports, failed));
    // A repeat within the batch would run beside the first, and neither would see what the other did.
    const items = [...new Map(read.map((item) => [item.recordId, item])).values()];
    const done: string[] = [];
    await Promise.all(
      effects.map(async (effect) => {
        const deedOf = ({ recordId }: Item) => `${effect.name} ${recordId}`;
        const todo = items.filter((item) => !deeds.has(deedOf(item)));
        const left = new Set(await run(effect, todo, ports));
        for (const { sequenceNumber } of left) failed.add(sequenceNumber);
        done.push(...todo.filter((item) => !left.has(item)).map(deedOf));
      }),
    );
    ports.meter.flush();
    // A failure makes the whole rest of the batch come again; without one, nothing is expected to.
    if (failed.size > 0) remember(deeds, done);
    return { batchItemFailures: [...failed].map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

function remember(deeds: Set<string>, done: readonly string[]): void {
  for (const deed of done) deeds.add(deed);
  for (const oldest of deeds) {
    if (deeds.size <= deedsMax) return;
    deeds.delete(oldest);
  }
}

async function run(effect: Effect, todo: readonly Item[], { log }: NotifierPorts): Promise<readonly Item[]> {
  if (todo.length === 0) return [];
  try {
    const left = await effect.run(todo);
    if (left.length > 0) log.warn('Some records have to come again.', { effect: effect.name, records: left.length });
    return left;
  } catch (error) {
    log.error('An effect failed for the whole batch.', { effect: effect.name, error: describe(error) });
    return todo;
  }
}

/** A record that can't be read is reported by itself: retries will not help it, and the dead-letter queue keeps it. */
function readRecord(record: DynamoDBRecord, { log }: NotifierPorts, failed: Set<string>): Item[] {
  const sequenceNumber = record.dynamodb?.SequenceNumber ?? '';
  const recordId = record.eventID ?? sequenceNumber;
  try {
    const arrival = arrivalOf(record);
    if (arrival !== undefined) return [{ recordId, sequenceNumber, arrival }];
    // An item that was collected after a long idle time is no event: whatever ended, ended long ago.
    const change = record.eventName === 'REMOVE' ? undefined : lockChangeOf(record);
    return change === undefined ? [] : [{ recordId, sequenceNumber, news: newsOf(change) }];
  } catch (error) {
    // Images hold lease ids: the log names the record and nothing that is in it.
    log.error('A stream record could not be read.', { sequenceNumber, error: describe(error) });
    failed.add(sequenceNumber);
    return [];
  }
}

function effectsOf(ports: NotifierPorts): Effect[] {
  return [
    { name: 'tell', run: (items) => tellAll(ports, items) },
    { name: 'arm', run: (items) => armAll(ports, items) },
    { name: 'remember', run: (items) => rememberAll(ports, items) },
    { name: 'publish', run: (items) => publishAll(ports, items) },
    { name: 'show', run: (items) => showAll(ports, items) },
    {
      name: 'measure',
      run: async (items) => {
        ports.meter.record(items.flatMap(({ news }) => (news === undefined ? [] : measuresOf(news))));
        return [];
      },
    },
  ];
}

/** Does the work for each; a failure is that item's alone. */
async function eachItem(
  ports: NotifierPorts,
  effect: string,
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<Item[]> {
  const left: Item[] = [];
  await eachBounded(items, atOnceMax, async (item) => {
    try {
      await work(item);
    } catch (error) {
      const { sequenceNumber } = item;
      ports.log.warn('A delivery failed and is tried again.', { effect, sequenceNumber, error: describe(error) });
      left.push(item);
    }
  });
  return left;
}

function tellAll(ports: NotifierPorts, items: readonly Item[]): Promise<readonly Item[]> {
  const concerned = items.filter(({ news }) => (news?.grants.length ?? 0) + (news?.endedWaits.length ?? 0) > 0);
  return eachItem(ports, 'tell', concerned, async ({ news }) => {
    const { change, grants, endedWaits } = news as LockNews;
    const telling = [
      ...grants.map((holder) => () => tellGrant(ports, change.key, holder)),
      ...endedWaits.map((wait) => () => tellEndedWait(ports, wait)),
    ];
    await eachBounded(telling, atOnceMax, (tell) => tell());
  });
}

/** One timer per lock at most, whatever happened to it in this batch, for what its latest state needs. */
async function armAll(ports: NotifierPorts, items: readonly Item[]): Promise<readonly Item[]> {
  const { locks, timers } = ports;
  const awaited = items.filter(({ news }) => (news?.change.after.queue.length ?? 0) > 0);
  const byLock = Map.groupBy(awaited, ({ news }) => lockId(news as LockNews));
  const latest = [...byLock.values()].map((changes) => changes.at(-1) as Item);
  const left = await eachItem(ports, 'arm', latest, async (item) => {
    const { key, after } = (item.news as LockNews).change;
    const facts = await factsAbout(locks, key, after);
    const changes = byLock.get(lockId(item.news as LockNews)) ?? [];
    const isCalledFor = changes.some(({ news }) => {
      const { change } = news as LockNews;
      return callsForTimer(change.before, change.after, facts);
    });
    const dueAt = lookDueAt(after, facts);
    if (isCalledFor && dueAt !== null) await timers.arm(key, dueAt);
  });
  return left.flatMap(({ news }) => byLock.get(lockId(news as LockNews)) ?? []);
}

async function rememberAll({ history }: NotifierPorts, items: readonly Item[]): Promise<readonly Item[]> {
  const unwritten = new Set(await history.append(items.flatMap(({ news }) => news?.entries ?? [])));
  return items.filter(({ news }) => news?.entries.some((entry) => unwritten.has(entry)));
}

async function publishAll({ bus }: NotifierPorts, items: readonly Item[]): Promise<readonly Item[]> {
  const published = items.flatMap((item) =>
    (item.news?.entries ?? []).map((entry) => ({ item, event: busEventOf(entry) })),
  );
  if (published.length === 0) return [];
  const untaken = new Set(await bus.publish(published.map(({ event }) => event)));
  return [...new Set(published.filter(({ event }) => untaken.has(event)).map(({ item }) => item))];
}

/** First messages come first: a watcher that connected in this batch may then be shown the rest of it. */
async function showAll(ports: NotifierPorts, items: readonly Item[]): Promise<readonly Item[]> {
  const arrivals = items.filter(({ arrival }) => arrival !== undefined);
  const left = await eachItem(ports, 'show', arrivals, ({ arrival }) => welcome(ports, arrival as Watcher));
  await push(
    ports,
    items.flatMap(({ news }) => (news === undefined ? [] : [news])),
  );
  return left;
}

const lockId = ({ change: { key } }: LockNews): string => lockIdOf(key);
