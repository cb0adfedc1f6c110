/**
 * Measures a service from outside: what a caller waits for, how many requests it takes, and about what they cost. It uses
 * locks of its own, with random names, and leaves nothing held.
 */
import { Holdfast } from '../client/index.ts';
import { pause, type Runtime } from '../client/runtime.ts';
import type { Transport } from '../client/transport.ts';

/**
 * AWS's prices in us-east-1 in dollars per million, and the memory of the functions. docs/cost.md has their source. A test
 * compares them with the ones of the dashboard.
 */
export const prices = { httpRequest: 1, invocation: 0.2, writeUnit: 0.625, gigabyteSecond: 13.3334 } as const;
const functionGigabytes = 0.5;

/** What the model of docs/scale.md says about the same, with two clients. A test compares them with docs/scale.json. */
export const modelled: Readonly<Record<string, { readonly p50Ms: number; readonly p99Ms: number }>> = {
  'hand-off by long poll': { p50Ms: 40, p99Ms: 73 },
  'hand-off by push': { p50Ms: 40, p99Ms: 73 },
};

/** Shorter than the two seconds after which a wait is parked. */
const shortHoldMs = 500;
/** Longer than that, so that the grant comes by push. */
const longHoldMs = 3_000;
/** The shortest lease plus some time to take it. */
const deadLeaseMs = 2_000;

export interface MeasureOptions {
  readonly transport: Transport;
  readonly namespace: string;
  readonly runtime: Runtime;
  /** How many cycles, and in proportion how much of everything else. */
  readonly rounds: number;
  /** How many callers want one lock at once. */
  readonly crowd: number;
  readonly durationMsMax: number;
  readonly dollarsMax: number;
  readonly signal: AbortSignal;
  readonly onPhase: (what: string) => void;
}

export interface Measured {
  readonly what: string;
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly model?: { readonly p50Ms: number; readonly p99Ms: number };
}

export interface Measurement {
  readonly rows: readonly Measured[];
  readonly requests: number;
  readonly dollars: number;
  /** Why it ended before all rounds were done. */
  readonly endedBy?: 'duration' | 'dollars';
}

/** The value below which this part of all values lies. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN;
}

/** Counts requests, and how long the service worked on them. */
class Meter {
  requests = 0;
  #writes = 0;
  #busyMs = 0;
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** An estimate: a write for each request, one for the history of each hold, and the time of the functions. */
  get dollars(): number {
    const { httpRequest, invocation, writeUnit, gigabyteSecond } = prices;
    const seconds = this.#busyMs / 1_000;
    const perMillion =
      this.requests * (httpRequest + invocation) +
      this.#writes * writeUnit +
      seconds * functionGigabytes * gigabyteSecond;
    return perMillion / 1_000_000;
  }

  /** Without sockets, waits are long polls. */
  around(inner: Transport, hasSockets: boolean): Transport {
    return {
      request: async (call, signal) => {
        const began = this.#runtime.monotonicMs();
        this.requests += 1;
        this.#writes += call.operation === 'releaseLock' ? 2 : 1;
        try {
          return await inner.request(call, signal);
        } finally {
          this.#busyMs += this.#runtime.monotonicMs() - began;
        }
      },
      ...(hasSockets && inner.socket !== undefined ? { socket: inner.socket.bind(inner) } : {}),
    };
  }
}

export async function measure(options: MeasureOptions): Promise<Measurement> {
  const { runtime, rounds, crowd, signal, onPhase } = options;
  const meter = new Meter(runtime);
  const clients: Holdfast[] = [];
  const client = (hasSockets = true): Holdfast => {
    const transport = meter.around(options.transport, hasSockets);
    const made = new Holdfast({ transport, runtime, namespace: options.namespace, owner: 'holdfast measure' });
    clients.push(made);
    return made;
  };
  const name = (kind: string) => `measure:${kind}:${runtime.newId().slice(0, 16)}`;
  const began = runtime.monotonicMs();
  let endedBy: Measurement['endedBy'];
  const mayGoOn = (): boolean => {
    signal.throwIfAborted();
    if (runtime.monotonicMs() - began > options.durationMsMax) endedBy = 'duration';
    if (meter.dollars > options.dollarsMax) endedBy = 'dollars';
    return endedBy === undefined;
  };
  const times = new Map<string, number[]>();
  const note = (what: string, ms: number) => times.set(what, [...(times.get(what) ?? []), ms]);
  const timed = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const from = runtime.monotonicMs();
    const value = await work();
    note(what, runtime.monotonicMs() - from);
    return value;
  };
  const part = (share: number): number => Math.max(1, Math.round(rounds * share));

  /** One client holds, another one waits. The time counts from the release until the waiter knows. */
  const handOff = async (what: string, holdMs: number, hasSockets: boolean): Promise<void> => {
    const [one, other] = [client(hasSockets), client(hasSockets)];
    const lock = name('hand-off');
    const held = await one.acquire(lock, { waitMs: 0, signal });
    const waiting = other.acquire(lock, { waitMs: 60_000, signal });
    await pause(runtime, holdMs, signal);
    const from = runtime.monotonicMs();
    const [next] = await Promise.all([waiting, held.release()]);
    note(what, runtime.monotonicMs() - from);
    await next.release();
  };

  try {
    onPhase('cycles');
    const alone = client();
    const own = name('cycle');
    for (let round = 0; round < rounds && mayGoOn(); round++) {
      const lock = await timed('acquire a free lock', () => alone.acquire(own, { waitMs: 0, signal }));
      await timed('renew', () => lock.renew());
      await timed('release', () => lock.release());
    }
    onPhase('hand-offs by long poll');
    for (let round = 0; round < part(0.1) && mayGoOn(); round++)
      await handOff('hand-off by long poll', shortHoldMs, false);
    onPhase('hand-offs by push');
    for (let round = 0; round < part(0.1) && mayGoOn(); round++) await handOff('hand-off by push', longHoldMs, true);
    if (mayGoOn()) {
      onPhase(`a stampede of ${crowd}`);
      const wanted = name('stampede');
      const many = Array.from({ length: crowd }, () => client());
      const from = runtime.monotonicMs();
      await Promise.all(
        many.map((each) =>
          each.withLock(wanted, { waitMs: 300_000, signal }, () =>
            note('wait in a stampede', runtime.monotonicMs() - from),
          ),
        ),
      );
    }
    onPhase('failover of a dead holder');
    for (let round = 0; round < part(0.02) && mayGoOn(); round++) {
      const lock = name('failover');
      // It neither renews nor releases, as if its process had been killed.
      const from = runtime.monotonicMs();
      await client().acquire(lock, { waitMs: 0, leaseMs: deadLeaseMs, autoRenew: false, signal });
      const next = await client().acquire(lock, { waitMs: 60_000, signal });
      note(`failover, lease of ${deadLeaseMs} ms`, runtime.monotonicMs() - from);
      await next.release();
    }
  } finally {
    // Releases what is still held, and gives up places in queues.
    await Promise.all(clients.map((each) => each.close()));
  }
  const rows = [...times].map(([what, ms]) => ({
    what,
    count: ms.length,
    p50Ms: Math.round(quantile(ms, 0.5) * 10) / 10,
    p99Ms: Math.round(quantile(ms, 0.99) * 10) / 10,
    ...(modelled[what] === undefined ? {} : { model: modelled[what] }),
  }));
  const { requests, dollars } = meter;
  return { rows, requests, dollars, ...(endedBy === undefined ? {} : { endedBy }) };
}
