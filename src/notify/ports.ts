/** How the notifier and the reaper reach the outside. Each port has an adapter for AWS and one for a single machine. */
import type { LockContext } from '../service/context.ts';
import type { DeliveryStore } from '../store/delivery-store.ts';
import type { HistoryStore } from '../store/history-store.ts';
import type { LockKey } from '../store/lock-store.ts';
import type { WatcherStore } from '../store/watcher-store.ts';
import type { Clock, EpochMs } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { Measure } from './measures.ts';

/** An event as EventBridge takes it. */
export interface BusEvent {
  readonly detailType: string;
  readonly time: EpochMs;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** An event that the bus did not take. `isFinal`: it never will. */
export interface Untaken {
  readonly event: BusEvent;
  readonly isFinal: boolean;
}

export interface EventBus {
  /** Returns the events that were not taken, after retries of its own. */
  publish(events: readonly BusEvent[]): Promise<readonly Untaken[]>;
}

/**
 * `gone` is final: the message did not arrive, and never will. A failure that may pass is thrown, and the delivery is tried again. So
 * is a failure of a call that its client repeated: the first try may have arrived.
 */
export type Delivered = 'sent' | 'gone';

/** Work elsewhere that waits for its completion: Step Functions tasks by their token, callbacks of durable functions by their id. */
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
   * Makes sure that the reaper looks at the lock by that instant. If a timer fires at or before it, nothing is added: each look arms
   * the next timer. `fired` names the timer that has just fired, which no longer counts.
   */
  arm(key: LockKey, at: EpochMs, fired?: EpochMs): Promise<void>;
}

/** Collects measures. They are written when a batch is done. */
export interface Meter {
  record(measures: readonly Measure[]): void;
  flush(): void;
}

export const noMeter: Meter = { record: () => {}, flush: () => {} };

export interface NotifyLog {
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** For what parked waiters and timers depend on. */
export interface NotifierPorts {
  readonly locks: LockContext;
  readonly bus: EventBus;
  readonly tasks: Completions;
  readonly callbacks: Completions;
  readonly connections: Connections;
  readonly timers: LockTimers;
  readonly deliveries: DeliveryStore;
  readonly meter: Meter;
  readonly log: NotifyLog;
}

/** For what is shown to others. Nobody's lock depends on it. */
export interface PublisherPorts {
  readonly clock: Clock;
  readonly pauses: Timers;
  /** Absent: nobody asked for events. */
  readonly bus?: EventBus | undefined;
  /** Absent: no history is kept. */
  readonly history?: HistoryStore | undefined;
  readonly connections: Connections;
  readonly watchers: WatcherStore;
  readonly meter: Meter;
  readonly log: NotifyLog;
}
