/** The notifier and the reaper with a clock that the test advances, and a stream that shows every write. */

import type { DynamoDBRecord } from 'aws-lambda';
import type { Change } from '../../../src/engine/change-stream.ts';
import { ProcessTimers } from '../../../src/local/timers.ts';
import type { LockCommand } from '../../../src/lock/commands.ts';
import type { LockKey, Notify } from '../../../src/lock/state.ts';
import type { Measure } from '../../../src/notify/measures.ts';
import { notifierEffects } from '../../../src/notify/notifier.ts';
import type { BusEvent, Completions, Delivered, NotifierPorts, PublisherPorts } from '../../../src/notify/ports.ts';
import { publisherEffects } from '../../../src/notify/publisher.ts';
import { createReaper } from '../../../src/notify/reaper.ts';
import { createStreamHandler } from '../../../src/notify/stream-handler.ts';
import type { QueueSizes } from '../../../src/queue/pages.ts';
import { apply } from '../../../src/service/apply.ts';
import { type LockContext, systemLockContext } from '../../../src/service/context.ts';
import { historyPage } from '../../../src/service/look.ts';
import type { HistoryStore } from '../../../src/store/history.ts';
import type { Watcher } from '../../../src/store/watchers.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';
import { memoryStores } from '../../support/memory-table.ts';
import { missedByFilter } from '../../support/missed-by-filter.ts';

/** Resolves after everything that only waits for other promises has run. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The stores of a table whose writes to locks and to pages of their queues are shown as the table's stream shows them. */
function createStreamedStores(clock: VirtualTime) {
  const records: DynamoDBRecord[] = [];
  /** The ids of the open connections. */
  const connected = new Set<string>();
  const onChange = ({ keys, before, after }: Change) => {
    const { pk, sk } = keys as { pk: { S: string }; sk: { S: string } };
    if (sk.S === 'connection') connected[after === undefined ? 'delete' : 'add'](pk.S);
    if (sk.S !== 'lock' && sk.S !== 'page') return;
    records.push({
      eventID: `event-${records.length + 1}`,
      eventName: before === undefined ? 'INSERT' : 'MODIFY',
      dynamodb: {
        SequenceNumber: String(records.length + 1).padStart(21, '0'),
        Keys: keys as never,
        ...(before === undefined ? {} : { OldImage: before as never }),
        NewImage: after as never,
      },
    });
  };
  return { ...memoryStores({ clock, timers: clock, random: () => 0, onChange }), records, connected };
}

/** As `acquire` gives it: the delivery carries the leaseId, unless it goes to a bus. */
const withSecret = (way: Notify, leaseId: string): Notify => (way.type === 'event' ? way : { ...way, leaseId });

export const lockKey: LockKey = { namespace: 'test', name: 'wallet' };

