import type { Leased, Taken } from './acquire.ts';
import type { Core } from './core.ts';
import { type HoldfastError, LeaseLostError } from './errors.ts';
import { Keeper } from './keeper.ts';

/** The time for which something is held. */
export interface Tenure {
  /** Fires when it is lost, never when it is ended on purpose. */
  readonly signal: AbortSignal;
  isAlive(): boolean;
  /** The time that is surely left. */
  remainingMs(): number;
  renew(leaseMs?: number): Promise<void>;
  lose(error: HoldfastError): void;
  end(): void;
}

export interface TenureOptions {
  readonly autoRenew?: boolean | undefined;
  readonly holdMsMax?: number | undefined;
}

/** A lease with its own end, renewed in the background. */
export function leaseTenure(
  core: Core,
  { calls, body, from, remainingMs }: Taken<Leased>,
  { autoRenew = true, holdMsMax }: TenureOptions,
): Tenure {
  const { label } = calls;
  const message = `The lease on ${label} could not be renewed in time, so it may have ended: stop what it protects.`;
  return new Keeper(core, {
    name: label,
    from,
    remainingMs,
    leaseMs: body.leaseMs ?? remainingMs,
    renewal: (leaseMs) => calls.renew(leaseMs),
    // Without automatic renewal, the holder may still call `renew`.
    holdMsMax: autoRenew ? holdMsMax : 0,
    unconfirmed: () => new LeaseLostError(message, 'unconfirmed'),
  });
}

/** Held as long as a session lives. The session is renewed, not the lock. */
export class SessionTenure implements Tenure {
  readonly #session: Tenure;
  readonly #verify: () => Promise<unknown>;
  readonly #controller = new AbortController();
  readonly #onSessionLost: () => void;
  #ended = false;

  constructor(label: string, session: Tenure, verify: () => Promise<unknown>) {
    this.#session = session;
    this.#verify = verify;
    this.#onSessionLost = () => {
      const { reason: cause } = session.signal;
      this.lose(new LeaseLostError(`The session that holds ${label} is over.`, 'session_lost', { cause }));
    };
    session.signal.addEventListener('abort', this.#onSessionLost, { once: true });
    if (session.signal.aborted) this.#onSessionLost();
  }

  get signal(): AbortSignal {
    this.isAlive();
    return this.#controller.signal;
  }

  isAlive(): boolean {
    if (this.#ended || this.#controller.signal.aborted) return false;
    // If the session's time has passed, this call fires the session's signal, and then this one.
    return this.#session.isAlive();
  }

  remainingMs(): number {
    return this.isAlive() ? this.#session.remainingMs() : 0;
  }

  async renew(): Promise<void> {
    try {
      await this.#verify();
    } catch (error) {
      if (error instanceof LeaseLostError) this.lose(error);
      throw error;
    }
  }

  lose(error: HoldfastError): void {
    if (this.#ended || this.#controller.signal.aborted) return;
    this.#session.signal.removeEventListener('abort', this.#onSessionLost);
    this.#controller.abort(error);
  }

  end(): void {
    this.#ended = true;
    this.#session.signal.removeEventListener('abort', this.#onSessionLost);
  }
}

/** Not held at all: the service could not be reached, and the caller chose to fail open. */
export const openTenure = (): Tenure => ({
  signal: new AbortController().signal,
  isAlive: () => false,
  remainingMs: () => 0,
  renew: () => Promise.resolve(),
  lose: () => {},
  end: () => {},
});
