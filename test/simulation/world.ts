/**
 * A simulated world: hosts that run the real code of the service, clients that run the real SDK, a table, a network, and faults,
 * all in virtual time and all from one seed.
 *
 *     clients ── network ──► hosts ── store paths ──► table ──► stream ──► hosts, notifiers ──► clients that are parked
 *        │          │          │           │             │                       │
 *     beliefs    answers    (clocks)   (failures)    promises                deliveries    every arrow loses, delays, repeats
 */
import { decide } from '../../src/lock/decide.ts';
import { eventsBetween } from '../../src/lock/events.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import type { LockState, Notify } from '../../src/lock/state.ts';
import { retentionMsDefault } from '../../src/queue/lock-store.ts';
import { sessionFactOf } from '../../src/session/decide.ts';
import type { Item } from '../../src/table/attributes.ts';
import { leaseNameOf } from '../../src/table/digest.ts';
import { epochMs } from '../../src/time/clock.ts';
import { Chance } from '../world/chance.ts';
import { AnswerPromises } from './answers.ts';
import { Beliefs, Resource } from './beliefs.ts';
import { Calamities } from './calamities.ts';
import type { Cause } from './cause.ts';
import { Client } from './client.ts';
import { beginning, DriftingClock, trueTime } from './clock.ts';
import { type Conditions, drawConditions } from './conditions.ts';
import { Histories } from './histories.ts';
import { Host, type WayToTable } from './host.ts';
import { LockPromises } from './lock-promises.ts';
import { Network } from './network.ts';
import { Notifying } from './notifying.ts';
import type { Release } from './release.ts';
import { brokenRule } from './rules.ts';
import { SocketPromises } from './socket-promises.ts';
import { Sockets } from './sockets.ts';
import { type LockWrite, type TableWatcher, WorldTable } from './table.ts';
import { type StoreWeather, Transactions } from './table-path.ts';
import { parkingLocks, pushLocks, Traffic } from './traffic.ts';
import { type Breach, Verdicts } from './verdicts.ts';

export interface Report {
  readonly seed: number;
  readonly conditions: Conditions;
  readonly breach: Breach | undefined;
  readonly counts: ReadonlyMap<string, number>;
  readonly steps: number;
  /** Updates that were lost although acknowledged: with the fence checked, and with the lock alone. */
  readonly lost: { readonly fenced: number; readonly bare: number };
}

/** The time after the faults stop. In it, dead waiters leave and leases of dead holders expire. */
const healingMs = 45_000;
/** Without faults, traffic goes on for this time, and nobody may wait for a free lock. */
const calmMs = 20_000;
/** How long the world checks that no waiter is forgotten: longer than the longest parked wait, and the sweep that ends it. */
const watchMs = 100_000;
/** Then nobody starts anything new, and every wait must end. */
const endingMs = 200_000;
/** How often the table deletes items whose time to live is over. */
const collectEveryMs = 30_000;
/** Twice the slowest pace of a polling waiter, and the requests of a sweep. */
const wakeMsMax = 5_000;

