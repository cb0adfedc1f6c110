import type { LockPromises } from './lock-promises.ts';
import type { Process } from './process.ts';
import type { Verdicts } from './verdicts.ts';

/** Somebody who believes that it holds a lock, for as long as its SDK tells it so. */
export interface Belief {
  readonly process: Process;
  readonly name: string;
  readonly fence: number;
  readonly permits: number;
  readonly limit: number;
  /** All that is held by the same lease: of several locks, the revocation of one may end them all. */
  readonly together: readonly { readonly name: string; readonly fence: number }[];
  isHeld(): boolean;
}

/**
 * Exclusion in time: those who believe that they hold a lock, each by its own clocks, are never too many. This holds while clocks
 * keep within the grace. Where they don't it may be broken, and is: then it is only counted.
 */
export class Beliefs {
  readonly #verdicts: Verdicts;
  readonly #locks: LockPromises;
  readonly #strict: boolean;
  readonly #held = new Map<string, Set<Belief>>();

  constructor({ verdicts, locks, strict }: { verdicts: Verdicts; locks: LockPromises; strict: boolean }) {
    this.#verdicts = verdicts;
    this.#locks = locks;
    this.#strict = strict;
  }

  begin(belief: Belief): void {
    const beliefs = this.#held.get(belief.name) ?? new Set();
    this.#held.set(belief.name, beliefs.add(belief));
    this.check(belief.name);
  }

  /** Whoever was revoked is told late, and a killed process believes nothing. */
  check(name: string): void {
    const beliefs = this.#held.get(name) ?? new Set();
    // What is lost once is never believed again.
    for (const belief of beliefs) if (!belief.process.isAlive || !belief.isHeld()) beliefs.delete(belief);
    const isRevoked = ({ together }: Belief) => together.some((part) => this.#locks.isRevoked(part.name, part.fence));
    const believers = [...beliefs].filter((belief) => !isRevoked(belief));
    const [first] = believers;
    if (first === undefined) return;
    const permits = believers.reduce((sum, belief) => sum + belief.permits, 0);
    if (permits <= first.limit) return;
    this.#verdicts.count('overlaps in time');
    if (this.#strict) {
      const who = believers.map(({ process, fence }) => `${process.name} (fence ${fence})`).join(' and ');
      this.#verdicts.breach('exclusion in time', `${name}: ${who} believe that they hold it`);
    }
  }
}

/**
 * What a lock protects: a counter that its holders read, then write. `fenced` refuses a fence below the highest that it has seen,
 * and each holder shows its fence before it reads; `bare` trusts the lock alone.
 */
export class Resource {
  #floor = 0;
  #fenced = 0;
  #fencedAcknowledged = 0;
  #bare = 0;
  #bareAcknowledged = 0;

  read(fence: number): { readonly fenced: number | undefined; readonly bare: number } {
    const admitted = fence >= this.#floor;
    if (admitted) this.#floor = fence;
    return { fenced: admitted ? this.#fenced : undefined, bare: this.#bare };
  }

  write(fence: number, { fenced, bare }: { readonly fenced: number | undefined; readonly bare: number }): void {
    this.#bare = bare + 1;
    this.#bareAcknowledged += 1;
    if (fenced === undefined || fence < this.#floor) return;
    this.#floor = fence;
    this.#fenced = fenced + 1;
    this.#fencedAcknowledged += 1;
  }

  get lostWhenFenced(): number {
    return this.#fencedAcknowledged - this.#fenced;
  }

  get lostWhenBare(): number {
    return this.#bareAcknowledged - this.#bare;
  }
}
