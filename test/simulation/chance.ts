import { seededRandom } from '../../src/testing/virtual-time.ts';

/** All chance of a run, from one seed. Each part of the world takes its own branch, so that one part's draws don't shift another's. */
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

  /** Mostly short, now and then very long: what delays are like. */
  longTailed(typicalMs: number, maxMs: number): number {
    return Math.min(maxMs, Math.ceil(-Math.log(1 - this.#draw()) * typicalMs));
  }
}
