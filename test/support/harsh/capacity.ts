/** The units that one item may use in a second: DynamoDB's own limits for a partition. */
export const unitsPerSecond = { write: 1_000, read: 3_000 } as const;

export type UnitKind = keyof typeof unitsPerSecond;

export interface Used {
  readonly write: number;
  readonly read: number;
  readonly throttled: number;
}

interface Bucket {
  left: number;
  filledAt: number;
}

/** Counts the units of each item, and knows when those of a second are used up. */
export class Capacity {
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();
  readonly #used = new Map<string, Used>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** True if this many units are left for the item. If not, the request counts as throttled. */
  allows(kind: UnitKind, itemId: string, units: number): boolean {
    const allowed = this.#bucketOf(kind, itemId).left >= Math.min(units, unitsPerSecond[kind]);
    if (!allowed) this.#count(itemId, ({ throttled, ...rest }) => ({ ...rest, throttled: throttled + 1 }));
    return allowed;
  }

  /** A request may use more units than were left. The next one then waits longer. */
  use(kind: UnitKind, itemId: string, units: number): void {
    this.#bucketOf(kind, itemId).left -= units;
    this.#count(itemId, (used) => ({ ...used, [kind]: used[kind] + units }));
  }

  /** How many requests were throttled because the units of an item were used up. */
  get throttled(): number {
    return [...this.#used.values()].reduce((sum, { throttled }) => sum + throttled, 0);
  }

  usedBy(itemId: string): Used {
    return this.#used.get(itemId) ?? { write: 0, read: 0, throttled: 0 };
  }

  #bucketOf(kind: UnitKind, itemId: string): Bucket {
    const perSecond = unitsPerSecond[kind];
    const now = this.#now();
    const id = `${kind} ${itemId}`;
    const { left, filledAt } = this.#buckets.get(id) ?? { left: perSecond, filledAt: now };
    const bucket = { left: Math.min(perSecond, left + ((now - filledAt) * perSecond) / 1_000), filledAt: now };
    this.#buckets.set(id, bucket);
    return bucket;
  }

  #count(itemId: string, change: (used: Used) => Used): void {
    this.#used.set(itemId, change(this.usedBy(itemId)));
  }
}
