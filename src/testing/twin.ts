import { type ClientOptions, Holdfast } from '../client/holdfast.ts';
import type { Call, Transport, WatchHandlers } from '../client/transport.ts';
import { historyView } from '../notify/change-events.ts';
import { DirectTransport } from '../server/direct-transport.ts';
import type { HistoryEntry } from '../store/history.ts';
import { type FaultMatch, FaultyTransport } from './faults.ts';
import { memoryService } from './memory-service.ts';
import { StallWatch } from './stall-watch.ts';
import { seededRandom, VirtualProcess, VirtualTime } from './virtual-time.ts';

export interface TwinOptions {
  /** The namespace of all its clients, `test` by default. */
  readonly namespace?: string | undefined;
  /** Changes the random numbers. The same seed always gives the same run. */
  readonly seed?: number | undefined;
}

/** A day: no lease or wait may last longer. */
const untilMsMax = 86_400_000;

interface Member {
  readonly name: string;
  readonly process: VirtualProcess;
  readonly transport: FaultyTransport;
}

interface Watcher {
  readonly query: Readonly<Record<string, string>>;
  readonly handlers: WatchHandlers;
}

/**
 * The whole service in the memory of a test, in time that the test controls: the same SDK, the same rules, the same
 * answers. Each client is its own process, which can be cut off or frozen.
 *
 * @example
 * ```ts
 * const twin = new Twin();
 * const [one, other] = [twin.client(), twin.client()];
 * const lock = await one.acquire('wallet:42', { leaseMs: 10_000 });
 * twin.partition(one);
 * await twin.advance(11_000);
 * expect(lock.signal.aborted).toBe(true);
 * await other.acquire('wallet:42', { waitMs: 0 });
 * ```
 */
export class Twin {
  readonly namespace: string;
  readonly #time = new VirtualTime();
  readonly #seed: number;
  readonly #members = new Map<Holdfast, Member>();
  readonly #watchers = new Set<Watcher>();
  readonly #open = new Set<{ readonly name: string; readonly call: Call }>();
  readonly #stalls: StallWatch;
  readonly #service: Transport;
  readonly #expire: (key: { namespace: string; name: string }) => Promise<void>;

