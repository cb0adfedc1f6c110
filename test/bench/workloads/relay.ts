import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { type Contestant, type Holding, type Place, type Terms, usualTerms } from '../contestant.ts';
import { type Bounds, pauseMs } from '../measure.ts';

/** A waiter and its identity: the same one comes back again and again. */
interface Waiter {
  readonly who: number;
  readonly place: Place;
}

interface Grant {
  readonly waiter: Waiter;
  readonly holding: Holding;
  readonly at: number;
}

export interface Paced {
  /** From the call of release to the moment at which a waiter has its answer. */
  readonly times: readonly number[];
  readonly inversions: number;
}

export interface Run {
  readonly handOffs: number;
  readonly tookMs: number;
  /** Releases that failed: a store under too much load, or a fault. */
  readonly failed: number;
}

/** So many who only poll come in the same millisecond, spread over the time in which each of them asks once. */
const arrivalsPerMs = 4;
/** However slow it is, so many hand-offs are waited for. */
const roundsMin = 3;
/** Two hundred arrivals, one after the other, on a machine that others use, too. */
const filledWithinMs = 30_000;
/** A queue that has not grown by then will not. */
const queuedWithinMs = 5_000;
/** After that the rest leave all at once, which takes long, but nobody waits for it. */
const emptiedWithinMs = 15_000;
/** Nobody is granted any more: the cell is given up, and says how many it saw. */
const grantWithinMs = 4_000;

/** One lock that is passed on among a number of waiters: the holder gives it back and joins again, at the end. */
export class Relay {
  readonly #contestant: Contestant;
  readonly #name = randomUUID();
  readonly #terms: Terms;
  /** Those who wait, in the order in which they came. */
  readonly #waiters: Waiter[] = [];
  #onGrant: (grant: Grant) => void = () => {};
  #holder: Holding | undefined;
  /** Who holds, or held last. */
  #holderIs = 0;

  constructor(contestant: Contestant) {
    this.#contestant = contestant;
    const leaseMs = contestant.contendedLeaseMs ?? usualTerms.leaseMs;
    // A short lease must be kept up, or the hand-off would be an expiry.
    this.#terms = { leaseMs, renew: contestant.contendedLeaseMs !== undefined };
  }

  /**
   * Takes the lock and lets so many wait for it, one after the other, so that their order is known. False if the store can't handle so many: some
   * are dropped, or it takes too long.
   */
  async fill(waiters: number): Promise<boolean> {
    this.#holder = await this.#contestant.take(this.#name, this.#terms);
    const endsAt = performance.now() + filledWithinMs;
    for (let who = 1; who <= waiters; who++) {
      this.#join(who);
      if (!(await this.#settle()) || performance.now() > endsAt) return false;
    }
    return true;
  }

  /** Passes the lock on again and again, each time with everybody settled: what is timed competes with no arrival. */
  async pass({ roundsMax, budgetMs }: Bounds, between: () => Promise<unknown> = async () => {}): Promise<Paced> {
    const times: number[] = [];
    let inversions = 0;
    const endsAt = performance.now() + budgetMs;
    const goesOn = () => times.length < roundsMin || (times.length < roundsMax && performance.now() < endsAt);
    while (this.#holder !== undefined && goesOn()) {
      await between();
      const granted = this.#nextGrant();
      const startedAt = performance.now();
      const released = this.#holder.release();
      const grant = await granted;
      await released.catch(() => undefined);
      this.#holder = grant?.holding;
      if (grant === undefined) break;
      times.push(grant.at - startedAt);
      if (this.#remove(grant.waiter) > 0) inversions += 1;
      this.#join(this.#holderIs);
      this.#holderIs = grant.waiter.who;
      if (!(await this.#settle())) break;
    }
    return { times, inversions };
  }

  /** Everybody gives back at once what it gets, and comes back when the next one has it: how many hand-offs that makes. */
  async run(budgetMs: number, over: () => void | Promise<void> = () => {}): Promise<Run> {
    let handOffs = 0;
    let failed = 0;
    const releasing = new Set<Promise<unknown>>();
    this.#onGrant = ({ waiter, holding }) => {
      this.#remove(waiter);
      handOffs += 1;
      // Not before: without a queue, a caller that asks again at once may get it again, and that is no hand-off.
      this.#join(this.#holderIs);
      this.#holderIs = waiter.who;
      const released = holding
        .release()
        .catch(() => {
          failed += 1;
        })
        .finally(() => releasing.delete(released));
      releasing.add(released);
    };
    const startedAt = performance.now();
    await this.#holder?.release();
    this.#holder = undefined;
    await pauseMs(budgetMs);
    const tookMs = performance.now() - startedAt;
    const seen = handOffs;
    await over();
    await this.empty();
    await Promise.all(releasing);
    return { handOffs: seen, tookMs, failed };
  }

  /**
   * Ends it from both sides: a granted waiter releases and goes, and the others leave one after the other, from the back. Many that leave at
   * once would fight over the lock's item.
   */
  async empty(): Promise<void> {
    this.#onGrant = ({ waiter, holding }) => {
      this.#remove(waiter);
      holding.release().catch(() => undefined);
    };
    // What can't be given back ends by itself, and nobody asks for this lock again.
    await this.#holder?.release().catch(() => undefined);
    this.#holder = undefined;
    const endsAt = performance.now() + emptiedWithinMs;
    const late = setTimeout(emptiedWithinMs, undefined, { ref: false });
    for (let waiter = this.#waiters.pop(); waiter !== undefined; waiter = this.#waiters.pop()) {
      await Promise.race([waiter.place.leave().catch(() => undefined), late]);
    }
    // Our SDK gives up a place in the background; the next cell must not pay for it.
    const { ours, queued } = this.#contestant;
    const stillQueued = async () => ours && queued !== undefined && (await queued(this.#name).catch(() => 0)) > 0;
    while (performance.now() < endsAt && (await stillQueued())) await pauseMs(20);
  }

  #join(who: number): void {
    const waiter = { who, place: this.#contestant.join(this.#name, this.#terms) };
    this.#waiters.push(waiter);
    waiter.place.granted.then(
      (holding) => {
        if (this.#waiters.includes(waiter)) this.#onGrant({ waiter, holding, at: performance.now() });
      },
      // Whoever left has nothing to say; one that failed leaves fewer hand-offs to be seen.
      () => this.#remove(waiter),
    );
  }

  /** Whether all who came are in the queue. */
  async #settle(): Promise<boolean> {
    const { queued } = this.#contestant;
    if (queued === undefined) {
      if (this.#waiters.length % arrivalsPerMs === 0) await pauseMs(1);
      return true;
    }
    const endsAt = performance.now() + queuedWithinMs;
    // A question that can't be answered under so much load is asked again.
    while ((await queued(this.#name).catch(() => 0)) < this.#waiters.length) {
      if (performance.now() > endsAt) return false;
      await pauseMs(1);
    }
    return true;
  }

  #nextGrant(): Promise<Grant | undefined> {
    const granted = new Promise<Grant>((resolve) => {
      this.#onGrant = resolve;
    });
    return Promise.race([granted, setTimeout(grantWithinMs, undefined, { ref: false })]);
  }

  /** Where it stood: 0 had waited longest. */
  #remove(waiter: Waiter): number {
    const index = this.#waiters.indexOf(waiter);
    if (index >= 0) this.#waiters.splice(index, 1);
    return index;
  }
}
