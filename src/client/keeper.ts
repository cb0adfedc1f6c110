import { backoffMs } from '../tools/backoff.ts';
import { HoldfastError, LeaseLostError } from './errors.ts';
import { elapsedMs, type Mark, markNow, type Runtime } from './runtime.ts';

/** A third: two renewals may fail before the lease is in danger. */
const renewalsPerLease = 3;
/** Spread, so that leases that began together are not renewed together. */
const jitterPart = 0.1;
/** A frozen process can't run a timer. So the clocks are read this often: after a freeze, the process knows within a second. */
const lookMsMax = 1_000;
/** The signal fires a tenth before the end, so that there is time to stop. More than a second would waste a long lease. */
const marginPart = 0.1;
const marginMsMax = 1_000;

/** The shortest lease that the service grants. */
const leaseMsMin = 1_000;

export interface KeeperOptions {
  readonly runtime: Runtime;
  /** Before the request was sent that granted this: the service can't have begun to count earlier. */
  readonly from: Mark;
  /** What the service said was left. */
  readonly remainingMs: number;
  /** For how long each renewal counts. */
  readonly leaseMs: number;
  /** Asks the service for more time; resolves with what is left. Absent: nothing is renewed. */
  readonly renew?: ((attemptMs: number, leaseMs?: number) => Promise<number>) | undefined;
  /** From then on nothing is renewed any more. */
  readonly holdMsMax?: number | undefined;
  /** The error to be lost with when time ran out without a word from the service. */
  readonly unconfirmed: () => HoldfastError;
  readonly onRenewed?: (remainingMs: number) => void;
  readonly onFailed?: (error: unknown) => void;
  readonly onLost: (error: HoldfastError) => void;
}

/**
 * Keeps something that ends unless it is renewed, and knows when it may have ended: always before the service could have given it
 * away, because it counts from before the request was sent and on whichever clock ran further.
 *
 *     sent   granted                     renew            told          ended at the earliest
 *      │───────│───────────────────────────│────────────────│─margin───────│
 *      └─────────────────────── remainingMs by both clocks ────────────────┘
 */
