import { elapsedMs, type Mark, markNow, type Runtime } from './runtime.ts';

export interface BreakerOptions {
  /** Failures in a row after which it opens. Five are not by chance: each of them waited long for an answer. */
  readonly failuresMax?: number;
  /** How long nothing is sent before one probe may pass. Long enough for a service to restart, short enough to notice it soon. */
  readonly openMs?: number;
}

/**
 * A client must not load a service that is unavailable. While the breaker is closed, all requests pass. After some
 * failures in a row it opens, and callers fail at once. After a while it lets one request pass: the probe. If the probe
 * is answered, the breaker closes.
 */
export class Breaker {
  readonly #runtime: Runtime;
  readonly #options: Required<BreakerOptions>;
  readonly #changed: (state: 'open' | 'closed') => void;
  #failures = 0;
  #openedAt: Mark | undefined;
  #probedAt: Mark | undefined;

  constructor(runtime: Runtime, options: BreakerOptions = {}, changed: (state: 'open' | 'closed') => void = () => {}) {
    this.#runtime = runtime;
    this.#options = { failuresMax: options.failuresMax ?? 5, openMs: options.openMs ?? 2_000 };
    this.#changed = changed;
  }

  /** How long to wait before sending. With 0 the caller may send. If the breaker was open, its request is the probe. */
  admit(): number {
    if (this.#openedAt === undefined) return 0;
    const { openMs } = this.#options;
    const leftMs = openMs - elapsedMs(this.#runtime, this.#openedAt);
    if (leftMs > 0) return leftMs;
    // There is one probe at a time. A probe may be a wait that takes long, so after a while another one may pass.
    const probedMs = this.#probedAt === undefined ? openMs : elapsedMs(this.#runtime, this.#probedAt);
    if (probedMs < openMs) return openMs - probedMs;
    this.#probedAt = markNow(this.#runtime);
    return 0;
  }

  /** The service answered, even if it refused. */
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
    if (this.#failures < this.#options.failuresMax) return;
    const opens = this.#openedAt === undefined;
    this.#openedAt = markNow(this.#runtime);
    if (opens) this.#changed('open');
  }

  /** The caller gave its request up. That says nothing about the service. */
  left(): void {
    this.#probedAt = undefined;
  }
}
