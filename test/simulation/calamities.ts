import { lockLimits } from '../../src/lock/limits.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from './chance.ts';
import type { Client } from './client.ts';
import type { Conditions } from './conditions.ts';
import type { Host } from './host.ts';
import type { Network } from './network.ts';
import type { NotifierHost } from './notifier-host.ts';
import type { Process } from './process.ts';
import type { Release } from './release.ts';
import type { Sockets } from './sockets.ts';
import type { StoreWeather } from './table-path.ts';
import type { Verdicts } from './verdicts.ts';

export interface Stage {
  readonly time: VirtualTime;
  readonly conditions: Conditions;
  readonly network: Network;
  readonly sockets: Sockets;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  readonly hosts: () => readonly Host[];
  readonly clients: () => readonly Client[];
  readonly notifiers: () => readonly NotifierHost[];
  startHost(): void;
  startClient(): void;
  startNotifier(): void;
  /** The stream goes back to what it showed before. */
  replay(): void;
  /** What is started from now on is of this release. */
  deploy(release: Release): void;
}

type Victim = { readonly process: Process } | undefined;

/** Faults of whole processes, one after the other, until the phase of faults ends. */
export class Calamities {
  readonly #stage: Stage;
  readonly #chance: Chance;
  #over = false;
  /** True if a newer release has run, so that older ones can't read all items. */
  #wasDeployed = false;

  constructor(stage: Stage, chance: Chance) {
    this.#stage = stage;
    this.#chance = chance;
  }

  begin(): void {
    const { time, conditions } = this.#stage;
    if (!Number.isFinite(conditions.calamityEveryMs)) return;
    time.after(this.#chance.longTailed(conditions.calamityEveryMs, 60_000), () => {
      if (this.#over) return;
      const kinds = conditions.newerRelease ? [...this.#kinds, ...this.#deployments] : this.#kinds;
      const [name, befall] = this.#chance.pick(kinds);
      this.#stage.verdicts.count(`calamity: ${name}`);
      befall();
      this.begin();
    });
  }

  /** Everything that was paused goes on, and no new faults happen. */
  end(): void {
    this.#over = true;
    const { network, sockets, weather, hosts, clients, notifiers } = this.#stage;
    network.calm = true;
    network.cutOff.clear();
    weather.outage = false;
    weather.outsideAway = false;
    weather.calm = true;
    sockets.heal();
    for (const { process } of [...hosts(), ...clients(), ...notifiers()]) process.resume();
    if (this.#wasDeployed) this.#finishDeployment();
  }

  readonly #kinds: readonly [string, () => void][] = [
    ['a host pauses', () => this.#pause(this.#anyHost())],
    ['a client pauses', () => this.#pause(this.#anyClient())],
    ['a client pauses', () => this.#pause(this.#anyClient())],
    ['a host dies', () => this.#kill(this.#anyHost(), () => this.#stage.startHost())],
    ['a client dies', () => this.#kill(this.#anyClient(), () => this.#stage.startClient())],
    ['a client is cut off', () => this.#cutOff(this.#anyClient())],
    ['the store is away', () => this.#takeStoreAway()],
    ['a clock jumps', () => this.#jumpClock(this.#anyHost())],
    ['a notifier pauses', () => this.#pause(this.#anyNotifier())],
    ['a notifier dies', () => this.#kill(this.#anyNotifier(), () => this.#stage.startNotifier())],
    ["a notifier's clock jumps", () => this.#jumpClock(this.#anyNotifier())],
    ['the stream is replayed', () => this.#stage.replay()],
    ['the outside is away', () => this.#takeOutsideAway()],
    ['a wall clock is set', () => this.#anyClient()?.setWall(this.#chance.pick([0, -60_000, 5_000, 3_600_000]))],
  ];

  readonly #deployments: readonly [string, () => void][] = [
    ['a newer release is deployed', () => this.#deploy('newer')],
    ['a newer release is deployed', () => this.#deploy('newer')],
    ['a release is rolled back', () => this.#deploy('this')],
  ];

  /** One process is replaced now, and the others whenever they start again. */
  #deploy(release: Release): void {
    const { hosts, notifiers, startHost, startNotifier, deploy } = this.#stage;
    deploy(release);
    if (release === 'newer') this.#wasDeployed = true;
    const host = this.#anyOf(hosts().filter((one) => one.release !== release));
    if (host !== undefined) this.#kill(host, startHost);
    const notifier = this.#anyOf(notifiers().filter((one) => one.release !== release));
    if (host === undefined || this.#chance.happens(0.3)) this.#kill(notifier, startNotifier);
  }

  /** In the end the newer release runs everywhere: an older one can't read what it wrote. */
  #finishDeployment(): void {
    const { hosts, notifiers, startHost, startNotifier, deploy } = this.#stage;
    deploy('newer');
    const older = ({ release, process }: Host | NotifierHost) => process.isAlive && release === 'this';
    for (const host of hosts().filter(older)) this.#kill(host, startHost);
    for (const notifier of notifiers().filter(older)) this.#kill(notifier, startNotifier);
  }

  #anyHost = (): Host | undefined => this.#anyOf(this.#stage.hosts());
  #anyClient = (): Client | undefined => this.#anyOf(this.#stage.clients());
  #anyNotifier = (): NotifierHost | undefined => this.#anyOf(this.#stage.notifiers());

  #anyOf<T extends { readonly process: Process }>(all: readonly T[]): T | undefined {
    const running = all.filter(({ process }) => process.isAlive);
    return running.length === 0 ? undefined : this.#chance.pick(running);
  }

  /** Often longer than a lease, sometimes longer than a waiter may be absent. */
  #pause(victim: Victim): void {
    if (victim === undefined) return;
    victim.process.pause();
    this.#stage.time.after(this.#chance.longTailed(2_500, 20_000), () => victim.process.resume());
  }

  #kill(victim: Victim, restart: () => void): void {
    if (victim === undefined) return;
    victim.process.kill();
    this.#stage.time.after(this.#chance.longTailed(1_000, 8_000), restart);
  }

  #cutOff(victim: Client | undefined): void {
    if (victim === undefined) return;
    const { network, sockets, time } = this.#stage;
    const { name } = victim.process;
    network.cutOff.add(name);
    sockets.cutOff(name);
    time.after(this.#chance.longTailed(3_000, 15_000), () => network.cutOff.delete(name));
  }

  #takeStoreAway(): void {
    const { weather, time } = this.#stage;
    weather.outage = true;
    time.after(this.#chance.longTailed(1_500, 8_000), () => {
      weather.outage = false;
    });
  }

  /** Mostly shorter than a record is retried, sometimes so long that the record is given up. */
  #takeOutsideAway(): void {
    const { weather, time } = this.#stage;
    weather.outsideAway = true;
    time.after(this.#chance.longTailed(2_500, 20_000), () => {
      weather.outsideAway = false;
    });
  }

  #jumpClock(host: Host | NotifierHost | undefined): void {
    const { conditions } = this.#stage;
    const within = conditions.clocksInBound ? lockLimits.graceMs / 2 : conditions.clockBoundMs;
    host?.clock.jumpTo(this.#chance.between(-within, within));
  }
}
