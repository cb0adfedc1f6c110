import type { Answer, Call, Transport } from '../../src/client/transport.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from '../world/chance.ts';
import type { Cause } from './cause.ts';
import type { Conditions } from './conditions.ts';
import type { Host } from './host.ts';
import type { Process } from './process.ts';

export interface NetworkWatcher {
  /** One copy of a request was sent. The function that it returns is called when the answer to that copy arrives, and never if it is lost. */
  sent(client: string, call: Call): (answer: Answer) => void;
  arrived(cause: Cause): void;
  answered(cause: Cause, call: Call, answer: Answer): void;
}

interface NetworkParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly conditions: Conditions;
  readonly hosts: () => readonly Host[];
  readonly watcher: NetworkWatcher;
}

const cut = () => new Error('The connection was cut.');

/** Between clients and hosts: it loses, delays, repeats and reorders, on the way there and on the way back. */
export class Network {
  readonly cutOff = new Set<string>();
  calm = false;
  readonly #parts: NetworkParts;

  constructor(parts: NetworkParts) {
    this.#parts = parts;
  }

  connect(client: Process): Transport {
    return { request: (call, signal) => this.#request(client, call, signal) };
  }

  #request(client: Process, call: Call, signal: AbortSignal): Promise<Answer> {
    const { chance, conditions } = this.#parts;
    return new Promise<Answer>((resolve, reject) => {
      const ends = {
        answer: (answer: Answer) => client.deliver(() => resolve(answer)),
        broken: () => client.deliver(() => reject(cut())),
      };
      this.#send(client, call, signal, this.#legMs(), ends);
      if (this.calm || !chance.happens(conditions.duplicated)) return;
      // A stray copy: nobody waits for its answer, but it has its effect, perhaps much later.
      const never = new AbortController().signal;
      const strayMs = chance.longTailed(conditions.strayMsMax / 4, conditions.strayMsMax);
      this.#send(client, call, never, strayMs, { answer: () => {}, broken: () => {} });
    });
  }

  #send(
    client: Process,
    call: Call,
    signal: AbortSignal,
    delayMs: number,
    ends: { answer: (answer: Answer) => void; broken: () => void },
  ): void {
    const { time, chance, conditions, watcher } = this.#parts;
    const told = watcher.sent(client.name, call);
    // Some breaks are noticed at once, others only after a time limit.
    const breaks = (probability: number) => {
      const broken = this.cutOff.has(client.name) || (!this.calm && chance.happens(probability));
      if (broken && chance.happens(0.5)) time.after(this.#legMs(), ends.broken);
      return broken;
    };
    time.after(delayMs, () => {
      if (breaks(conditions.requestLost)) return;
      this.#arrive(
        client,
        call,
        signal,
        (answer) => {
          if (breaks(conditions.answerLost)) return;
          time.after(this.#legMs(), () => {
            told(answer);
            ends.answer(answer);
          });
        },
        ends.broken,
      );
    });
  }

  #arrive(
    client: Process,
    call: Call,
    signal: AbortSignal,
    answered: (answer: Answer) => void,
    broken: () => void,
  ): void {
    const { time, chance, hosts, watcher } = this.#parts;
    const running = hosts().filter(({ process }) => process.isAlive);
    if (running.length === 0) {
      time.after(this.#legMs(), broken);
      return;
    }
    const host = chance.pick(running);
    host.process.deliver(async () => {
      const gone = this.#goneAfter(signal, client, host);
      const cause = { ...causeOf(client, host, call, time.now()), gone };
      watcher.arrived(cause);
      const answer = await host.serve(call, cause, gone);
      if (!host.process.isAlive) return;
      watcher.answered(cause, call, answer);
      answered(answer);
    });
  }

  /** The host learns that a caller has left or died, after a while, if it still runs itself. */
  #goneAfter(signal: AbortSignal, client: Process, host: Host): AbortSignal {
    const gone = new AbortController();
    const tell = () => this.#parts.time.after(this.#legMs(), () => host.process.deliver(() => gone.abort()));
    client.onDeath(tell);
    if (signal.aborted) tell();
    else signal.addEventListener('abort', tell, { once: true });
    return gone.signal;
  }

  #legMs(): number {
    const { chance, conditions } = this.#parts;
    return 1 + (this.calm ? chance.between(0, conditions.networkMs) : chance.longTailed(conditions.networkMs, 10_000));
  }
}

function causeOf(client: Process, host: Host, call: Call, arrivedAt: number): Cause {
  const body = (call.body ?? {}) as {
    leaseId?: string;
    sessionId?: string;
    waitMs?: number;
    place?: number | 'new';
    fence?: number;
    locks?: readonly (string | { readonly name: string })[];
  };
  const { name, id } = call.parameters;
  const many = body.locks?.map((entry) => (typeof entry === 'string' ? entry : entry.name)) ?? [];
  return {
    operation: call.operation,
    client: client.name,
    host: host.process.name,
    arrivedAt,
    leaseId: body.leaseId,
    sessionId: body.sessionId ?? id,
    waitMs: body.waitMs,
    isNew: body.place === 'new',
    fence: body.fence,
    names: name === undefined ? many : [name],
    knownDead: new Set(),
  };
}
