/** The notifier and reaper of a deployment, with ports for one machine. */
import type { LockKey } from '../lock/state.ts';
import { HandOffs } from '../notify/hand-offs.ts';
import { notifierEffects } from '../notify/notifier.ts';
import { type Connections, noMeter } from '../notify/ports.ts';
import { publisherEffects } from '../notify/publisher.ts';
import { createReaper } from '../notify/reaper.ts';
import { createStreamHandler, type StreamHandler } from '../notify/stream-handler.ts';
import type { LockContext } from '../service/context.ts';
import { HistoryStore } from '../store/history.ts';
import { AwaitedLocks, DeliveryStore } from '../store/notices.ts';
import { WatcherStore } from '../store/watchers.ts';
import type { TableAccess } from '../table/item-table.ts';
import { after, systemClock } from '../time/clock.ts';
import { systemTimers } from '../time/timers.ts';
import { errorText } from '../tools/error-text.ts';
import type { Log } from '../tools/log.ts';
import { localCallbacks, localTasks } from './completions.ts';
import { httpEventBus } from './events.ts';
import { ProcessTimers } from './timers.ts';

/** The same as in a deployment: each minute, for locks whose timer was lost. */
const sweepEveryMs = 60_000;
/** If a look failed because the engine was away, it is repeated after this time. */
const lookAgainMs = 1_000;

export interface NotificationOptions {
  readonly locks: LockContext;
  readonly access: TableAccess;
  readonly connections: Connections;
  readonly region: string;
  readonly eventsUrl?: string | undefined;
  readonly tasksUrl?: string | undefined;
  readonly callbacksUrl?: string | undefined;
  readonly log: Log;
}

export interface Notifications {
  /** For the pump that delivers: waiters wait for it. */
  readonly deliver: StreamHandler;
  /** For the pump that writes the history and shows events: nobody waits for it. */
  readonly publish: StreamHandler;
  readonly watchers: WatcherStore;
  /** Sets the timers again that ended with the last process, and starts the sweeps. */
  start(): void;
  stop(): Promise<void>;
}

export function createNotifications(options: NotificationOptions): Notifications {
  const { locks, access, connections, region, eventsUrl, tasksUrl, callbacksUrl, log } = options;
  const timers = new ProcessTimers();
  const watchers = new WatcherStore(access);
  // A line for each delivery is useful in CloudWatch, but not on a developer's screen.
  const shared = {
    bus: httpEventBus({ url: eventsUrl, region, log }),
    connections,
    meter: noMeter,
    log: { info: () => {}, warn: (...line) => log.warn(...line), error: (...line) => log.error(...line) } satisfies Log,
  };
  const deliveries = new DeliveryStore(access);
  const handOffs = new HandOffs({ ...shared, locks, deliveries });
  const notifying = notifierEffects({
    ...shared,
    locks,
    tasks: localTasks({ url: tasksUrl, region, log }),
    callbacks: localCallbacks({ url: callbacksUrl, region, log }),
    timers,
    deliveries,
  });
  const publishing = publisherEffects({
    ...shared,
    clock: systemClock,
    pauses: systemTimers,
    history: new HistoryStore(access),
    watchers,
  });
  const reaper = createReaper({ locks, timers, awaited: new AwaitedLocks(access), log });
  const underWay = new Set<Promise<unknown>>();
  const track = (work: Promise<unknown>) => {
    const tracked = work.finally(() => underWay.delete(tracked));
    underWay.add(tracked);
  };
  const look = async (key: LockKey): Promise<void> => {
    try {
      await reaper.look(key);
    } catch (error) {
      log.warn('A lock could not be looked at.', { namespace: key.namespace, error: errorText(error) });
      await timers.arm(key, after(systemClock.now(), lookAgainMs));
    }
  };
  timers.onFire((key) => track(look(key)));
  const sweep = async (): Promise<void> => {
    await reaper.sweepAwaited(after(systemClock.now(), sweepEveryMs)).catch((error: unknown) => {
      log.warn('Awaited locks could not be swept.', { error: errorText(error) });
    });
  };
  let sweeping: NodeJS.Timeout | undefined;
  return {
    deliver: createStreamHandler(notifying, shared.log),
    publish: createStreamHandler(publishing, shared.log),
    watchers,
    start() {
      track(sweep());
      sweeping = setInterval(() => track(sweep()), sweepEveryMs).unref();
    },
    async stop() {
      clearInterval(sweeping);
      timers.stop();
      await Promise.all([...underWay, handOffs.settle()]);
    },
  };
}
