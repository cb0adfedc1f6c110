/** One interface for everything that has locks. Each contestant is used as its own documentation says. */

export type StoreId = 'dynamodb' | 'redis' | 'etcd' | 'zookeeper' | 'postgres';

/** Figures are divided by this. */
export interface Yardstick {
  /** The smallest write that the store acknowledges, with the client that its users have. */
  singleWrite(key: string): Promise<unknown>;
}

/** A server. Figures on it are divided by its own single write. */
export interface Store extends Yardstick {
  readonly id: StoreId;
  /** With the version that it reports. */
  readonly name: string;
  /** Which failures an acknowledged write survives here, and which it does not. */
  readonly durability: string;
  stop(): Promise<void>;
}

export interface Terms {
  readonly leaseMs: number;
  /** True if the lease is renewed in the background, if the contestant can do that. */
  readonly renew: boolean;
}

export interface Holding {
  release(): Promise<unknown>;
}

/** A waiter. */
export interface Place {
  readonly granted: Promise<Holding>;
  /** Gives up waiting. After that `granted` is ignored. */
  leave(): Promise<unknown>;
}

export interface Contestant {
  readonly id: string;
  readonly name: string;
  readonly store: StoreId;
  readonly ours: boolean;
  /** For our own contestants: the table, which its single writes use too. */
  readonly table?: string;
  /** How it was set up and how it waits, in one line for the report. */
  readonly how: string;
  /** True if waiters send no requests. Then single writes can be measured between the hand-offs. */
  readonly waitsQuietly: boolean;
  /** The smallest number of requests for a join, its grant and its release. All others are wasted. */
  readonly requestsMin: number;
  /** How long after it joined the server needs until it can notify a waiter, if that is long. */
  readonly settleMs?: number;
  /** If waiters sleep for a whole lease: the shortest reasonable lease. */
  readonly contendedLeaseMs?: number;
  /** Missing if no lease ends by time after a crash. */
  readonly crash?: Crash;

  /** Takes a lock that is free. */
  take(name: string, terms: Terms): Promise<Holding>;
  /** Waits for a lock until it is granted. `who` is the caller, which waits again and again, always in the same process. */
  join(name: string, terms: Terms, who: number): Place;
  /** Tries once, if the client can. True if it was granted. */
  attempt?(name: string, terms: Terms): Promise<boolean>;
  /** Takes several at once, if the client can. */
  takeAll?(names: readonly string[], terms: Terms): Promise<Holding>;
  /** How many wait, if the contestant has a queue that can be read. */
  queued?(name: string): Promise<number>;
  /** The number of requests so far, counted at the client or by the server. */
  requests?(): number | Promise<number>;
  stop(): Promise<void>;
}

export interface Crash {
  /** The shortest lease, or something like a lease, that the store accepts. Null if only the connection counts. */
  readonly leaseMs: number | null;
  /** Takes the lock and never does anything again. Returns the time of its last action, by the clock of `performance`. */
  holdAndDie(name: string): Promise<number>;
}

/**
 * How often a polling client asks: as often as the first waiter in our own direct mode if holds are long. With twice as many polls, a
 * hand-off would take half as long and need twice as many requests.
 */
export const pollMs = 50;

/** Nothing is renewed while something else is measured. Ten minutes are longer than the whole run. */
export const usualTerms: Terms = { leaseMs: 600_000, renew: false };

/** A place that asks again and again until it is granted or has left. */
export function pollFor(ask: () => Promise<Holding | undefined>): Place {
  let left = false;
  const granted = (async () => {
    for (;;) {
      const holding = await ask();
      if (holding !== undefined) {
        // It was granted at the moment of leaving. It releases, so that nobody waits for its lease to end.
        if (left) await holding.release();
        return holding;
      }
      if (left) return { release: async () => {} };
      await new Promise((resolve) => {
        setTimeout(resolve, pollMs * (0.9 + Math.random() * 0.2));
      });
    }
  })();
  return {
    granted,
    leave: async () => {
      left = true;
      await granted;
    },
  };
}

/** If a holder renews nothing, its acquire is its last action. Its lease counts from then at the earliest. */
export async function dieAfter(taking: () => Promise<unknown>): Promise<number> {
  const askedAt = performance.now();
  await taking();
  return askedAt;
}
