/** A place in the line. */
export interface Turn {
  /** Resolves when the work may begin. It never does if the turn was ended before. */
  readonly ready: Promise<void>;
  /** Ends the work, or leaves the line. Safe to repeat. */
  readonly end: () => void;
}

/** Lets a limited number work at the same time. The others wait for their turn: first come, first served. */
export class Turns {
  readonly #atOnceMax: number;
  /** A set keeps the order, and a place in its middle can be left at once. */
  readonly #line = new Set<() => void>();
  #working = 0;

  constructor(atOnceMax: number) {
    this.#atOnceMax = atOnceMax;
  }

  take(): Turn {
    let begin = () => {};
    let isWorking = false;
    const ready = new Promise<void>((resolve) => {
      begin = () => {
        isWorking = true;
        this.#working += 1;
        resolve();
      };
    });
    this.#line.add(begin);
    this.#admit();
    const end = () => {
      this.#line.delete(begin);
      if (!isWorking) return;
      isWorking = false;
      this.#working -= 1;
      this.#admit();
    };
    return { ready, end };
  }

  #admit(): void {
    const [next] = this.#line;
    if (next === undefined || this.#working >= this.#atOnceMax) return;
    this.#line.delete(next);
    next();
  }
}