  constructor({ namespace = 'test', seed = 1 }: TwinOptions = {}) {
    this.namespace = namespace;
    this.#seed = seed;
    // Taken now, so that a test which fakes timers later still gets the warning.
    const { setTimeout: after } = globalThis;
    this.#stalls = new StallWatch({
      waiting: () => this.#waiting(),
      warn: (message) => console.warn(message),
      // It must not keep a test's process alive.
      after: (ms, run) => void after(run, ms).unref?.(),
    });
    const { service, expire } = memoryService(this.#time, seededRandom(seed), (entry) => this.#show(entry));
    this.#expire = expire;
    const direct = new DirectTransport(service);
    this.#service = {
      request: (call, signal) => direct.request(call, signal),
      watch: (query, handlers) => this.#watch({ query, handlers }),
    };
  }

  /** A new client, in its own process. It takes the options of a real client, except the address of the service. */
  client(options: Partial<Omit<ClientOptions, 'runtime'>> = {}): Holdfast {
    const number = this.#members.size + 1;
    const name = `client ${number}`;
    const process = new VirtualProcess(this.#time, `client-${number}`, this.#seed + number, () => this.#stalls.arm());
    const transport = new FaultyTransport(this.#noting(name), process);
    const locks = new Holdfast({ namespace: this.namespace, ...options, transport, runtime: process });
    this.#members.set(locks, { name, process, transport });
    return locks;
  }

  /** The time in the twin, in epoch milliseconds. */
  now(): number {
    return this.#time.now();
  }

  /** Lets this much time pass, and runs everything that becomes due, in order. */
  advance(ms: number): Promise<void> {
    return this.#stalls.during(() => this.#time.advance(ms));
  }

  /** Runs everything that needs no time. */
  settle(): Promise<void> {
    return this.advance(0);
  }

  /**
   * Lets time pass until the promise settles. Returns its value, or throws its error.
   *
   * @example
   * ```ts
   * await expect(twin.until(other.acquire('wallet:42', { waitMs: 60_000 }))).rejects.toThrow(WaitTimeoutError);
   * ```
   */
  async until<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const done = () => {
      settled = true;
    };
    promise.then(done, done);
    const latest = this.#time.now() + untilMsMax;
    await this.settle();
    while (!settled) {
      const { nextAt } = this.#time;
      if (nextAt === undefined || nextAt > latest) {
        const left = this.#waiting();
        const why = nextAt === undefined ? 'no timer is left' : 'a day of virtual time has passed';
        throw new Error(`The promise did not settle: ${why}.${left.length === 0 ? '' : ` Open: ${left.join('; ')}.`}`);
      }
      await this.advance(nextAt - this.#time.now());
    }
    return promise;
  }

  /** The next matching request does not arrive. Its caller sees the connection break. */
  loseRequest(client: Holdfast, match?: FaultMatch): void {
    this.#member(client).transport.script('lose-request', match);
  }

  /** The next matching request takes effect, but its answer does not arrive. */
  loseResponse(client: Holdfast, match?: FaultMatch): void {
    this.#member(client).transport.script('lose-response', match);
  }

  /** The next matching request takes effect at once, but its answer arrives only after this delay. */
  delay(client: Holdfast, delayMs: number, match?: FaultMatch): void {
    this.#member(client).transport.script('delay', match, delayMs);
  }

  /**
   * The next matching request takes effect, and its answer neither arrives nor fails. The client's own time limit must
   * end it.
   */
  hang(client: Holdfast, match?: FaultMatch): void {
    this.#member(client).transport.script('hang', match);
  }

  /** The next matching request is answered with 503. */
  failUnavailable(client: Holdfast, match?: FaultMatch): void {
    this.#member(client).transport.script('unavailable', match);
  }

  /** The next matching request is answered with 429. */
  throttle(client: Holdfast, match?: FaultMatch): void {
    this.#member(client).transport.script('throttle', match);
  }

  /** Cuts off one client, or all of them: neither requests nor answers arrive. */
  partition(client?: Holdfast): void {
    for (const { transport } of this.#chosen(client)) transport.partition();
  }

  /** Ends a partition, and drops all faults that were not applied yet. */
  heal(client?: Holdfast): void {
    for (const { transport } of this.#chosen(client)) transport.heal();
  }

  /**
   * Freezes a client as Lambda does between invocations: its timers and its monotonic clock stop while time goes on.
   */
  freeze(client: Holdfast): void {
    this.#member(client).process.freeze();
  }

  /** Thaws a client: its timers go on where they stopped, and answers that arrived in the meantime are read. */
  async thaw(client: Holdfast): Promise<void> {
    this.#member(client).process.thaw();
    await this.settle();
  }

  /** Ends the leases on a lock as if their time were over, and grants it to the next waiter. */
  async expire(lock: string): Promise<void> {
    await this.#expire({ namespace: this.namespace, name: lock });
    await this.settle();
  }

  /** The service, with a note of each request that it has not answered yet. */
  #noting(name: string): Transport {
    const service = this.#service;
    return {
      ...service,
      request: async (call, signal) => {
        const note = { name, call };
        this.#open.add(note);
        try {
          return await service.request(call, signal);
        } finally {
          this.#open.delete(note);
        }
      },
    };
  }

  /** What goes on only when time passes, for people. */
  #waiting(): string[] {
    const requests = [...this.#open].map(({ name, call: { operation, parameters } }) =>
      `${operation} ${parameters.name ?? ''}`.trim().concat(` of ${name}`),
    );
    if (requests.length > 0) return requests;
    return [...this.#members.values()]
      .filter(({ process }) => process.isWaiting)
      .map(({ name }) => `${name}, which pauses before its next request`);
  }

  #member(client: Holdfast): Member {
    const member = this.#members.get(client);
    if (member === undefined) throw new Error('This client was not made by this twin.');
    return member;
  }

  #chosen(client: Holdfast | undefined): Member[] {
    return client === undefined ? [...this.#members.values()] : [this.#member(client)];
  }

  #watch(watcher: Watcher): () => void {
    this.#watchers.add(watcher);
    const connectionId = `connection-${this.#watchers.size}`;
    queueMicrotask(() => watcher.handlers.message({ type: 'connected', connectionId }));
    return () => this.#watchers.delete(watcher);
  }

  #show({ key, event }: HistoryEntry): void {
    for (const { query, handlers } of this.#watchers) {
      if (query.namespace !== key.namespace) continue;
      const wanted = query.lock === undefined ? key.name.startsWith(query.prefix ?? '') : key.name === query.lock;
      if (wanted) handlers.message({ ...historyView(event), lock: key.name });
    }
  }
}
