import type { LockPromises } from './lock-promises.ts';
import type { Process } from './process.ts';
import type { Verdicts } from './verdicts.ts';

/** A client that believes that it holds a lock, as long as its SDK says so. */
export interface Belief {
  readonly process: Process;
  readonly name: string;
  readonly fence: number;
  readonly permits: number;
  readonly limit: number;
  /** All locks under the same lease: the revocation of one of them may end them all. */
  readonly together: readonly { readonly name: string; readonly fence: number }[];
  isHeld(): boolean;
}

/**
 * Exclusion in time: never do too many clients believe that they hold a lock, each by its own clocks. This holds while clocks
 * differ by no more than the grace. If they differ by more, it may be broken, and it is. Then overlaps are only counted.
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

  /** A client learns late that it was revoked, and a killed process believes nothing. */
  check(name: string): void {
    const beliefs = this.#held.get(name) ?? new Set();
    // After a client knows that a lock is lost, it never believes in it again.
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
 * What a lock protects: a counter that its holders read and then write. `fenced` refuses a fence below the highest that it has
 * seen, and each holder shows its fence before it reads. `bare` relies on the lock alone.
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
