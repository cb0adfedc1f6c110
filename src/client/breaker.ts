import { elapsedMs, type Mark, markNow, type Runtime } from './runtime.ts';

export interface BreakerOptions {
  /** Failures in a row after which it opens. Five are more than bad luck: each has already waited for an answer. */
  readonly failuresMax?: number;
  /** How long nothing is sent, until one probe may pass. Long enough to let a service restart, short enough to notice. */
  readonly openMs?: number;
}

/**
 * Keeps a client from hammering a service that is away. Closed, everything passes; after some failures in a row it opens and
 * callers fail at once; after a while it is half open and lets one request through, whose fate decides.
 */
export class Breaker {
  readonly #runtime: Runtime;
  readonly #failuresMax: number;
  readonly #openMs: number;
  readonly #changed: (state: 'open' | 'closed') => void;
  #failures = 0;
  #openedAt: Mark | undefined;
  #probedAt: Mark | undefined;

  constructor(runtime: Runtime, options: BreakerOptions = {}, changed: (state: 'open' | 'closed') => void = () => {}) {
    this.#runtime = runtime;
    this.#failuresMax = options.failuresMax ?? 5;
    this.#openMs = options.openMs ?? 2_000;
    this.#changed = changed;
  }

  /** How long to wait before sending; 0 lets the caller pass, as the probe where the breaker was open. */
  admit(): number {
    if (this.#openedAt === undefined) return 0;
    const leftMs = this.#openMs - elapsedMs(this.#runtime, this.#openedAt);
    if (leftMs > 0) return leftMs;
    // One probe at a time. One that takes long, as a wait does, makes way for another.
    const probedMs = this.#probedAt === undefined ? this.#openMs : elapsedMs(this.#runtime, this.#probedAt);
    if (probedMs < this.#openMs) return this.#openMs - probedMs;
    this.#probedAt = markNow(this.#runtime);
    return 0;
  }

  /** The service answered, whatever it said. */
  succeeded(): void {
    this.#failures = 0;
    this.#probedAt = undefined;
    if (this.#openedAt === undefined) return;
    this.#openedAt = undefined;
    this.#changed('closed');
  }

  failed(): void {
    this.#failures += 1;
    this.#probedAt = undefined;
    if (this.#failures < this.#failuresMax) return;
    const opens = this.#openedAt === undefined;
    this.#openedAt = markNow(this.#runtime);
    if (opens) this.#changed('open');
  }

  /** A request was given up by its caller, which says nothing about the service. */
  left(): void {
    this.#probedAt = undefined;
  }
}
