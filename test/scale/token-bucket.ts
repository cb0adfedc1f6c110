/** So much a second, and so much at once: a second's worth unless said otherwise. What is taken may go below zero once; then nothing until it has filled up again. */
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
