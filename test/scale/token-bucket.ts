/** A rate per second, and a burst, which is the amount of one second by default. The rest may go below zero once. Then nothing is given until it is refilled. */
export class TokenBucket {
  readonly #perSecond: number;
  readonly #most: number;
  #tokens: number;
  #at: number;

  constructor(perSecond: number, now: number, most = perSecond) {
    this.#perSecond = perSecond;
    this.#most = most;
    this.#tokens = most;
    this.#at = now;
  }

  isEmpty(now: number): boolean {
    this.#tokens = Math.min(this.#most, this.#tokens + ((now - this.#at) / 1000) * this.#perSecond);
    this.#at = now;
    return this.#tokens <= 0;
  }

  take(amount: number): void {
    this.#tokens -= amount;
  }
}