export class Keeper {
  readonly #options: KeeperOptions;
  readonly #controller = new AbortController();
  readonly #began: Mark;
  #from: Mark;
  #lastsMs: number;
  #leaseMs: number;
  /** After `#from`, by how much the next renewal is due. */
  #renewInMs: number;
  #failures = 0;
  #renewing: Promise<void> | undefined;
  #ended = false;
  #cancelLook: () => void = () => {};

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#began = options.from;
    this.#from = options.from;
    this.#lastsMs = options.remainingMs;
    this.#leaseMs = options.leaseMs;
    this.#renewInMs = this.#paceMs();
    this.#look();
  }

  /** Fires when it is lost, never when it is ended on purpose. */
  get signal(): AbortSignal {
    this.isAlive();
    return this.#controller.signal;
  }

  /** What is surely left, by our own count and with the margin taken off. */
  remainingMs(): number {
    return this.isAlive() ? this.#leftMs() : 0;
  }

  /** Looks at the clocks. So a caller that asks after a freeze learns the truth before any timer has run. */
  isAlive(): boolean {
    if (this.#ended || this.#controller.signal.aborted) return false;
    if (this.#leftMs() > 0) return true;
    this.lose(this.#options.unconfirmed());
    return false;
  }

  /** The service said, or time has shown, that it is over. */
  lose(error: HoldfastError): void {
    if (this.#ended || this.#controller.signal.aborted) return;
    this.#cancelLook();
    this.#controller.abort(error);
    this.#options.onLost(error);
  }

  /** Ended on purpose: nothing is renewed any more, and nobody is told that it was lost. */
  end(): void {
    this.#ended = true;
    this.#cancelLook();
  }

  /** Renews now. Fails with what the service said, or with what kept it from saying anything. */
  async renew(leaseMs?: number): Promise<void> {
    const { renew, runtime } = this.#options;
    if (renew === undefined) return;
    const from = markNow(runtime);
    if (leaseMs !== undefined) this.#relyOnAtMost(leaseMs, from);
    try {
      // A try that hangs must leave time for another one.
      const attemptMs = Math.max(250, this.#leaseMs / renewalsPerLease);
      const remainingMs = await renew(attemptMs, leaseMs);
      if (this.#ended || this.#controller.signal.aborted) return;
      this.#from = from;
      this.#lastsMs = remainingMs;
      if (leaseMs !== undefined) this.#leaseMs = leaseMs;
      this.#failures = 0;
      this.#renewInMs = this.#paceMs();
      this.#options.onRenewed?.(remainingMs);
      if (this.isAlive()) this.#look();
    } catch (error) {
      if (isFinal(error)) this.lose(error);
      throw error;
    }
  }

  /** The answer to a renewal for less time may be lost: from when it is sent on, no more can be relied on than it asks for. */
  #relyOnAtMost(leaseMs: number, from: Mark): void {
    if (leaseMs >= this.#lastsMs - elapsedMs(this.#options.runtime, this.#from)) return;
    this.#from = from;
    this.#lastsMs = leaseMs;
    this.#renewInMs = this.#paceMs();
    this.#look();
  }

  #leftMs(): number {
    const marginMs = Math.min(marginMsMax, this.#leaseMs * marginPart);
    return this.#lastsMs - marginMs - elapsedMs(this.#options.runtime, this.#from);
  }

  #paceMs(): number {
    const spread = 1 - jitterPart + 2 * jitterPart * this.#options.runtime.random();
    return (Math.min(this.#leaseMs, this.#lastsMs) / renewalsPerLease) * spread;
  }

  /** The lease for the next renewal, if a whole one would reach beyond `holdMsMax`. */
  #shortenedMs(): number | undefined {
    const { runtime, holdMsMax = Number.POSITIVE_INFINITY } = this.#options;
    const leftMs = Math.max(leaseMsMin, Math.ceil(holdMsMax - elapsedMs(runtime, this.#began)));
    return leftMs < this.#leaseMs ? leftMs : undefined;
  }

  #mayRenew(): boolean {
    const { renew, runtime, holdMsMax = Number.POSITIVE_INFINITY } = this.#options;
    return renew !== undefined && elapsedMs(runtime, this.#began) < holdMsMax;
  }

  /** Sets the one timer to whatever comes first: a renewal, the end, or merely a look at the clocks. */
  #look(): void {
    this.#cancelLook();
    const { runtime } = this.#options;
    const untilEndMs = this.#leftMs();
    const renewable = this.#renewing === undefined && this.#mayRenew();
    const untilRenewalMs = renewable ? this.#renewInMs - elapsedMs(runtime, this.#from) : Number.POSITIVE_INFINITY;
    const delayMs = Math.max(0, Math.min(untilEndMs, untilRenewalMs, lookMsMax));
    this.#cancelLook = runtime.after(delayMs, () => this.#tick(), true);
  }

  #tick(): void {
    if (!this.isAlive()) return;
    const { runtime } = this.#options;
    if (this.#renewing === undefined && this.#mayRenew() && elapsedMs(runtime, this.#from) >= this.#renewInMs) {
      this.#renewing = this.#renewInBackground();
    }
    this.#look();
  }

  async #renewInBackground(): Promise<void> {
    const { runtime, onFailed } = this.#options;
    try {
      await this.renew(this.#shortenedMs());
    } catch (error) {
      onFailed?.(error);
      // Soon again, and ever later, but often enough that several tries fit into what is left.
      const againInMs = backoffMs(this.#failures, 100, Math.max(200, this.#leaseMs / 10), runtime.random);
      this.#failures += 1;
      this.#renewInMs = elapsedMs(runtime, this.#from) + againInMs;
    } finally {
      this.#renewing = undefined;
      if (this.isAlive()) this.#look();
    }
  }
}

/** The service's own word that it is over. */
const isFinal = (error: unknown): error is HoldfastError =>
  error instanceof LeaseLostError || (error instanceof HoldfastError && error.code === 'session-lost');
