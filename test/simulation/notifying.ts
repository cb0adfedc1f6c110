/**
 * Everything between the table's stream and the parked waiters.
 *
 *     table ──► stream ──► notifiers ──► outside ──► who listens
 *                              │            │
 *                          (deliveries)     timers ──► reapers ──► table       every arrow loses, delays, repeats
 */

import { grantOf } from '../../src/lock/events.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import type { DynamoDBRecord } from 'aws-lambda';
import { HistoryStore } from '../../src/store/history.ts';
import { defaultTableName } from '../../src/table/shape.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from './chance.ts';
import { DriftingClock } from './clock.ts';
import type { Conditions } from './conditions.ts';
import type { LockPromises } from './lock-promises.ts';
import { NotifierHost } from './notifier-host.ts';
import { NotifierPromises } from './notifier-promises.ts';
import { Outside } from './outside.ts';
import type { Sockets } from './sockets.ts';
import type { WayToTable } from './host.ts';
import type { Release } from './release.ts';
import type { LockWrite, WorldTable } from './table.ts';
import type { StoreWeather } from './table-path.ts';
import { Stream } from './stream.ts';
import { TimerQueue } from './timer-queue.ts';
import type { Verdicts } from './verdicts.ts';
import { Watchers } from './watchers.ts';

/** The schedule that finds locks whose timer was lost. Deployed it is a minute. Here it is half of that, to keep worlds short. */
export const sweepEveryMs = 30_000;
/** Without faults, a parked waiter leaves the queue this long after its deadline at most: its timer is exact to a second, and may be late. */
const leaveMsMax = 5_000;
const notifiersRunning = { queue: 2, process: 1, none: 0 };

interface NotifyingParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly conditions: Conditions;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  readonly table: WorldTable;
  readonly path: WayToTable;
  readonly release: () => Release;
  readonly locks: LockPromises;
  readonly sockets: () => Sockets;
}

export class Notifying {
  readonly notifiers: NotifierHost[] = [];
  readonly outside: Outside;
  readonly promises: NotifierPromises;
  readonly watchers: Watchers;
  readonly #parts: NotifyingParts;
  readonly #stream: Stream;
  readonly #queue: TimerQueue;
  #isAwake = false;