export class World implements TableWatcher {
  readonly #seed: number;
  readonly #chance: Chance;
  readonly #conditions: Conditions;
  readonly #time = trueTime();
  readonly #verdicts = new Verdicts(() => this.#time.now() - beginning);
  readonly #table: WorldTable;
  readonly #path: WayToTable;
  readonly #weather: StoreWeather = { outage: false, outsideAway: false, calm: false };
  readonly #network: Network;
  readonly #promises: LockPromises;
  readonly #answers: AnswerPromises;
  readonly #beliefs: Beliefs;
  readonly #notifying: Notifying;
  readonly #sockets: Sockets;
  readonly #socketPromises: SocketPromises;
  readonly #histories = new Histories(() => this.#time.now());
  readonly #hosts: Host[] = [];
  readonly #clients: Client[] = [];
  readonly #traffic: Traffic[] = [];
  readonly #resources = new Map(
    ['mutex1', 'mutex2', 'mutex3', 'plain1', 'plain2', ...parkingLocks, ...pushLocks].map((name) => [
      name,
      new Resource(),
    ]),
  );
  readonly #freeSince = new Map<string, { readonly fence: number; readonly at: number }>();
  #calmSince = Number.POSITIVE_INFINITY;
  /** The leases of all requests, by their names. */
  readonly #leases = new Map<string, string>();
  readonly #named = new Set<string>();
  #over = false;
  /** The release that is started now. */
  #release: Release = 'this';

  constructor(seed: number, conditions?: Partial<Conditions>) {
    this.#seed = seed;
    this.#chance = new Chance(seed);
    this.#conditions = { ...drawConditions(this.#chance.branch()), ...conditions };
    const { clocksInBound, clockBoundMs } = this.#conditions;
    const now = () => this.#time.now();
    const session = (sessionId: string) => this.#table.sessionStates.get(sessionId);
    const verdicts = this.#verdicts;
    const lag = this.#chance.branch();
    this.#table = new WorldTable(this, {
      now,
      indexLagMs: () => lag.longTailed(100, this.#weather.calm ? 300 : 3_000),
      leaseNamed: (leaseName) => this.#leases.get(leaseName) ?? leaseName,
    });
    this.#path = {
      table: this.#table,
      transactions: new Transactions(),
      conditions: this.#conditions,
      weather: this.#weather,
      verdicts,
    };
    this.#promises = new LockPromises({
      verdicts,
      now,
      session,
      aheadMsMax: clocksInBound ? lockLimits.graceMs / 2 : clockBoundMs,
      mayGiveUp: (name, holder) => this.#notifying.promises.mayGiveUp(name, holder),
    });
    this.#answers = new AnswerPromises({
      verdicts,
      locks: this.#promises,
      now,
      session,
      pausedMs: (name) => this.#hosts.find(({ process }) => process.name === name)?.process.pausedMs ?? 0,
    });
    this.#beliefs = new Beliefs({ verdicts, locks: this.#promises, strict: clocksInBound });
    this.#notifying = new Notifying({
      time: this.#time,
      chance: this.#chance.branch(),
      conditions: this.#conditions,
      weather: this.#weather,
      verdicts,
      table: this.#table,
      path: this.#path,
      release: () => this.#release,
      locks: this.#promises,
      sockets: () => this.#sockets,
    });
    this.#network = new Network({
      time: this.#time,
      chance: this.#chance.branch(),
      conditions: this.#conditions,
      hosts: () => this.#hosts,
      watcher: {
        sent: (client, call) => {
          const { leaseId } = (call.body ?? {}) as { leaseId?: string };
          this.#noteLease(leaseId);
          const told = this.#histories.sent(client, call);
          this.#socketPromises.heardOf(leaseId);
          return (answer) => {
            this.#socketPromises.heardOf(leaseId);
            told(answer);
          };
        },
        arrived: (cause) => this.#answers.arrived(cause),
        answered: (cause, call, answer) => {
          const { notify } = (call.body ?? {}) as { notify?: Notify };
          if (answer.status >= 500 && cause.arrivedAt >= this.#calmSince)
            this.#verdicts.breach(
              'answers',
              `${cause.operation} was answered ${answer.status} although nothing fails`,
              answer,
            );
          if (notify?.type === 'websocket')
            this.#socketPromises.parked(cause.client, notify.connectionId, answer.status);
          this.#answers.answered(cause, call, answer);
        },
      },
    });
    this.#socketPromises = new SocketPromises({
      time: this.#time,
      verdicts,
      states: () => this.#table.states,
      processOf: (client) => this.#clients.find(({ process }) => process.name === client)?.process,
      skewMsMax: clocksInBound ? lockLimits.graceMs : 2 * clockBoundMs,
    });
    this.#sockets = new Sockets({
      time: this.#time,
      chance: this.#chance.branch(),
      conditions: this.#conditions,
      weather: this.#weather,
      verdicts,
      hosts: () => this.#hosts,
      watcher: this.#socketPromises,
    });
  }

  /** The phases of the world: faults, recovery, no faults, the end of all work, an idle month, and use after it. */
  async run(): Promise<Report> {
    const { hosts, clients, chaosMs, clocksInBound } = this.#conditions;
    for (let index = 0; index < hosts; index++) this.#startHost();
    this.#notifying.begin();
    for (let index = 0; index < clients; index++) this.#startClient();
    this.#collectAgain();
    const calamities = new Calamities(this.#stage(), this.#chance.branch());
    calamities.begin();
    await this.#pass(chaosMs);
    calamities.end();
    await this.#pass(healingMs);
    this.#calmSince = this.#time.now();
    this.#socketPromises.calmSince = this.#calmSince;
    this.#watchForForgotten();
    // Even without faults a waiter may die, and the waiters behind it must not wait for it.
    for (let deaths = 0; deaths < 2; deaths++) {
      const client = this.#anyWhoWaits();
      if (client === undefined) break;
      client.process.kill();
      this.#startClient();
      await this.#pass(calmMs / 2);
    }
    await this.#endWork();
    this.#histories.check(this.#verdicts, clocksInBound ? lockLimits.graceMs : Number.POSITIVE_INFINITY);
    await this.#night();
    return this.#report();
  }

  lockWritten(write: LockWrite): void {
    const { name, before, after } = write;
    this.#verdicts.count('lock writes');
    this.#promises.written(write);
    this.#answers.checkEvents(name, eventsBetween(before, after));
    if (after.fence > before.fence) this.#beliefs.check(name);
    if (write.stored.kind === 'lock') this.#showOnStream(write);
    else this.#verdicts.count('page writes');
    if (write.byExpression) this.#checkRules(write);
    this.#histories.lockWritten(write);
    this.#socketPromises.written(write);
  }

  /** The rules are the oracle of the expressions. */
  #checkRules(write: LockWrite): void {
    const { name, stored, cause } = write;
    this.#verdicts.count('writes compared with the rules');
    const broken = brokenRule(write, { sizes: this.#conditions.sizes, pages: this.#table.pagesOf(name) });
    if (broken === undefined) return;
    const { operation, leaseId, host } = cause;
    this.#verdicts.breach('rules', `${name}: ${broken}`, { cause: { operation, leaseId, host }, ...stored });
  }

  #noteLease(leaseId: string | undefined): void {
    if (leaseId === undefined || this.#named.has(leaseId)) return;
    this.#named.add(leaseId);
    this.#leases.set(leaseNameOf(leaseId), leaseId);
  }

  changed(...[record, write]: Parameters<TableWatcher['changed']>): void {
    this.#notifying.changed(record, write);
  }

  refusedAsInvalid(message: string, request: object, { operation }: Cause): void {
    this.#verdicts.breach('requests', `${operation} sent a request that is not valid: ${message}`, request);
  }

  writtenUnknown(key: string, { host, operation }: Cause): void {
    this.#verdicts.breach('releases', `${key}: ${host}, an older release, wrote to it (${operation})`);
  }

  unreadable(key: string, error: unknown, item: Item): void {
    this.#verdicts.breach('readable', `${key}: ${String(error)}`, item);
  }

  /** The table deletes only what nobody holds or waits for. */
  lockCollected(name: string, last: LockState): void {
    this.#verdicts.count('locks collected');
    const now = this.#time.now();
    const isHeld = last.holders.some(({ expiresAt, sessionId = '' }) =>
      expiresAt === null ? this.#table.sessionStates.get(sessionId)?.ended === undefined : expiresAt > now,
    );
    if (isHeld || last.queue.some(({ deadlineAt }) => deadlineAt > now))
      this.#verdicts.breach('collection', `${name} was deleted while it was held or awaited`, last);
    this.#promises.collected(name);
  }

  sessionWritten(...change: Parameters<TableWatcher['sessionWritten']>): void {
    this.#answers.sessionWritten(...change);
  }

  deliveryMarked(name: string, fence: number): void {
    this.#notifying.promises.noted(name, fence);
  }

  recordWritten(...[key, before, after]: Parameters<TableWatcher['recordWritten']>): void {
    this.#verdicts.count('record writes');
    if (after.version !== before.version + 1)
      this.#verdicts.breach('records', `${key}: version ${before.version} became ${after.version}`, { before, after });
    if ((after.floor ?? 0) < (before.floor ?? 0))
      this.#verdicts.breach('records', `${key}: the floor fell from ${before.floor} to ${after.floor}`, {
        before,
        after,
      });
  }

  #pass(ms: number): Promise<void> {
    return this.#time.passUntil(this.#time.now() + ms, () => this.#verdicts.breaches.length > 0);
  }

  #stage() {
    return {
      time: this.#time,
      conditions: this.#conditions,
      network: this.#network,
      sockets: this.#sockets,
      weather: this.#weather,
      verdicts: this.#verdicts,
      hosts: () => this.#hosts,
      clients: () => this.#clients,
      notifiers: () => this.#notifying.notifiers,
      startHost: () => this.#startHost(),
      startClient: () => this.#startClient(),
      startNotifier: () => this.#notifying.start(),
      replay: () => this.#notifying.replay(),
      deploy: (release: Release) => {
        this.#release = release;
      },
    };
  }

  #startHost(): void {
    const chance = this.#chance.branch();
    const { waiting, clockBoundMs: boundMs } = this.#conditions;
    const offsetMs = chance.between(-boundMs, boundMs);
    const clock = new DriftingClock(this.#time, {
      boundMs: Math.max(boundMs, 125),
      offsetMs,
      ratePpm: chance.between(-100, 100),
    });
    this.#hosts.push(
      new Host({
        name: `host${this.#hosts.length + 1}`,
        time: this.#time,
        clock,
        chance,
        waiting: waiting === 'mixed' ? chance.pick(['notified', 'polled']) : waiting,
        release: this.#release,
        path: this.#path,
        ...(this.#notifying.isThere ? { outside: this.#notifying.outside } : {}),
      }),
    );
  }

  #startClient(): void {
    if (this.#over) return;
    const chance = this.#chance.branch();
    const sockets = this.#notifying.isThere ? this.#sockets : undefined;
    const client = new Client(this.#time, `client${this.#clients.length + 1}`, chance, this.#network, sockets);
    const traffic = new Traffic(client, {
      time: this.#time,
      chance: chance.branch(),
      verdicts: this.#verdicts,
      beliefs: this.#beliefs,
      resources: this.#resources,
      ...(this.#notifying.isThere ? { outside: this.#notifying.outside } : {}),
      sockets: this.#socketPromises,
      isOver: () => this.#over,
    });
    this.#clients.push(client);
    this.#traffic.push(traffic);
    traffic.run().catch((error: unknown) => {
      this.#verdicts.breach('traffic', `${client.process.name} met what it should not: ${String(error)}`, error);
    });
  }

  /** Each change reaches each host once at least: later, perhaps twice, perhaps out of order. */
  #showOnStream({ name, isOfNewerLayout, asKnown: state }: LockWrite): void {
    const chance = this.#chance;
    for (const host of this.#hosts) {
      if (isOfNewerLayout && host.release === 'this') continue;
      const copies = chance.happens(0.1) ? 2 : 1;
      for (let copy = 0; copy < copies; copy++) {
        this.#time.after(chance.longTailed(100, this.#weather.calm ? 600 : 5_000), () => host.show(name, 'sim', state));
      }
    }
  }

  /** Without faults, the first waiter of a free lock gets it soon. */
  #watchForForgotten(): void {
    for (const [name, state] of this.#table.states) {
      const waits = this.#couldBeGranted(state);
      const since = this.#freeSince.get(name);
      if (!waits) this.#freeSince.delete(name);
      else if (since?.fence !== state.fence) this.#freeSince.set(name, { fence: state.fence, at: this.#time.now() });
      else if (this.#time.now() - since.at > this.#wakeMs(name, state, since.at))
        this.#verdicts.breach('one wake-up', `${name} is free and its first waiter was forgotten`, state);
    }
    this.#notifying.checkSoon(this.#calmSince);
    if (this.#time.now() < this.#calmSince + watchMs) this.#time.after(100, () => this.#watchForForgotten());
  }

  /**
   * A polling waiter looks itself. For a parked one there is a timer, and if that was lost, the schedule. The waiter that was first
   * when the lock became free may be gone by now. Then another one is next.
   */
  #wakeMs(name: string, { queue }: LockState, since: number): number {
    const isParked = [since, this.#time.now()].some((instant) => {
      const first = queue.find(({ presentUntil }) => presentUntil > this.#slowest(instant));
      return first?.notify !== undefined;
    });
    return isParked ? this.#notifying.patienceMs(name, since, wakeMsMax) : wakeMsMax;
  }

  /** A client that is parked on a connection, if there is one: the service must notice its death. */
  #anyWhoWaits(): Client | undefined {
    const running = this.#clients.filter(({ process }) => process.isAlive);
    const waiters = [...this.#table.states.values()].flatMap(({ queue }) => queue);
    const parked = waiters.filter(({ notify }) => notify?.type === 'websocket').map(({ owner }) => owner);
    return running.find(({ process }) => parked.includes(process.name)) ?? running[0];
  }

  /** By the slowest clock that a host may have. */
  #couldBeGranted(state: LockState): boolean {
    const now = epochMs(this.#slowest(this.#time.now()));
    const ids = [...state.holders, ...state.queue].flatMap(({ sessionId }) =>
      sessionId === undefined ? [] : [sessionId],
    );
    const sessions = new Map(ids.map((id) => [id, sessionFactOf(this.#table.sessionStates.get(id))]));
    const facts = { now, graceMs: lockLimits.graceMs, sessions };
    // If nobody is behind a waiter, it may be granted only when it asks again. It counts here only while it asks.
    return decide(state, { kind: 'sweep' }, facts).next.fence > state.fence;
  }

  #slowest(instant: number): number {
    return instant - Math.max(lockLimits.graceMs, this.#conditions.clockBoundMs);
  }

  async #endWork(): Promise<void> {
    this.#over = true;
    await this.#pass(endingMs);
    for (const [index, { done, doing }] of this.#traffic.entries()) {
      const { process } = this.#clients[index] as Client;
      if (process.isAlive && !done && this.#verdicts.breaches.length === 0)
        this.#verdicts.breach('bounded', `${process.name} never ended: ${doing}`);
    }
    await this.#notifying.checkAll();
    for (const [name, resource] of this.#resources) {
      if (resource.lostWhenFenced !== 0)
        this.#verdicts.breach('fences protect', `${name}: ${resource.lostWhenFenced} acknowledged updates were lost`);
    }
  }

  /** A month passes, idle items are deleted, and the locks are used again. Their fences must still rise. */
  async #night(): Promise<void> {
    if (this.#verdicts.breaches.length > 0) return;
    this.#notifying.sleep();
    await this.#pass(retentionMsDefault + 86_400_000);
    // TTL is late: some items are gone by now, and others are still there.
    const lastDayMs = 86_400_000;
    this.#table.collect(this.#chance.happens(0.5) ? 0 : lastDayMs + this.#chance.between(0, endingMs + calmMs));
    this.#notifying.wake();
    this.#over = false;
    this.#startClient();
    this.#startClient();
    await this.#pass(15_000);
    await this.#endWork();
  }

  /** TTL deletes what is over, such as tickets, while everything runs. */
  #collectAgain(): void {
    this.#table.collect();
    if (!this.#over) this.#time.after(collectEveryMs, () => this.#collectAgain());
  }

  #report(): Report {
    const resources = [...this.#resources.values()];
    return {
      seed: this.#seed,
      conditions: this.#conditions,
      breach: this.#verdicts.breaches[0],
      counts: this.#verdicts.counts,
      steps: this.#time.steps,
      lost: {
        fenced: resources.reduce((sum, { lostWhenFenced }) => sum + lostWhenFenced, 0),
        bare: resources.reduce((sum, { lostWhenBare }) => sum + lostWhenBare, 0),
      },
    };
  }
}

export const simulate = (seed: number, conditions?: Partial<Conditions>): Promise<Report> =>
  new World(seed, conditions).run();

/** What to run to see it again. */
export const replayCommand = (seed: number): string =>
  `HOLDFAST_SEED=${seed} npx vitest run --config test/vitest.config.ts --project simulation`;
