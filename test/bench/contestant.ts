/** Whatever keeps locks, seen alike: each contestant is used as its own documentation tells a user to. */

export type StoreId = 'dynamodb' | 'redis' | 'etcd' | 'zookeeper' | 'postgres';

/** What figures are divided by. */
export interface Yardstick {
  /** The smallest write that the store acknowledges, by the client that its users have. */
  singleWrite(key: string): Promise<unknown>;
}

/** A server, and what is measured on it is divided by its own single write. */
export interface Store extends Yardstick {
  readonly id: StoreId;
  /** With its version, as it says itself. */
  readonly name: string;
  /** What an acknowledged write has survived here, and what it has not. */
  readonly durability: string;
  stop(): Promise<void>;
}

export interface Terms {
  readonly leaseMs: number;
  /** Whether the lease is kept up in the background, where the contestant does such a thing. */
  readonly renew: boolean;
}

export interface Holding {
  release(): Promise<unknown>;
}

/** A waiter. */
export interface Place {
  readonly granted: Promise<Holding>;
  /** Gives up waiting; `granted` then never matters again. */
  leave(): Promise<unknown>;
}

export interface Contestant {
  readonly id: string;
  readonly name: string;
  readonly store: StoreId;
  readonly ours: boolean;
  /** Of ours: the table that its single writes go to as well. */
  readonly table?: string;
  /** How it was set up and how it waits, in one line for the report. */
  readonly how: string;
  /** Whether waiters leave the store alone: then single writes can be measured between the hand-offs. */
  readonly waitsQuietly: boolean;
  /** The least that a join, its grant and its release take, in requests: what goes beyond is wasted. */
  readonly requestsMin: number;
  /** For those whose waiters sleep for a whole lease: the shortest that one would dare. */
  readonly contendedLeaseMs?: number;
  /** Absent if a crash does not end a lease by time. */
  readonly crash?: Crash;

  /** Takes a lock that is free. */
  take(name: string, terms: Terms): Promise<Holding>;
  /** Waits for a lock until it is granted. */
  join(name: string, terms: Terms): Place;
  /** Tries once, if the client can. True if it was granted. */
  attempt?(name: string, terms: Terms): Promise<boolean>;
  /** Takes several at once, if the client can. */
  takeAll?(names: readonly string[], terms: Terms): Promise<Holding>;
  /** How many wait, for those who have a queue to look into. */
  queued?(name: string): Promise<number>;
  /** All requests so far, as the client sends them or the server counts them. */
  requests?(): number | Promise<number>;
  stop(): Promise<void>;
}

export interface Crash {
  /** The shortest lease, or what stands for one, that the store takes; null if the connection is what counts. */
  readonly leaseMs: number | null;
  /** Takes the lock and is never heard of again; answers when its last sign of life was, by the clock of `performance`. */
  holdAndDie(name: string): Promise<number>;
}

/**
 * How often a polling client asks: as often as our own direct mode does for its next waiter. Twice as often would halve their hand-off
 * and double their requests.
 */
export const pollMs = 50;

/** Nothing is renewed while something else is measured: ten minutes outlast the whole run. */
export const usualTerms: Terms = { leaseMs: 600_000, renew: false };

/** A place that asks again and again until it is granted or has left. */
export function pollFor(ask: () => Promise<Holding | undefined>): Place {
  let left = false;
  const granted = (async () => {
    for (;;) {
      const holding = await ask();
      if (holding !== undefined) {
        // Granted in the very moment of leaving: nobody else may wait for its lease to end.
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

/** The last sign of life of a holder that renews nothing is its acquire: its lease counts from then at the earliest. */
export async function dieAfter(taking: () => Promise<unknown>): Promise<number> {
  const askedAt = performance.now();
  await taking();
  return askedAt;
}