  constructor(parts: NotifyingParts) {
    const { time, chance, conditions, weather, verdicts, locks } = parts;
    this.#parts = parts;
    const { clocksInBound, clockBoundMs } = conditions;
    this.promises = new NotifierPromises({
      verdicts,
      locks,
      session: (sessionId) => parts.table.sessionStates.get(sessionId),
      now: () => time.now(),
      aheadMsMax: clocksInBound ? lockLimits.graceMs : 2 * clockBoundMs,
      isTaskOpen: (token) => this.outside.isTaskOpen(token),
    });
    const around = { time, conditions, weather, verdicts };
    this.#queue = new TimerQueue({ ...around, chance: chance.branch(), deliver: (body) => this.#fire(body) });
    this.outside = new Outside({
      ...around,
      chance: chance.branch(),
      promises: () => this.promises,
      queue: this.#queue,
      sockets: parts.sockets,
    });
    this.#stream = new Stream({
      ...around,
      chance: chance.branch(),
      watcher: this.promises,
      readers: () => this.notifiers,
    });
    this.watchers = new Watchers({ ...around, outside: this.outside, table: parts.table });
  }

  begin(): void {
    if (!this.isThere) return;
    for (let index = 0; index < notifiersRunning[this.#parts.conditions.timers]; index++) this.start();
    this.wake();
  }

  /** Starts a process that handles batches, timers and sweeps. It begins with a sweep, because timers inside the process before it are gone. */
  start(): void {
    const { time, chance: all, conditions, path, release } = this.#parts;
    if (conditions.timers === 'none') return;
    const chance = all.branch();
    const { clockBoundMs } = conditions;
    const clock = new DriftingClock(time, {
      boundMs: Math.max(clockBoundMs, lockLimits.graceMs / 2),
      offsetMs: chance.between(-clockBoundMs, clockBoundMs),
      ratePpm: chance.between(-100, 100),
    });
    const notifier = new NotifierHost({
      name: `notifier${this.notifiers.length + 1}`,
      time,
      clock,
      chance,
      outside: this.outside,
      timers: conditions.timers,
      release: release(),
      path,
    });
    this.notifiers.push(notifier);
    if (conditions.timers === 'process') void notifier.sweep();
  }

  /** In the idle month nobody waits, so its empty sweeps are left out. */
  sleep(): void {
    this.#isAwake = false;
  }

  wake(): void {
    if (!this.isThere) return;
    this.#isAwake = true;
    this.watchers.connect();
    this.#sweepLater();
  }

  #sweepLater(): void {
    this.#parts.time.after(sweepEveryMs, () => {
      if (!this.#isAwake) return;
      const notifier = this.#anyRunning();
      notifier?.process.deliver(() => void notifier.sweep());
      this.#sweepLater();
    });
  }

  get isThere(): boolean {
    return this.#parts.conditions.timers !== 'none';
  }

  /** A change of the table. The stream shows all of them, and this says what one of a lock means to others. */
  changed(record: DynamoDBRecord, write: LockWrite | undefined): void {
    if (!this.isThere) return;
    const meaning = write && this.promises.written(write);
    if (meaning !== undefined) this.watchers.written(meaning.events.length);
    this.#stream.append(record, meaning);
  }

  replay(): void {
    this.#stream.replay();
  }

  /** How long a free lock may stay without a holder if only a timer notices it. It is longer if that timer was lost. */
  patienceMs(lock: string, dueAt: number, timelyMs: number): number {
    const { clocksInBound } = this.#parts.conditions;
    const mayBeLate = !clocksInBound || this.#queue.wasLost(lock, dueAt - sweepEveryMs - timelyMs);
    return mayBeLate ? sweepEveryMs + timelyMs : timelyMs;
  }

  /** Without faults: a granted waiter gets its delivery, and a waiter whose time is over is dropped. */
  checkSoon(calmSince: number): void {
    const { time, table, conditions, verdicts } = this.#parts;
    this.promises.checkSoon(calmSince);
    for (const [name, { queue }] of table.states) {
      for (const { notify, deadlineAt, leaseId } of queue) {
        if (notify === undefined) continue;
        const dueAt = Math.max(deadlineAt + conditions.clockBoundMs, calmSince);
        if (time.now() - dueAt > this.patienceMs(name, dueAt, leaveMsMax))
          verdicts.breach('bounded', `${name}: ${leaseId} is parked beyond its deadline`, queue);
      }
    }
  }

  /** When all work is over. */
  async checkAll(): Promise<void> {
    const { verdicts, table } = this.#parts;
    if (!this.isThere || verdicts.breaches.length > 0) return;
    if (this.#stream.pending > 0)
      verdicts.breach('bounded', `${this.#stream.pending} changes were never taken from the stream`);
    const history = new HistoryStore({ table: table.port, tableName: defaultTableName, clock: this.#parts.time });
    await this.promises.checkStories(async (name) => {
      const standing = (table.states.get(name)?.holders ?? []).map(grantOf);
      const { events } = await history.page({ namespace: 'sim', name }, { limit: 100_000, standing });
      return events;
    });
    this.watchers.check();
  }

  #anyRunning(): NotifierHost | undefined {
    const running = this.notifiers.filter(({ process }) => process.isAlive);
    return running.length === 0 ? undefined : this.#parts.chance.pick(running);
  }

  /** If the process dies while it handles the timer, the queue gets no answer and delivers the timer again. */
  #fire(body: string): Promise<boolean> {
    const notifier = this.#anyRunning();
    if (notifier === undefined) return Promise.resolve(false);
    return new Promise((resolve) => {
      notifier.process.onDeath(() => resolve(false));
      notifier.process.deliver(() => void notifier.fire(body).then(resolve));
    });
  }
}