export function createWorld({ sizes }: { readonly sizes?: QueueSizes } = {}) {
  const clock = new VirtualTime({ startAt: startOfTime });
  const { records, connected, ...stores } = createStreamedStores(clock);
  const { table, store, watchers, awaited } = stores;
  const locks: LockContext = {
    ...systemLockContext({ ...stores, alone: false, clock, timers: clock, random: () => 0, sizes }),
    newLeaseId: () => 'made-by-the-service',
    newSessionId: () => 'made-by-the-service',
  };
  const published: BusEvent[] = [];
  const tasks: { token: string; output?: Record<string, unknown>; error?: string }[] = [];
  const posted: { connectionId: string; text: string }[] = [];
  const measured: Measure[] = [];
  const logged: { message: string; fields: unknown }[] = [];
  const log = (message: string, fields?: unknown) => void logged.push({ message, fields });
  const timers = new ProcessTimers({ clock, timers: clock });
  /** What each way of delivery does next. A test sets it. */
  const completions: Completions = {
    succeed: async (token, output) => {
      const delivered = await ways.task(token);
      if (delivered === 'sent') tasks.push({ token, output });
      return delivered;
    },
    fail: async (token, error) => {
      const delivered = await ways.task(token);
      if (delivered === 'sent') tasks.push({ token, error });
      return delivered;
    },
  };
  const ways = {
    publish: (_event: BusEvent): boolean | 'never' => true,
    task: async (_token: string): Promise<Delivered> => 'sent',
    post: async (_connectionId: string, _text: string): Promise<Delivered> => 'sent',
  };
  const ports: NotifierPorts & PublisherPorts & { history: HistoryStore } = {
    locks,
    clock,
    pauses: clock,
    bus: {
      publish: async (events) => {
        const taken = events.map((event) => ({ event, is: ways.publish(event) }));
        published.push(...taken.filter(({ is }) => is === true).map(({ event }) => event));
        return taken.filter(({ is }) => is !== true).map(({ event, is }) => ({ event, isFinal: is === 'never' }));
      },
    },
    tasks: completions,
    callbacks: completions,
    connections: {
      post: async (connectionId, text) => {
        const delivered = await ways.post(connectionId, text);
        if (delivered === 'sent') posted.push({ connectionId, text });
        return delivered;
      },
    },
    timers,
    history: stores.history,
    watchers,
    deliveries: stores.deliveries,
    meter: { record: (measures) => void measured.push(...measures), flush: () => {} },
    log: { info: log, warn: log, error: log },
  };
  const reaper = createReaper({ locks, timers, awaited, log: ports.log });
  timers.onFire((key) => void reaper.look(key));

  let shown = 0;
  const createBoth = () =>
    createStreamHandler([...notifierEffects(ports), ...publisherEffects(ports)], ports.log, ports.meter);
  let notify = createBoth();
  const world = {
    clock,
    table,
    access: stores.elsewhere.access,
    store,
    locks,
    ports,
    ways,
    published,
    tasks,
    posted,
    measured,
    logged,
    timers,
    watchers,
    connected,
    reaper,
    awaited,
    /** The names of the locks in the index of locks with waiters. */
    awaitedNames: async () => {
      const names: string[] = [];
      for await (const { name } of stores.elsewhere.awaited.list()) names.push(name);
      return names;
    },
    /** A lock that is in that index, though nobody waits for it any more. */
    strand: async (key: LockKey) => {
      await world.acquire('lease-stranded-001', {}, key);
      await world.acquire('lease-stranded-002', { waitMs: 1_000 }, key);
      for (const leaseId of ['lease-stranded-001', 'lease-stranded-002']) await world.release(leaseId, key);
    },
    do: (command: LockCommand, key = lockKey) => apply(locks, key, command),
    /** A parked waiter joins the queue, or a holder takes the lock. */
    acquire: (leaseId: string, more: Parameters<typeof acquireOf>[1] = {}, key = lockKey) =>
      apply(locks, key, acquireOf(leaseId, more)),
    park: (leaseId: string, way: Notify, more: Parameters<typeof acquireOf>[1] = {}, key = lockKey) =>
      apply(
        locks,
        key,
        acquireOf(leaseId, { waitMs: 3_600_000, attendMs: null, notify: withSecret(way, leaseId), ...more }),
      ),
    release: (leaseId: string, key = lockKey) => apply(locks, key, { kind: 'release', leaseId }),
    records: () => records,
    /** Gives these records to the notifier. */
    deliver: (records: readonly DynamoDBRecord[]) => {
      if (missedByFilter(records).length > 0) throw new Error('The filter keeps work from the notifier.');
      return notify({ Records: structuredClone([...records]) });
    },
    /** Gives the notifier the latest writes, until no new ones follow. */
    async drain() {
      const failures: string[] = [];
      while (shown < records.length) {
        const batch = records.slice(shown);
        shown = records.length;
        const { batchItemFailures } = await world.deliver(batch);
        failures.push(...batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
      }
      return failures;
    },
    /** A new notifier without memory takes over, as after a crash. */
    restart() {
      notify = createBoth();
    },
    async watch(connectionId: string, subject: Watcher['subject'] = { prefix: '' }) {
      const watcher: Watcher = {
        namespace: lockKey.namespace,
        caller: 'anonymous',
        connectionId,
        connectedAt: clock.now(),
        subject,
      };
      await watchers.add(watcher);
      await watchers.welcome(watcher);
      return watcher;
    },
    historyTypes: async (key = lockKey) =>
      (await historyPage(ports, key, { limit: 1_000 })).events.map(({ type }) => type).reverse(),
    /** The references of the waiters that got an event, in order. */
    toldRefs: () =>
      published.filter(({ detailType }) => detailType === 'granted-to-waiter').map(({ detail }) => detail.ref),
  };
  return world;
}

export type World = ReturnType<typeof createWorld>;
