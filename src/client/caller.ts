import { backoffMs } from '../tools/backoff.ts';
import { reasonOf } from '../tools/error-text.ts';
import { joinSignals, unlessAborted } from './abort.ts';
import type { Breaker } from './breaker.ts';
import { ClosedError, HoldfastError, ThrottledError, UnavailableError } from './errors.ts';
import type { Observe } from './observer.ts';
import { errorOf } from './problem.ts';
import { elapsedMs, type Mark, markNow, pause, type Runtime } from './runtime.ts';
import type { Answer, Call, Transport } from './transport.ts';

/** The first retry comes soon, since most failures are one lost packet or one restarted process. */
const backoffBaseMs = 50;
/** Later ones don't wait longer than a waiter may stay away from its queue, with room to spare. */
const backoffMsMax = 2_000;

export interface CallPolicy {
  /** The call ends within this time, with all its tries. */
  readonly deadlineMs: number;
  /** No further try begins after this time; 0 sends once. As long as the deadline by default. */
  readonly retryMs?: number | undefined;
  /** Time for one try. */
  readonly attemptMs: number;
  /** What is sent instead from the second attempt on. */
  readonly again?: Call | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Passes an open breaker. For renewals and releases: they are paced by themselves, and make good probes. */
  readonly urgent?: boolean;
  /** Goes on with a wait that has its place in a queue: an open breaker delays it, and does not end it. */
  readonly goesOn?: boolean;
}

/** A success, with what is needed to judge it. */
export interface Success extends Answer {
  /** Before the try was sent that brought this answer. */
  readonly sentAt: Mark;
  /** More than one: an earlier try may have had the effect that this answer tells of. */
  readonly tries: number;
}

export interface CallerParts {
  readonly transport: Transport;
  readonly runtime: Runtime;
  readonly breaker: Breaker;
  readonly observe: Observe;
  /** Fires when the client is closed for good: what is still under way is given up. */
  readonly closed: AbortSignal;
}

/**
 * Sends requests and sends them again. Every request may be repeated: an acquire, renew or release carries the lease that makes its
 * repeats one, a record's write names its version, and the rest only look.
 *
 * Three things that could be mistaken for one another are kept apart. A refusal (409 and the like) is the service's word and final.
 * An unavailable service (no answer, 5xx) may or may not have done it: the same request again finds out. A throttled request (429)
 * was not done: it waits as long as it was told.
 */
export class Caller {
  readonly #parts: CallerParts;

  constructor(parts: CallerParts) {
    this.#parts = parts;
  }

  async call(call: Call, policy: CallPolicy): Promise<Success> {
    const { runtime, observe } = this.#parts;
    const { deadlineMs, retryMs = deadlineMs } = policy;
    const began = markNow(runtime);
    let failure: unknown;
    for (let attempt = 0; ; attempt++) {
      policy.signal?.throwIfAborted();
      try {
        const sentAt = markNow(runtime);
        const leftMs = Math.max(1, deadlineMs - elapsedMs(runtime, began));
        const sent = attempt === 0 ? call : (policy.again ?? call);
        const answer = await this.#admitted(sent, { ...policy, attemptMs: Math.min(policy.attemptMs, leftMs) });
        return { ...answer, sentAt, tries: attempt + 1 };
      } catch (error) {
        if (!isWorthRepeating(error)) throw error;
        // That the breaker opened says less than what opened it.
        if (!error.circuitOpen) failure = error;
        // A breaker that was open from the start means that nobody should wait for this service now.
        if (error.circuitOpen && attempt === 0 && policy.goesOn !== true) throw error;
        const delayMs = error.retryAfterMs + backoffMs(attempt, backoffBaseMs, backoffMsMax, runtime.random);
        if (elapsedMs(runtime, began) + delayMs >= Math.min(retryMs, deadlineMs)) throw failure ?? error;
        observe({ type: 'retry', operation: call.operation, attempt: attempt + 1, error });
        await pause(runtime, delayMs, policy.signal);
      }
    }
  }

  async #admitted(call: Call, policy: CallPolicy): Promise<Answer> {
    const { breaker } = this.#parts;
    const waitMs = policy.urgent ? 0 : breaker.admit();
    if (waitMs > 0) {
      const message = 'The service was out of reach several times in a row; nothing is sent for a moment.';
      throw new UnavailableError(message, { retryAfterMs: waitMs, circuitOpen: true });
    }
    try {
      const answer = await this.#send(call, policy);
      const refusal = answer.status >= 200 && answer.status < 300 ? undefined : errorOf(answer);
      if (refusal instanceof UnavailableError) breaker.failed();
      else breaker.succeeded();
      if (refusal !== undefined) throw refusal;
      return answer;
    } catch (error) {
      const answered = error instanceof HoldfastError && error.status !== undefined;
      if (!answered && error instanceof UnavailableError) breaker.failed();
      else if (!answered) breaker.left();
      throw error;
    }
  }

  /** Names the address, since a wrong one is the commonest reason why nobody answers. */
  #service(): string {
    const { target } = this.#parts.transport;
    return target === undefined ? 'The service' : `The service at ${target}`;
  }

  /** One try, which ends in bounded time whatever the transport does. */
  async #send(call: Call, { attemptMs, signal }: CallPolicy): Promise<Answer> {
    const { transport, runtime, closed } = this.#parts;
    if (closed.aborted) throw new ClosedError('The client is closed.');
    const joined = joinSignals(signal, closed);
    const cancel = runtime.after(attemptMs, () =>
      joined.abort(new UnavailableError(`${this.#service()} did not answer within ${Math.round(attemptMs)} ms.`)),
    );
    try {
      return await unlessAborted(transport.request(call, joined.signal), joined.signal);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof HoldfastError) throw error;
      throw new UnavailableError(`${this.#service()} can't be reached: ${rootReasonOf(error)}.`, {}, { cause: error });
    } finally {
      cancel();
      joined.letGo();
    }
  }
}

/** What lies at the bottom: fetch wraps the reason that a person would look for. */
function rootReasonOf(error: unknown): string {
  const { cause } = error instanceof Error ? error : { cause: undefined };
  return cause instanceof Error ? rootReasonOf(cause) : reasonOf(error).replace(/\.$/, '');
}

/** Whether the same request may have another outcome in a moment. */
export const isWorthRepeating = (
  error: unknown,
): error is (UnavailableError | ThrottledError) & { circuitOpen?: boolean } =>
  error instanceof UnavailableError || error instanceof ThrottledError;
