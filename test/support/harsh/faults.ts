import type { Chance } from '../../simulation/chance.ts';

/** What the real service may do, and engines on one machine don't. */
export type Fault =
  /** A read that does not ask for consistency shows an older version. */
  | 'stale-read'
  /** A query of an index shows what it was seconds ago. */
  | 'index-lag'
  /** A batch is done in part; the rest is handed back. */
  | 'unprocessed'
  /** The bytes of an answer arrive in pieces, cut anywhere. */
  | 'split-answer'
  /** Refused for want of capacity, whatever was used. */
  | 'throttle'
  /** A transaction is under way on the same item. */
  | 'conflict'
  /** An internal error before anything was done. */
  | 'error-before'
  /** An internal error after it was done. */
  | 'error-after'
  /** The connection breaks after it was done: with no answer, or in the middle of it. */
  | 'cut-after'
  /** A stream's record can be read later than those of other shards. */
  | 'late-records'
  /** A stream's records are read twice. */
  | 'double-records'
  /** A page of a stream holds fewer records than there are, or none. */
  | 'short-page'
  /** A shard closes, and others follow it. */
  | 'split-shard'
  | 'expired-iterator';

export type Rates = Partial<Record<Fault, number>>;

/** Often enough that a suite meets each many times, rarely enough that three tries in a row seldom fail. */
export const harshRates: Rates = {
  'stale-read': 0.5,
  'index-lag': 0.3,
  unprocessed: 0.3,
  'split-answer': 0.3,
  // The SDK waits for up to a second before it repeats a throttled request: more of them would only make the suites slow.
  throttle: 0.003,
  conflict: 0.02,
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
 * For the suites of the stores themselves, which say what each single call comes to. A write whose answer is lost comes to "perhaps
 * mine", and an index that lags does not list what was just written: both are right, and are tried by suites of their own.
 */
export const transparentRates: Rates = { ...harshRates, 'index-lag': 0, 'error-after': 0, 'cut-after': 0 };

export interface FaultMatch {
  /** Such as `UpdateItem`; any if absent. */
  readonly operation?: string | undefined;
  /** A text that the request holds, such as the name of a lock. */
  readonly holds?: string | undefined;
  /** How often; once if absent. */
  readonly times?: number | undefined;
}

interface Order extends FaultMatch {
  readonly fault: Fault;
  left: number;
}

/** Decides which faults a request meets: those that a test ordered, and others by chance. */
export class Faults {
  readonly #chance: Chance;
  readonly #rates: Rates;
  readonly #orders: Order[] = [];
  readonly counts = new Map<Fault, number>();
  /** Set to let everything pass, except what was ordered. */
  calm = false;

  constructor(chance: Chance, rates: Rates) {
    this.#chance = chance;
    this.#rates = rates;
  }

  order(fault: Fault, match: FaultMatch = {}): void {
    this.#orders.push({ ...match, fault, left: match.times ?? 1 });
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
    // Drawn even while it is calm, so that a calm moment does not shift what follows.
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
    if (order !== undefined) order.left -= 1;
    return order !== undefined;
  }
}
