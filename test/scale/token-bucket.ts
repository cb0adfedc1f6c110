/** So much a second, and a second's worth at once. What is taken may go below zero once; then nothing until it has filled up again. */
export class TokenBucket {
  readonly #perSecond: number;
  #tokens: number;
  #at: number;

  constructor(perSecond: number, now: number) {
    this.#perSecond = perSecond;
    this.#tokens = perSecond;
    this.#at = now;
  }

  isEmpty(now: number): boolean {
    this.#tokens = Math.min(this.#perSecond, this.#tokens + ((now - this.#at) / 1000) * this.#perSecond);
    this.#at = now;
    return this.#tokens <= 0;
  }

  take(amount: number): void {
    this.#tokens -= amount;
  }
}
