import type { QueueSizes } from '../../src/lock/pages.ts';
import type { Chance } from './chance.ts';

/** How bad the weather is in one run: drawn once from its seed, so that runs differ in kind and not only in detail. */
export interface Conditions {
  /** How far a host's clock may be from the true time. Half the grace, so that two hosts never differ by more than all of it. */
  readonly clockBoundMs: number;
  /** Whether clocks stay within what the grace covers. Where they don't, only the fence protects. */
  readonly clocksInBound: boolean;
  /** How hosts let callers wait: by bells and the table's stream, or each waiter looking for itself. */
  readonly waiting: 'notified' | 'polled' | 'mixed';
  /** Whether the store takes the common cases in one write, as DynamoDB's adapter does, or always compares and swaps. */
  readonly directWrites: boolean;
  /** Tiny, so that pages are opened, closed and moved up all the time. */
  readonly sizes: QueueSizes;
  readonly requestLost: number;
  readonly answerLost: number;
  readonly duplicated: number;
  /** Of the copies that go astray, how late they may come. */
  readonly strayMsMax: number;
  readonly networkMs: number;
  readonly storeMs: number;
  readonly storeFails: number;
  readonly storeThrottles: number;
  /** A write whose answer was lost and that the store's own client sent again. */
  readonly storeRepeats: number;
  /** Between two misfortunes of whole processes, on average. */
  readonly calamityEveryMs: number;
  readonly hosts: number;
  readonly clients: number;
  readonly chaosMs: number;
  /**
   * How the reaper is made to look in time: by delayed messages, as deployed, or by timers inside its process, as on one machine. None: there is neither
   * notifier nor reaper, as where the SDK works on a table by itself, and nobody is parked: each waiter has only itself to rely on.
   */
  readonly timers: 'queue' | 'process' | 'none';
  /** Of delayed messages, also when everything else is well. */
  readonly timersLost: number;
  /** Calls to the event bus, to tasks, to connections and to the queue that fail, and what they were to do may have been done. */
  readonly outsideFails: number;
  /** Such calls that their own client repeats. */
  readonly outsideRepeats: number;
  /** After how long a WebSocket connection breaks, on average, also when everything else is well. */
  readonly socketLivesMs: number;
  /** Ends of connections that no host is told of. */
  readonly socketEndsUntold: number;
}

export function drawConditions(chance: Chance): Conditions {
  const severity = chance.pick([0, 0.3, 1, 1, 2]);
  const clocksInBound = !chance.happens(0.15);
  return {
    clocksInBound,
    clockBoundMs: clocksInBound ? chance.pick([0, 60, 125]) : 8_000,
    waiting: chance.pick(['notified', 'polled', 'mixed']),
    directWrites: chance.happens(0.6),
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
  };
}
