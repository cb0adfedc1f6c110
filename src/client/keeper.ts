import { backoffMs } from '../tools/backoff.ts';
import type { Core } from './core.ts';
import { HoldfastError, LeaseLostError } from './errors.ts';
import { elapsedMs, type Mark, markNow } from './runtime.ts';
import type { Call } from './transport.ts';

/** A renewal after each third of the lease: two may fail before the lease is in danger. */
const renewalsPerLease = 3;
/** A random part, so that leases that began together are not renewed together. */
const jitterPart = 0.1;
/** A frozen process runs no timers. The clocks are read this often, so after a freeze the process knows within a second. */
const lookMsMax = 1_000;
/** The signal fires when a tenth of the lease is left, so that there is time to stop. More than a second would waste a long lease. */
const marginPart = 0.1;
const marginMsMax = 1_000;

/** The shortest lease that the service grants. */
const leaseMsMin = 1_000;

export interface KeeperOptions {
  /** What is kept, for observers. */
  readonly name: string;
  /** A time before the request for this was sent. The service can't have begun to count earlier. */
  readonly from: Mark;
  /** The time that was left, by the service's answer. */
  readonly remainingMs: number;
  /** How long each renewal lasts. */
  readonly leaseMs: number;
  /** The request for more time. */
  readonly renewal: (leaseMs?: number) => Call;
  /** After this time nothing is renewed any more. */
  readonly holdMsMax?: number | undefined;
  /** Makes the error for the case that the time ended and the service had not answered. */
  readonly unconfirmed: () => HoldfastError;
}

/**
 * Renews a lease or a session, and knows when it may have ended. That is always before the service can grant the lock to
 * another caller: the time counts from before the request was sent, on the clock that ran further.
 *
 *     sent   granted                     renew            signal        ended at the earliest
 *      │───────│───────────────────────────│────────────────│─margin───────│
 *      └─────────────────────── remainingMs by both clocks ────────────────┘
 */
export class Keeper {
  readonly #core: Core;
  readonly #options: KeeperOptions;
  readonly #controller = new AbortController();
  readonly #began: Mark;
  #from: Mark;
  #lastsMs: number;
  #leaseMs: number;
  /** How long after `#from` the next renewal is due. */
  #renewInMs: number;
  #failures = 0;
  /** Rises when a renewal asks for less time. Answers to renewals from before then promise too much. */
  #shortenings = 0;
  #renewing: Promise<void> | undefined;
  #ended = false;
  #cancelLook: () => void = () => {};

  constructor(core: Core, options: KeeperOptions) {
    this.#core = core;
    this.#options = options;
    this.#began = options.from;
    this.#from = options.from;
    this.#lastsMs = options.remainingMs;
    this.#leaseMs = options.leaseMs;
    this.#renewInMs = this.#paceMs();
    this.#look();
  }

  /** Fires if it is lost, never if it is ended on purpose. */
  get signal(): AbortSignal {
    this.isAlive();
    return this.#controller.signal;
  }

  /** The time that is surely left, by this process's clocks and without the margin. */
  remainingMs(): number {
    return this.isAlive() ? this.#leftMs() : 0;
  }

