import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { type Contestant, type Holding, type Place, type Terms, usualTerms } from '../contestant.ts';
import { type Bounds, pauseMs } from '../measure.ts';

/** A waiter and its identity. The same one joins again and again. */
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
  /** From the call of release to the answer of the next waiter. */
  readonly times: readonly number[];
  readonly inversions: number;
}

export interface Run {
  readonly handOffs: number;
  readonly tookMs: number;
  /** Releases that failed: a store under too much load, or a fault. */
  readonly failed: number;
}

/** Polling waiters start at this rate, so that their polls are spread over time. */
const arrivalsPerMs = 4;
/** At least this many hand-offs are measured, even if they are slow. */
const roundsMin = 3;
/** The time for two hundred joins, one after the other, on a machine that others use too. */
const filledWithinMs = 30_000;
/** If the queue has not grown after this time, it will not grow any more. */
const queuedWithinMs = 5_000;
/** After this time the other waiters leave all at once. That takes long, but nobody waits for it. */
const emptiedWithinMs = 15_000;
/** If nobody is granted in this time, the cell is given up and reports the hand-offs so far. */
const grantWithinMs = 4_000;

/** One lock that is passed on among a number of waiters. The holder releases and joins again at the end. */
export class Relay {
  readonly #contestant: Contestant;
  readonly #name = randomUUID();
  readonly #terms: Terms;
  /** The waiters, in the order of arrival. */
  readonly #waiters: Waiter[] = [];
  #onGrant: (grant: Grant) => void = () => {};
  #holder: Holding | undefined;
  /** The current or last holder. */
  #holderIs = 0;

  constructor(contestant: Contestant) {
    this.#contestant = contestant;
    const leaseMs = contestant.contendedLeaseMs ?? usualTerms.leaseMs;
    // A short lease must be renewed. Otherwise it would expire before the hand-off.
    this.#terms = { leaseMs, renew: contestant.contendedLeaseMs !== undefined };
  }

  /**
   * Takes the lock and adds this many waiters, one after the other, so that their order is known. False if the store can't handle so many:
   * some are dropped, or it takes too long.
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

  /** Passes the lock on again and again. Each time all waiters have joined, so no arrival runs during the measurement. */
  async pass({ roundsMax, budgetMs }: Bounds, between: () => Promise<unknown> = async () => {}): Promise<Paced> {
    const times: number[] = [];
    let inversions = 0;
    const { settleMs = 0 } = this.#contestant;
    // The pauses are not measured, so they do not use up the budget.
    let endsAt = performance.now() + budgetMs;
    const goesOn = () => times.length < roundsMin || (times.length < roundsMax && performance.now() < endsAt);
    while (this.#holder !== undefined && goesOn()) {
      if (settleMs > 0) await pauseMs(settleMs);
      endsAt += settleMs;
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

  /** Every holder releases at once, and joins again when the next one has the lock. Counts the hand-offs. */
  async run(budgetMs: number, over: () => void | Promise<void> = () => {}): Promise<Run> {
    let handOffs = 0;
    let failed = 0;
    const releasing = new Set<Promise<unknown>>();
    this.#onGrant = ({ waiter, holding }) => {
      this.#remove(waiter);
      handOffs += 1;
      // Not earlier: without a queue, the caller could get the lock again at once, and that is no hand-off.
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
   * Ends it from both sides. A granted waiter releases and leaves, and the others leave one after the other, from the back. If many left at
   * once, their writes to the lock's item would conflict.
   */
  async empty(): Promise<void> {
    this.#onGrant = ({ waiter, holding }) => {
      this.#remove(waiter);
      holding.release().catch(() => undefined);
    };
    // If the release fails, the lease ends by itself, and nobody uses this lock again.
    await this.#holder?.release().catch(() => undefined);
    this.#holder = undefined;
    const endsAt = performance.now() + emptiedWithinMs;
    const late = setTimeout(emptiedWithinMs, undefined, { ref: false });
    for (let waiter = this.#waiters.pop(); waiter !== undefined; waiter = this.#waiters.pop()) {
      await Promise.race([waiter.place.leave().catch(() => undefined), late]);
    }
    // Our SDK gives up a place in the background. The next cell must not be slowed by that.
    const { ours, queued } = this.#contestant;
    const stillQueued = async () => ours && queued !== undefined && (await queued(this.#name).catch(() => 0)) > 0;
    while (performance.now() < endsAt && (await stillQueued())) await pauseMs(20);
  }

  #join(who: number): void {
    const waiter = { who, place: this.#contestant.join(this.#name, this.#terms, who) };
    this.#waiters.push(waiter);
    waiter.place.granted.then(
      (holding) => {
        if (this.#waiters.includes(waiter)) this.#onGrant({ waiter, holding, at: performance.now() });
      },
      // A waiter that left may fail. If another one fails, there are fewer hand-offs.
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
