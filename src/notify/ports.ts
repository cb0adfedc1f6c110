/** How the notifier and the reaper reach the outside. Each port has an adapter for AWS and one for a single machine. */
import type { LockKey } from '../lock/state.ts';
import type { LockContext } from '../service/context.ts';
import type { HistoryStore } from '../store/history.ts';
import type { DeliveryStore } from '../store/notices.ts';
import type { WatcherStore } from '../store/watchers.ts';
import type { Clock, EpochMs } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { Log } from '../tools/log.ts';
import type { Measure } from './measures.ts';

/** An event as EventBridge takes it. */
export interface BusEvent {
  readonly detailType: string;
  readonly time: EpochMs;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** An event that the bus did not take. If `isFinal` is true, it never will. */
export interface Untaken {
  readonly event: BusEvent;
  readonly isFinal: boolean;
}

export interface EventBus {
  /** Returns the events that were not taken, after its own retries. */
  publish(events: readonly BusEvent[]): Promise<readonly Untaken[]>;
}

/**
 * `gone` is final: the message did not arrive, and never will. A failure that may go away is thrown, and the delivery is tried again. The
 * same holds if the client repeated the call, because the first try may have arrived.
 */
export type Delivered = 'sent' | 'gone';

/** Completes work that waits outside: Step Functions tasks by their token, callbacks of durable functions by their id. */
export interface Completions {
  succeed(address: string, output: Readonly<Record<string, unknown>>): Promise<Delivered>;
  fail(address: string, error: string, cause: string): Promise<Delivered>;
}

/** WebSocket connections. */
export interface Connections {
  post(connectionId: string, text: string): Promise<Delivered>;
}

/** Makes the reaper look at locks in time. */
export interface LockTimers {
  /**
   * Ensures that the reaper looks at the lock by that instant. If a timer fires at or before it, nothing is added, because each look arms
   * the next timer. `fired` is the timer that has just fired, which does not count.
   */
  arm(key: LockKey, at: EpochMs, fired?: EpochMs): Promise<void>;
}

/** Collects measures. They are written when a batch is done. */
export interface Meter {
  record(measures: readonly Measure[]): void;
  flush(): void;
}

export const noMeter: Meter = { record: () => {}, flush: () => {} };

/** The ports for deliveries to parked waiters, and for timers. */
export interface NotifierPorts {
  readonly locks: LockContext;
  readonly bus: EventBus;
  readonly tasks: Completions;
  readonly callbacks: Completions;
  readonly connections: Connections;
  readonly timers: LockTimers;
  readonly deliveries: DeliveryStore;
  readonly meter: Meter;
  readonly log: Log;
}

/** The ports for events, history and watchers. No lock depends on them. */
export interface PublisherPorts {
  readonly clock: Clock;
  readonly pauses: Timers;
  /** Missing if events are not published. */
  readonly bus?: EventBus | undefined;
  /** Missing if no history is kept. */
  readonly history?: HistoryStore | undefined;
  readonly connections: Connections;
  readonly watchers: WatcherStore;
  readonly meter: Meter;
  readonly log: Log;
}