  /** Reads the clocks. So after a freeze, the caller gets the right answer before any timer has run. */
  isAlive(): boolean {
    if (this.#ended || this.#controller.signal.aborted) return false;
    if (this.#leftMs() > 0) return true;
    this.lose(this.#options.unconfirmed());
    return false;
  }

  /** It is over: the service said so, or its time has passed. */
  lose(error: HoldfastError): void {
    if (this.#ended || this.#controller.signal.aborted) return;
    this.#cancelLook();
    this.#controller.abort(error);
    this.#core.observe({ type: 'lost', name: this.#options.name, error });
  }

  /** Ends it on purpose. Nothing is renewed any more, and the signal does not fire. */
  end(): void {
    this.#ended = true;
    this.#cancelLook();
  }

  /** Renews now. Fails with the service's refusal, or with the reason why no answer came. */
  async renew(leaseMs?: number): Promise<void> {
    const { runtime, caller, observe } = this.#core;
    const from = markNow(runtime);
    if (leaseMs !== undefined) this.#relyOnAtMost(leaseMs, from);
    const shortenings = this.#shortenings;
    try {
      // If one try hangs, there must be time for another one. Only one try, because this class decides when the next is due.
      const attemptMs = Math.max(250, this.#leaseMs / renewalsPerLease);
      const policy = { deadlineMs: attemptMs, retryMs: 0, attemptMs, urgent: true };
      const { body } = await caller.call(this.#options.renewal(leaseMs), policy);
      const remainingMs = (body as { remainingMs?: number | null }).remainingMs ?? leaseMs ?? this.#options.leaseMs;
      if (this.#ended || this.#controller.signal.aborted || this.#shortenings !== shortenings) return;
      this.#from = from;
      this.#lastsMs = remainingMs;
      if (leaseMs !== undefined) this.#leaseMs = leaseMs;
      this.#failures = 0;
      this.#renewInMs = this.#paceMs();
      observe({ type: 'renewed', name: this.#options.name, remainingMs });
      if (this.isAlive()) this.#look();
    } catch (error) {
      if (isFinal(error)) this.lose(error);
      throw error;
    }
  }

  /** A renewal may ask for less time, and its answer may be lost. So from the moment of sending, only that time is sure. */
  #relyOnAtMost(leaseMs: number, from: Mark): void {
    if (leaseMs >= this.#lastsMs - elapsedMs(this.#core.runtime, this.#from)) return;
    this.#shortenings += 1;
    this.#from = from;
    this.#lastsMs = leaseMs;
    this.#renewInMs = this.#paceMs();
    this.#look();
  }

  #leftMs(): number {
    const marginMs = Math.min(marginMsMax, this.#leaseMs * marginPart);
    return this.#lastsMs - marginMs - elapsedMs(this.#core.runtime, this.#from);
  }

  #paceMs(): number {
    const spread = 1 - jitterPart + 2 * jitterPart * this.#core.runtime.random();
    return (Math.min(this.#leaseMs, this.#lastsMs) / renewalsPerLease) * spread;
  }

  /** The lease for the next renewal, if a whole one would end after `holdMsMax`. */
  #shortenedMs(): number | undefined {
    const leftMs = Math.max(leaseMsMin, Math.ceil(this.#holdLeftMs()));
    return leftMs < this.#leaseMs ? leftMs : undefined;
  }

  /** How long it may still be renewed in the background. */
  #holdLeftMs(): number {
    const { holdMsMax = Number.POSITIVE_INFINITY } = this.#options;
    return holdMsMax - elapsedMs(this.#core.runtime, this.#began);
  }

  /** How long until the next renewal in the background is due. Infinite if there will be none. */
  #untilRenewalMs(): number {
    if (this.#renewing !== undefined || this.#holdLeftMs() <= 0) return Number.POSITIVE_INFINITY;
    return this.#renewInMs - elapsedMs(this.#core.runtime, this.#from);
  }

  /** Sets the timer to the next event: a renewal, the end, or the next reading of the clocks. */
  #look(): void {
    this.#cancelLook();
    const delayMs = Math.max(0, Math.min(this.#leftMs(), this.#untilRenewalMs(), lookMsMax));
    this.#cancelLook = this.#core.runtime.after(delayMs, () => this.#tick(), true);
  }

  #tick(): void {
    if (!this.isAlive()) return;
    if (this.#untilRenewalMs() <= 0) this.#renewing = this.#renewInBackground();
    this.#look();
  }

  async #renewInBackground(): Promise<void> {
    const { runtime, observe } = this.#core;
    try {
      await this.renew(this.#shortenedMs());
    } catch (error) {
      observe({ type: 'renewal-failed', name: this.#options.name, error });
      // The first retry comes soon, later ones with longer pauses. Several tries fit into the rest of the lease.
      const againInMs = backoffMs(this.#failures, 100, Math.max(200, this.#leaseMs / 10), runtime.random);
      this.#failures += 1;
      this.#renewInMs = elapsedMs(runtime, this.#from) + againInMs;
    } finally {
      this.#renewing = undefined;
      if (this.isAlive()) this.#look();
    }
  }
}

/** True if the service itself said that it is over. */
const isFinal = (error: unknown): error is HoldfastError =>
  error instanceof LeaseLostError || (error instanceof HoldfastError && error.code === 'session-lost');
