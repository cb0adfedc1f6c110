import type { Chance } from '../../world/chance.ts';

/** What the real service may do, and local engines do not. */
export type Fault =
  /** A read that does not ask for consistency shows an older version. */
  | 'stale-read'
  /** A query of an index shows its state of some seconds ago. */
  | 'index-lag'
  /** Only a part of a batch is done. The rest is returned as unprocessed. */
  | 'unprocessed'
  /** A query's page ends early, as at one megabyte. The last page may be empty. */
  | 'short-query'
  /** The bytes of an answer arrive in pieces, cut anywhere. */
  | 'split-answer'
  /** Refused as throttled, however much capacity was used. */
  | 'throttle'
  /** Another transaction on the same item is in progress. */
  | 'conflict'
  /** A transaction was sent again with the same token, and the first one is still in progress. */
  | 'in-progress'
  /** An internal error before the request took effect. */
  | 'error-before'
  /** An internal error after the request took effect. */
  | 'error-after'
  /** The connection breaks after the request took effect: before the answer, or in the middle of it. */
  | 'cut-after'
  /** A record of a stream becomes readable later than records of other shards. */
  | 'late-records'
  /** A stream's records are read twice. */
  | 'double-records'
  /** A page of a stream holds fewer records than there are, or none. */
  | 'short-page'
  /** A shard closes, and new shards follow it. */
  | 'split-shard'
  | 'expired-iterator';

export type Rates = Partial<Record<Fault, number>>;

/** Often enough that a suite meets each fault many times, and rarely enough that three tries in a row rarely fail. */
export const harshRates: Rates = {
  'stale-read': 0.5,
  'index-lag': 0.3,
  unprocessed: 0.3,
  'short-query': 0.2,
  'split-answer': 0.3,
  // The SDK waits for up to a second before it repeats a throttled request. More of them would only make the suites
  // slow.
  throttle: 0.003,
  conflict: 0.02,
  'in-progress': 0.3,
  'error-before': 0.01,
  'error-after': 0.02,
  'cut-after': 0.01,
  'late-records': 0.1,
  'double-records': 0.05,
  'short-page': 0.1,
  'split-shard': 0.01,
  'expired-iterator': 0.01,
};

/**
 * For the suites of the stores themselves, which check the result of each single call. A write with a lost answer has
 * an unknown result, and an index that lags does not list the latest write. Both are correct, and other suites test
 * them.
 */
export const transparentRates: Rates = { ...harshRates, 'index-lag': 0, 'error-after': 0, 'cut-after': 0 };

export interface FaultMatch {
  /** Such as `UpdateItem`. If missing, any operation matches. */
  readonly operation?: string | undefined;
  /** A text that the request contains, such as the name of a lock. */
  readonly holds?: string | undefined;
  /** How often. Once if missing. */
  readonly times?: number | undefined;
  /** How many matching requests pass before. None if missing. */
  readonly skip?: number | undefined;
}

interface Order extends FaultMatch {
  readonly fault: Fault;
  left: number;
  toSkip: number;
}

/** Decides which faults a request gets: those that a test ordered, and random ones. */
export class Faults {
  readonly #chance: Chance;
  readonly #rates: Rates;
  readonly #orders: Order[] = [];
  readonly counts = new Map<Fault, number>();
  /** If true, only ordered faults happen. */
  calm = false;

  constructor(chance: Chance, rates: Rates) {
    this.#chance = chance;
    this.#rates = rates;
  }

  order(fault: Fault, match: FaultMatch = {}): void {
    this.#orders.push({ ...match, fault, left: match.times ?? 1, toSkip: match.skip ?? 0 });
  }

  forgetOrders(): void {
    this.#orders.length = 0;
  }

  happens(fault: Fault, operation: string, body = ''): boolean {
    const happens = this.#isOrdered(fault, operation, body) || this.#byChance(fault);
    if (happens) this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
    return happens;
  }

  #byChance(fault: Fault): boolean {
    // A random number is drawn even if it is calm, so that a calm time does not change later random numbers.
    return this.#chance.happens(this.#rates[fault] ?? 0) && !this.calm;
  }

  #isOrdered(fault: Fault, operation: string, body: string): boolean {
    const order = this.#orders.find(
      (each) =>
        each.fault === fault &&
        each.left > 0 &&
        (each.operation === undefined || each.operation === operation) &&
        (each.holds === undefined || body.includes(each.holds)),
    );
    if (order === undefined) return false;
    if (order.toSkip > 0) {
      order.toSkip -= 1;
      return false;
    }
    order.left -= 1;
    return true;
  }
}
