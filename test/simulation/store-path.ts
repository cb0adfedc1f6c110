import type { LockKey } from '../../src/lock/state.ts';
import type { SessionState } from '../../src/session/state.ts';
import type { HistoryStore } from '../../src/store/history.ts';
import type { LockStore } from '../../src/queue/lock-store.ts';
import type { AwaitedLocks, DeliveryStore, TimerNotes } from '../../src/store/notices.ts';
import type { RecordStore } from '../../src/store/records.ts';
import type { SessionStore } from '../../src/store/session-store.ts';
import type { SocketStore } from '../../src/store/sockets.ts';
import { StoreError } from '../../src/table/store-error.ts';
import type { WatcherStore } from '../../src/store/watchers.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { type Cause, causeNow } from './cause.ts';
import type { Chance } from './chance.ts';
import type { Conditions } from './conditions.ts';
import type { Process } from './process.ts';
import type { Table } from './store.ts';

/** The state of the store now, for all processes. */
export interface StoreWeather {
  outage: boolean;
  /** True if the event bus, tasks, connections and the queue of timers refuse every call. */
  outsideAway: boolean;
  calm: boolean;
}

interface Way {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly process: Process;
  readonly table: Table;
  readonly conditions: Conditions;
  readonly weather: StoreWeather;
}

const unavailable = () => new StoreError('unavailable', 'The store did not answer.');

/** The path of one process to the table. */
export class StorePath {
  readonly locks: LockStore;
  readonly sessions: SessionStore;
  readonly records: RecordStore;
  readonly deliveries: DeliveryStore;
  readonly history: HistoryStore;
  readonly watchers: WatcherStore;
  readonly sockets: SocketStore;
  readonly timerNotes: TimerNotes;
  readonly awaited: AwaitedLocks;
  readonly #way: Way;

