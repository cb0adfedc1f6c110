import { backoffMs } from '../tools/backoff.ts';
import { reasonOf, rootCauseOf } from '../tools/error-text.ts';
import { joinSignals, unlessAborted } from './abort.ts';
import type { Breaker } from './breaker.ts';
import { ClosedError, HoldfastError, ThrottledError, UnavailableError } from './errors.ts';
import type { Observe } from './observer.ts';
import { errorOf } from './problem.ts';
import { elapsedMs, type Mark, markNow, pause, type Runtime } from './runtime.ts';
import type { Answer, Call, Transport } from './transport.ts';

/** The first retry comes soon, because most failures are one lost packet or one restarted process. */
const backoffBaseMs = 50;
/** Later retries come well within the 5 s that a waiter may be absent from its queue. */
const backoffMsMax = 2_000;

export interface CallPolicy {
  /** The call and all its tries end within this time. */
  readonly deadlineMs: number;
  /** No further try begins after this time. With 0, the request is sent once. The default is the deadline. */
  readonly retryMs?: number | undefined;
  /** Time for one try. */
  readonly attemptMs: number;
  /** The request that is sent from the second try on. */
  readonly again?: Call | undefined;
  readonly signal?: AbortSignal | undefined;
  /** It passes an open breaker. For renewals and releases: they are rare, and are good probes. */
  readonly urgent?: boolean;
  /** The request continues a wait that has its place in a queue. An open breaker delays it, but does not end it. */
  readonly goesOn?: boolean;
}

/** An answer of success, with the time and the number of its tries. */
export interface Success extends Answer {
  /** A time before the try with this answer was sent. */
  readonly sentAt: Mark;
  /** If it is more than one, an earlier try may already have had the effect. */
  readonly tries: number;
}

export interface CallerParts {
  readonly transport: Transport;
  readonly runtime: Runtime;
  readonly breaker: Breaker;
  readonly observe: Observe;
  /** Fires when the client is closed for good. Requests that are still open are given up. */
  readonly closed: AbortSignal;
}

/**
 * Sends requests, and sends them again if necessary. Every request is safe to repeat. An acquire, renew or release has a
 * leaseId, a write to a record has a version and an id, and all others only read.
 *
 * There are three kinds of failure. A refusal (409 and the like) is final. If the service is unavailable (no answer,
 * 5xx), the request may have taken effect or not, and the same request again finds out. A throttled request (429) took no
 * effect and is sent again after the time that the service asked for.
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
    // A wait that goes on has its place already.
    let mayHaveEffect = policy.goesOn === true;
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
        mayHaveEffect ||= !(error instanceof UnavailableError && error.unsent) && error.circuitOpen !== true;
        // The failure that opened the breaker says more than the open breaker.
        if (!error.circuitOpen) failure = error;
        // If the breaker is open before the first try, the caller fails at once.
        if (error.circuitOpen && attempt === 0 && policy.goesOn !== true) throw error;
        const delayMs = error.retryAfterMs + backoffMs(attempt, backoffBaseMs, backoffMsMax, runtime.random);
        if (elapsedMs(runtime, began) + delayMs >= Math.min(retryMs, deadlineMs))
          throw asSent(failure ?? error, mayHaveEffect);
        observe({ type: 'retry', operation: call.operation, attempt: attempt + 1, error });
        await pause(runtime, delayMs, policy.signal);
      }
    }
  }

  async #admitted(call: Call, policy: CallPolicy): Promise<Answer> {
    const { breaker } = this.#parts;
    const waitMs = policy.urgent ? 0 : breaker.admit();
    if (waitMs > 0) {
      const message = 'The service could not be reached several times in a row. The client sends nothing for a moment.';
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

  /** With the address: a wrong address is the most common reason for no answer. */
  #service(): string {
    const { target } = this.#parts.transport;
    return target === undefined ? 'The service' : `The service at ${target}`;
  }

  /** One try. It ends within `attemptMs`, even if the transport hangs. */
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
      const cause = rootCauseOf(error);
      const message = `${this.#service()} can't be reached: ${whyUnreached(cause)}.`;
      throw new UnavailableError(message, { unsent: neverSent(cause) }, { cause: error });
    } finally {
      cancel();
      joined.letGo();
    }
  }
}

/** Without a connection, no request can have arrived. */
const unconnected: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the host name could not be resolved',
};

const codeOf = (cause: unknown): string => (cause as { code?: string } | undefined)?.code ?? '';

function whyUnreached(cause: unknown): string {
  const words = unconnected[codeOf(cause)];
  return words === undefined ? reasonOf(cause).replace(/\.$/, '') : `${words} (${codeOf(cause)})`;
}

function neverSent(cause: unknown): boolean {
  // With several addresses of one name, Node reports all their errors together.
  if (cause instanceof AggregateError) return cause.errors.length > 0 && cause.errors.every(neverSent);
  return codeOf(cause) in unconnected;
}

/** The last try did not reach the service, but an earlier one may have. */
function asSent(error: unknown, mayHaveEffect: boolean): unknown {
  if (!mayHaveEffect || !(error instanceof UnavailableError) || !error.unsent) return error;
  const { message, retryAfterMs, status, requestId, cause } = error;
  return new UnavailableError(message, { retryAfterMs }, { status, requestId, cause });
}

/** True if the same request may succeed a little later. */
export const isWorthRepeating = (
  error: unknown,
): error is (UnavailableError | ThrottledError) & { circuitOpen?: boolean } =>
  error instanceof UnavailableError || error instanceof ThrottledError;
