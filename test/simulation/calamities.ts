import { lockLimits } from '../../src/lock/limits.ts';
import type { Chance } from './chance.ts';
import type { Client } from './client.ts';
import type { TrueTime } from './clock.ts';
import type { Conditions } from './conditions.ts';
import type { Host } from './host.ts';
import type { Network } from './network.ts';
import type { StoreWeather } from './store-path.ts';
import type { Verdicts } from './verdicts.ts';

export interface Stage {
  readonly time: TrueTime;
  readonly conditions: Conditions;
  readonly network: Network;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  readonly hosts: () => readonly Host[];
  readonly clients: () => readonly Client[];
  startHost(): void;
  startClient(): void;
}

/** Misfortunes of whole processes, one after the other, for as long as the chaos lasts. */
export class Calamities {
  readonly #stage: Stage;
  readonly #chance: Chance;
  #over = false;

  constructor(stage: Stage, chance: Chance) {
    this.#stage = stage;
    this.#chance = chance;
  }

  begin(): void {
    const { time, conditions } = this.#stage;
    if (!Number.isFinite(conditions.calamityEveryMs)) return;
    time.after(this.#chance.longTailed(conditions.calamityEveryMs, 60_000), () => {
      if (this.#over) return;
      const [name, befall] = this.#chance.pick(this.#kinds);
      this.#stage.verdicts.count(`calamity: ${name}`);
      befall();
      this.begin();
    });
  }

  /** Everything that stood still goes on, and nothing new befalls anybody. */
  end(): void {
    this.#over = true;
    const { network, weather, hosts, clients } = this.#stage;
    network.calm = true;
    network.cutOff.clear();
    weather.outage = false;
    weather.calm = true;
    for (const { process } of [...hosts(), ...clients()]) process.resume();
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
    ['a wall clock is set', () => this.#anyClient()?.setWall(this.#chance.pick([0, -60_000, 5_000, 3_600_000]))],
  ];

  #anyHost(): Host | undefined {
    const running = this.#stage.hosts().filter(({ process }) => process.isAlive);
    return running.length === 0 ? undefined : this.#chance.pick(running);
  }

  #anyClient(): Client | undefined {
    const running = this.#stage.clients().filter(({ process }) => process.isAlive);
    return running.length === 0 ? undefined : this.#chance.pick(running);
  }

  /** Often past a lease, sometimes past the absence that a waiter is allowed. */
  #pause(victim: Host | Client | undefined): void {
    if (victim === undefined) return;
    victim.process.pause();
    this.#stage.time.after(this.#chance.longTailed(2_500, 20_000), () => victim.process.resume());
  }

  #kill(victim: Host | Client | undefined, restart: () => void): void {
    if (victim === undefined) return;
    victim.process.kill();
    this.#stage.time.after(this.#chance.longTailed(1_000, 8_000), restart);
  }

  #cutOff(victim: Client | undefined): void {
    if (victim === undefined) return;
    const { network, time } = this.#stage;
    const { name } = victim.process;
    network.cutOff.add(name);
    time.after(this.#chance.longTailed(3_000, 15_000), () => network.cutOff.delete(name));
  }

  #takeStoreAway(): void {
    const { weather, time } = this.#stage;
    weather.outage = true;
    time.after(this.#chance.longTailed(1_500, 8_000), () => {
      weather.outage = false;
    });
  }

  #jumpClock(host: Host | undefined): void {
    const { conditions } = this.#stage;
    const within = conditions.clocksInBound ? lockLimits.graceMs / 2 : conditions.clockBoundMs;
    host?.clock.jumpTo(this.#chance.between(-within, within));
  }
}
