import type { Holdfast } from '../../src/client/holdfast.ts';
import type { ScaleWorld } from './world.ts';

/** How long holders hold. It is short, so that the lock itself is the bottleneck. */
const holdMs = 50;
/** The default of the service. It is much longer than a hold, so no lease ends in between. */
const leaseMs = 30_000;

/** One grant as its holder saw it. */
export interface Held {
  readonly fence: number;
  readonly grantedAt: number;
  /** When the holder called release. */
  readonly releasedAt: number;
}

/** Clients that take one lock, again and again. It keeps every grant, so a lost or a double grant is noticed. */
export class Fleet {
  readonly #world: ScaleWorld;
  readonly #lock: string;
  readonly grants: Held[] = [];
  failures = 0;
  isOver = false;

  constructor(world: ScaleWorld, lock: string) {
    this.#world = world;
    this.#lock = lock;
  }

  /** The clients start within the given time. */
  start(clients: readonly Holdfast[], withinMs: number): void {
    const { chance } = this.#world;
    for (const client of clients) {
      void this.#world.pause(chance.next() * withinMs).then(() => this.#work(client));
    }
  }

  /** The times from each release until the next holder knows of its grant. */
  handOffMs(sinceMs = 0): number[] {
    const delays: number[] = [];
    for (let index = 1; index < this.grants.length; index++) {
      const [before, after] = [this.grants[index - 1] as Held, this.grants[index] as Held];
      if (before.releasedAt >= sinceMs) delays.push(after.grantedAt - before.releasedAt);
    }
    return delays;
  }

  grantsSince(instant: number): number {
    return this.grants.filter(({ grantedAt }) => grantedAt >= instant).length;
  }

  /** Throws if a fence did not rise, or if two held the lock at the same time. */
  check(): void {
    const byFence = this.grants.toSorted((one, other) => one.fence - other.fence);
    byFence.forEach((held, index) => {
      const before = byFence[index - 1];
      if (before === undefined) return;
      if (held.fence === before.fence) throw new Error(`The fence ${held.fence} was granted twice.`);
      if (held.grantedAt < before.releasedAt) throw new Error(`Two held ${this.#lock} at once: ${held.fence}.`);
    });
  }

  async #work(client: Holdfast): Promise<void> {
    const { time } = this.#world;
    while (!this.isOver) {
      const held = await client.acquire(this.#lock, { leaseMs, waitMs: 900_000 }).catch(() => undefined);
      if (held === undefined) {
        this.failures += 1;
        await this.#world.pause(1_000);
        continue;
      }
      const grantedAt = time.now();
      await this.#world.pause(holdMs);
      this.grants.push({ fence: held.fence, grantedAt, releasedAt: time.now() });
      await held.release().catch(() => {
        this.failures += 1;
      });
    }
  }
}
