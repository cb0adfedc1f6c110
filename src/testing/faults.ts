import { pause } from '../client/runtime.ts';
import type { Answer, Call, Transport, WatchHandlers } from '../client/transport.ts';
import { Problem } from '../http/problems.ts';
import type { VirtualProcess } from './virtual-time.ts';

/** Which requests a fault applies to. By default the next one. */
export interface FaultMatch {
  /** The beginning of an operation's name: `acquire`, `renew`, `release`, `putRecord`, … */
  readonly operation?: string | undefined;
  /** Only requests about this lock. */
  readonly lock?: string | undefined;
  /** How many requests, 1 by default. */
  readonly times?: number | undefined;
}

export type FaultKind = 'lose-request' | 'lose-response' | 'delay' | 'hang' | 'unavailable' | 'throttle';

interface Fault extends FaultMatch {
  readonly kind: FaultKind;
  readonly delayMs: number;
  left: number;
}

const cut = (): Error => new Error('The connection was cut.');

/** Passes a client's requests to the service, and applies the scripted faults to them. */
export class FaultyTransport implements Transport {
  readonly #inner: Transport;
  readonly #process: VirtualProcess;
  readonly #faults: Fault[] = [];
  #partitioned = false;

  constructor(inner: Transport, process: VirtualProcess) {
    this.#inner = inner;
    this.#process = process;
  }

  script(kind: FaultKind, match: FaultMatch = {}, delayMs = 0): void {
    this.#faults.push({ ...match, kind, delayMs, left: match.times ?? 1 });
  }

  partition(): void {
    this.#partitioned = true;
  }

  /** Ends a partition, and drops all scripted faults that were not applied yet. */
  heal(): void {
    this.#partitioned = false;
    this.#faults.length = 0;
  }

  async request(call: Call, signal: AbortSignal): Promise<Answer> {
    try {
      return await this.#pass(call, signal);
    } finally {
      await this.#process.awake();
    }
  }

  watch(query: Readonly<Record<string, string>>, handlers: WatchHandlers): () => void {
    return this.#inner.watch?.(query, handlers) ?? (() => {});
  }

  async #pass(call: Call, signal: AbortSignal): Promise<Answer> {
    if (this.#partitioned) throw cut();
    const fault = this.#take(call);
    switch (fault?.kind) {
      case undefined: {
        const answer = await this.#inner.request(call, signal);
        // If the network was cut during a request, the request may have taken effect. Its answer is lost.
        if (this.#partitioned) throw cut();
        return answer;
      }
      case 'lose-request':
        throw cut();
      case 'lose-response':
        await this.#inner.request(call, signal);
        throw cut();
      case 'delay': {
        const answer = await this.#inner.request(call, signal);
        await pause(this.#process, fault?.delayMs ?? 0);
        return answer;
      }
      case 'hang':
        await this.#inner.request(call, signal);
        return new Promise(() => {});
      case 'unavailable':
        return problemAnswer(new Problem('unavailable', 'The twin was told to be unavailable.', { retryAfterMs: 0 }));
      case 'throttle':
        return problemAnswer(new Problem('throttled', 'The twin was told to throttle.', { retryAfterMs: 100 }));
    }
  }

  #take({ operation, parameters }: Call): Fault | undefined {
    const index = this.#faults.findIndex(
      (fault) =>
        (fault.operation === undefined || operation.startsWith(fault.operation)) &&
        (fault.lock === undefined || fault.lock === parameters.name),
    );
    const fault = this.#faults[index];
    if (fault === undefined) return undefined;
    fault.left -= 1;
    if (fault.left <= 0) this.#faults.splice(index, 1);
    return fault;
  }
}

const problemAnswer = (problem: Problem): Answer => ({ status: problem.status, headers: {}, body: problem.toJSON() });
