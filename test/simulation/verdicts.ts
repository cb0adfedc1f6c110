/** A promise that was not kept, with what is needed to see why. */
export interface Breach {
  readonly promise: string;
  readonly what: string;
  /** True time since the beginning. */
  readonly atMs: number;
  readonly evidence: unknown;
}

/** What a run has shown so far. Only the first breach counts, because later ones may be its consequences. */
export class Verdicts {
  readonly breaches: Breach[] = [];
  readonly counts = new Map<string, number>();
  readonly #passedMs: () => number;

  constructor(passedMs: () => number) {
    this.#passedMs = passedMs;
  }

  breach(promise: string, what: string, evidence?: unknown): void {
    this.breaches.push({ promise, what, atMs: this.#passedMs(), evidence });
  }

  count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by);
  }
}
