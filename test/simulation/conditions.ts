import type { QueueSizes } from '../../src/queue/pages.ts';
import type { Chance } from './chance.ts';

/** Which faults one run has, and how many. They are drawn once from its seed, so runs differ in kind and not only in detail. */
export interface Conditions {
  /** How far a host's clock may be from the true time. Half the grace, so two hosts never differ by more than the whole grace. */
  readonly clockBoundMs: number;
  /** True if clocks never differ by more than the grace. If they do, only the fence protects. */
  readonly clocksInBound: boolean;
  /** How callers wait: notified by the table's stream, or each waiter polls the table. */
  readonly waiting: 'notified' | 'polled' | 'mixed';
  /** Very small, so pages are opened, closed and moved up all the time. */
  readonly sizes: QueueSizes;
  readonly requestLost: number;
  readonly answerLost: number;
  readonly duplicated: number;
  /** How late the stray copies of requests may come. */
  readonly strayMsMax: number;
  readonly networkMs: number;
  readonly storeMs: number;
  readonly storeFails: number;
  readonly storeThrottles: number;
  /** Writes whose answer was lost and that the store's own client sends again. */
  readonly storeRepeats: number;
  /** The average time between two faults of whole processes. */
  readonly calamityEveryMs: number;
  readonly hosts: number;
  readonly clients: number;
  readonly chaosMs: number;
  /**
   * What makes the reaper look in time: delayed messages, as deployed, or timers inside its process, as on one machine. With
   * `none`, there is no notifier and no reaper, as in direct mode on a table alone. Then nobody is parked, and each waiter polls.
   */
  readonly timers: 'queue' | 'process' | 'none';
  /** The share of delayed messages that are lost, even without other faults. */
  readonly timersLost: number;
  /** The share of failed calls to the event bus, tasks, connections and the queue. Such a call may still have had its effect. */
  readonly outsideFails: number;
  /** The share of such calls that their own client repeats. */
  readonly outsideRepeats: number;
  /** The average life of a WebSocket connection, even without other faults. */
  readonly socketLivesMs: number;
  /** The share of ends of connections that no host learns of. */
  readonly socketEndsUntold: number;
  /** True if a newer release, which writes another layout, is deployed, rolled back and deployed again while others run. */
  readonly newerRelease: boolean;
}

export function drawConditions(chance: Chance): Conditions {
  const severity = chance.pick([0, 0.3, 1, 1, 2]);
  const clocksInBound = !chance.happens(0.15);
  return {
    clocksInBound,
    clockBoundMs: clocksInBound ? chance.pick([0, 60, 125]) : 8_000,
    waiting: chance.pick(['notified', 'polled', 'mixed']),
    sizes: { front: chance.pick([1, 1, 2, 3]), page: chance.pick([1, 1, 2]) },
    requestLost: 0.02 * severity,
    answerLost: 0.03 * severity,
    duplicated: 0.04 * severity,
    strayMsMax: chance.pick([200, 5_000, 40_000]),
    networkMs: chance.pick([2, 10, 40]),
    storeMs: chance.pick([1, 4, 12]),
    storeFails: 0.01 * severity,
    storeThrottles: 0.01 * severity,
    storeRepeats: 0.02 * severity,
    calamityEveryMs: severity === 0 ? Number.POSITIVE_INFINITY : chance.pick([2_000, 5_000, 12_000]) / severity,
    hosts: chance.between(1, 3),
    clients: chance.between(3, 9),
    chaosMs: chance.pick([20_000, 40_000, 60_000]),
    timers: chance.pick(['queue', 'queue', 'queue', 'process', 'none']),
    timersLost: severity === 0 ? 0 : chance.pick([0, 0.05, 0.3]),
    outsideFails: 0.05 * severity,
    outsideRepeats: 0.04 * severity,
    socketLivesMs: severity === 0 ? Number.POSITIVE_INFINITY : chance.pick([2_000, 6_000, 20_000]),
    socketEndsUntold: 0.1 * severity,
    newerRelease: severity > 0 && chance.happens(0.1),
  };
}