  constructor(way: Way) {
    this.#way = way;
    const { locks, sessions, records } = way.table;
    this.locks = {
      read: (key) => this.#read(() => locks.read(key)),
      look: (key) => this.#read(async () => way.table.earlier(key, this.#lagMs())),
      readMany: (keys) => this.#read(() => locks.readMany(keys)),
      attempt: (key, command, facts) => this.#write(() => locks.attempt(key, command, facts), perhaps),
      enqueue: (key, arrival) => this.#write(() => locks.enqueue(key, arrival), perhaps),
      openPage: (key, arrival, seen) => this.#write(() => locks.openPage(key, arrival, seen), perhaps),
      moveUp: (key, pages, now) => this.#write(() => locks.moveUp(key, pages, now), perhaps),
      readPages: (keys) => this.#read(() => locks.readPages(keys)),
      appendToPage: (key, joining, sizes) => this.#write(() => locks.appendToPage(key, joining, sizes), perhaps),
      attendInPage: (key, attendance) => this.#write(() => locks.attendInPage(key, attendance), perhaps),
      stepAwayInPage: (key, absence) => this.#write(() => locks.stepAwayInPage(key, absence), perhaps),
      leavePage: (key, leaseId, how, now) => this.#write(() => locks.leavePage(key, leaseId, how, now), perhaps),
      closePage: (key, now) => this.#write(() => locks.closePage(key, now)),
      attend: (key, index, waiter, now) => this.#write(() => locks.attend(key, index, waiter, now), perhaps),
      leave: (key, index, waiter, isRemembered, now) =>
        this.#write(() => locks.leave(key, index, waiter, isRemembered, now), perhaps),
      swap: (key, next) => this.#write(() => locks.swap(key, next), perhaps),
      // A transaction carries a token, so its repeat is recognised by the store itself.
      swapAll: (swaps) => this.#write(() => locks.swapAll(swaps)),
      list: (namespace, page) => this.#read(() => locks.list(namespace, page)),
    };
    this.sessions = {
      create: (namespace, session) => this.#write(() => sessions.create(namespace, session), perhaps),
      read: (namespace, ids) => this.#read(() => sessions.read(namespace, ids), noteDead(ids)),
      keepAlive: (key, now) => this.#write(() => sessions.keepAlive(key, now), perhaps),
      end: (key, now) => this.#write(() => sessions.end(key, now), perhaps),
      expire: (key, now, expiredBy) => this.#write(() => sessions.expire(key, now, expiredBy), perhaps),
      noteWait: (key, wait) => this.#write(() => sessions.noteWait(key, wait), perhaps),
      forgetWait: (key, wait) => this.#write(() => sessions.forgetWait(key, wait)),
      notePart: (key, lock, now) => this.#write(() => sessions.notePart(key, lock, now)),
      locksOf: (key) => this.#read(() => sessions.locksOf(key)),
    };
    this.records = {
      read: (key) => this.#read(() => records.read(key)),
      attempt: (key, command, now) =>
        this.#write(
          () => records.attempt(key, command, now),
          (second) => {
            // The first try may have been written and replaced since. The adapter can't know.
            if (!second.applied && !second.state.writeIds.includes(command.writeId)) throw unavailable();
            return second;
          },
        ),
    };
    const { deliveries, history, watchers, sockets, timerNotes } = way.table.side;
    const { awaited } = way.table;
    this.deliveries = {
      begin: (key, fence) => this.#write(() => deliveries.begin(key, fence), counted),
      read: (key, fence) => this.#read(() => deliveries.read(key, fence)),
      markDelivered: (key, fence) => this.#write(() => deliveries.markDelivered(key, fence)),
    };
    this.history = {
      append: (entries) => this.#appendSome(history, entries),
      page: (key, page) => this.#read(() => history.page(key, page)),
    };
    this.watchers = {
      add: (watcher) => this.#write(() => watchers.add(watcher)),
      welcome: (watcher) => this.#write(() => watchers.welcome(watcher)),
      welcomed: (namespace) => this.#read(() => watchers.welcomed(namespace)),
      remove: (connectionId) => this.#write(() => watchers.remove(connectionId)),
    };
    this.sockets = {
      issue: (secret, ticket) => this.#write(() => sockets.issue(secret, ticket)),
      // If it was sent twice, the ticket is already used, and the caller needs another one.
      redeem: (secret, now) => this.#write(() => sockets.redeem(secret, now), counted),
      connection: (connectionId) => this.#read(() => sockets.connection(connectionId)),
      noteWait: (connectionId, wait, until) => this.#write(() => sockets.noteWait(connectionId, wait, until)),
      waitsOn: (connectionId, namespace) => this.#read(() => sockets.waitsOn(connectionId, namespace)),
    };
    this.timerNotes = {
      read: (key) => this.#read(() => timerNotes.read(key)),
      write: (key, firesAt) => this.#write(() => timerNotes.write(key, firesAt)),
    };
    const page = () =>
      this.#read(async () => {
        const keys: LockKey[] = [];
        for await (const key of awaited.list()) keys.push(key);
        return keys;
      });
    this.awaited = {
      async *list() {
        yield* await page();
      },
      forget: (key) => this.#write(() => awaited.forget(key)),
    };
  }

  /** Many items in one request: some may be left unwritten while the others are. */
  #appendSome(
    history: HistoryStore,
    entries: Parameters<HistoryStore['append']>[0],
  ): ReturnType<HistoryStore['append']> {
    const { chance, conditions, weather } = this.#way;
    if (entries.length === 0) return Promise.resolve([]);
    const refused = entries.filter(() => !weather.calm && chance.happens(conditions.storeThrottles / 4));
    const taken = entries.filter((entry) => !refused.includes(entry));
    return this.#write(async () => [...(await history.append(taken)), ...refused]);
  }

  #read<T>(work: () => Promise<T>, seen: (found: T, cause: Cause) => void = () => {}): Promise<T> {
    return this.#send(work, { lost: unavailable, seen });
  }

  /** `again` makes the answer to a write whose first answer was lost and that was sent a second time. */
  #write<T>(work: () => Promise<T>, again?: (second: T) => T): Promise<T> {
    return this.#send(work, { lost: unavailable, again, seen: () => {} });
  }

  /** The request, the effect and the answer. The host may be gone at any of these points, and the store goes on. */
  #send<T>(
    work: () => Promise<T>,
    {
      lost,
      again,
      seen,
    }: { lost: () => Error; again?: ((second: T) => T) | undefined; seen: (found: T, cause: Cause) => void },
  ): Promise<T> {
    const { time, chance, process, table, conditions, weather } = this.#way;
    const cause = causeNow(process.name, time.now());
    const perform = () => table.perform(cause, work);
    return new Promise<T>((resolve, reject) => {
      const back = (run: () => void) => time.after(this.#legMs(), () => process.deliver(run));
      const answer = (result: T) =>
        back(() => {
          seen(result, cause);
          resolve(result);
        });
      const fails = (error: Error) => back(() => reject(error));
      const arrive = async (): Promise<void> => {
        const fate = weather.calm ? 1 : chance.next();
        if (weather.outage) fails(lost());
        else if (fate < conditions.storeThrottles)
          fails(new StoreError('throttled', 'The store throttled the request.'));
        else if (fate < conditions.storeThrottles + conditions.storeFails) {
          // The host does not know: it may have been done, may be done later, or never.
          const kind = chance.between(0, 2);
          if (kind === 0) await perform();
          if (kind === 1) time.after(chance.longTailed(500, 20_000), () => void perform());
          fails(lost());
        } else {
          const first = await perform();
          if (again === undefined || weather.calm || fate < 1 - conditions.storeRepeats) answer(first);
          else
            time.after(chance.longTailed(20, 500), async () => {
              const second = await perform();
              try {
                answer(again(second));
              } catch (error) {
                fails(error as Error);
              }
            });
        }
      };
      time.after(this.#legMs(), () => void arrive());
    });
  }

  /** How old the state is that a read without consistency shows. Half of them show the latest. */
  #lagMs(): number {
    const { chance, weather } = this.#way;
    return chance.happens(0.5) ? 0 : chance.longTailed(weather.calm ? 20 : 300, 3_000);
  }

  #legMs(): number {
    const { chance, conditions, weather } = this.#way;
    return 1 + (weather.calm ? chance.between(0, conditions.storeMs) : chance.longTailed(conditions.storeMs, 3_000));
  }
}

const perhaps = <T extends { readonly applied: boolean }>(second: T): T =>
  second.applied ? second : { ...second, perhapsMine: true };

/** Done twice: the answer says so. */
const counted = <T>(second: T): T => second;

const noteDead =
  (ids: readonly string[]) =>
  (found: readonly (SessionState | undefined)[], { knownDead }: Cause): void => {
    for (const [index, session] of found.entries())
      if (session === undefined || session.ended !== undefined) knownDead.add(ids[index] as string);
  };
