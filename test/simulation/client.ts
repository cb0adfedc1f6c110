import { Holdfast } from '../../src/client/holdfast.ts';
import { HttpTransport } from '../../src/client/http-transport.ts';
import type { Runtime } from '../../src/client/runtime.ts';
import type { Transport } from '../../src/client/transport.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from '../world/chance.ts';
import { beginning } from './clock.ts';
import type { Network } from './network.ts';
import { Process } from './process.ts';
import type { Sockets } from './sockets.ts';

/** A client process: the real SDK on a runtime of the simulation. */
export class Client implements Runtime {
  readonly process: Process;
  readonly locks: Holdfast;
  /** For requests that the SDK has no method for. */
  readonly transport: Transport;
  readonly random: () => number;
  readonly #time: VirtualTime;
  /** The monotonic clock of a frozen Lambda stops, and that of a stopped process goes on. One of the two clocks must be right. */
  readonly #freezes: boolean;
  readonly #ratePpm: number;
  #wallAheadMs: number;
  #ids = 0;

  constructor(time: VirtualTime, name: string, chance: Chance, network: Network, sockets?: Sockets) {
    this.#time = time;
    this.process = new Process(time, name);
    this.random = chance.branch().next;
    this.#freezes = chance.happens(0.5);
    this.#ratePpm = chance.between(-200, 200);
    // Nobody trusts a client's clock, so it may show anything.
    this.#wallAheadMs = chance.pick([0, 0, -3_600_000, 86_400_000]);
    const webSocket = sockets?.classFor(this.process, chance.happens(0.5));
    const http = new HttpTransport({ url: 'http://simulated', webSocket });
    const { request } = network.connect(this.process);
    this.transport = webSocket === undefined ? { request } : { request, socket: http.socket.bind(http) };
    this.locks = new Holdfast({
      namespace: 'sim',
      owner: name,
      transport: this.transport,
      runtime: this,
    });
  }

  monotonicMs(): number {
    const passedMs = this.#time.now() - beginning - (this.#freezes ? this.process.pausedMs : 0);
    return passedMs * (1 + this.#ratePpm / 1_000_000);
  }

  wallMs(): number {
    return this.#time.now() + this.#wallAheadMs;
  }

  after(ms: number, run: () => void): () => void {
    return this.process.after(ms, run);
  }

  newId(): string {
    this.#ids += 1;
    return `L-${this.process.name}-${String(this.#ids).padStart(16, '0')}`;
  }

  /** Somebody sets its wall clock. Only if its monotonic clock goes on during a pause. */
  setWall(aheadMs: number): void {
    if (!this.#freezes) this.#wallAheadMs = aheadMs;
  }

  /** Time passes in this process. */
  idle(ms: number): Promise<void> {
    return new Promise((resolve) => this.process.after(ms, resolve));
  }
}
