import { seededRandom } from '../../src/testing/virtual-time.ts';

/** All random numbers of a run, from one seed. Each part of the world has its own branch, so the draws of one part don't change those of another. */
export class Chance {
  readonly #draw: () => number;

  constructor(seed: number) {
    this.#draw = seededRandom(seed);
  }

  /** From 0 up to 1. */
  readonly next = (): number => this.#draw();

  branch(): Chance {
    return new Chance(Math.floor(this.#draw() * 2 ** 32));
  }

  happens(probability: number): boolean {
    return this.#draw() < probability;
  }

  between(min: number, max: number): number {
    return Math.floor(min + this.#draw() * (max - min + 1));
  }

  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.#draw() * choices.length)] as T;
  }

  /** Mostly short, and rarely very long, like real delays. */
  longTailed(typicalMs: number, maxMs: number): number {
    return Math.min(maxMs, Math.ceil(-Math.log(1 - this.#draw()) * typicalMs));
  }
}
