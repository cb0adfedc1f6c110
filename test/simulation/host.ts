import type { Answer, Call } from '../../src/client/transport.ts';
import type { Service } from '../../src/http/service.ts';
import type { LockState } from '../../src/lock/state.ts';
import { DirectTransport } from '../../src/server/direct-transport.ts';
import { MemoryHistory } from '../../src/store/memory/history-store.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { type Cause, causeOfTimer, runAs } from './cause.ts';
import type { Chance } from './chance.ts';
import type { DriftingClock } from './clock.ts';
import { lockContextOf, timersOf } from './lock-context.ts';
import { Process } from './process.ts';
import { StorePath } from './store-path.ts';

export interface HostParts {
  readonly name: string;
  readonly time: VirtualTime;
  readonly clock: DriftingClock;
  readonly chance: Chance;
  readonly waiting: 'notified' | 'polled';
  readonly path: Omit<ConstructorParameters<typeof StorePath>[0], 'process' | 'time' | 'chance'>;
}

/** One process that serves: the very code behind the routes, on a clock, timers and chance of the simulation. */
export class Host {
  readonly process: Process;
  readonly clock: DriftingClock;
  readonly waiting: 'notified' | 'polled';
  readonly #service: Service;
  readonly #operations: DirectTransport;
  readonly #time: VirtualTime;

  constructor({ name, time, clock, chance, waiting, path }: HostParts) {
    this.process = new Process(time, name);
    this.clock = clock;
    this.waiting = waiting;
    this.#time = time;
    const { process } = this;
    const stores = new StorePath({ ...path, time, process, chance: chance.branch() });
    const timers = timersOf(process, time);
    const random = chance.branch().next;
    let ids = 0;
    const newId = (kind: string) => `${kind}-${name}-${String(++ids).padStart(16, '0')}`;
    this.#service = {
      locks: lockContextOf({ clock, timers, random, stores, waiting, sizes: path.conditions.sizes, newId }),
      records: { store: stores.records, clock, newWriteId: () => newId('W') },
      history: new MemoryHistory({ clock }),
      probe: () => Promise.resolve(),
      engine: 'simulated',
      version: 'simulated',
    };
    this.#operations = new DirectTransport(this.#service);
  }

  /** Answers, unless it is killed before. */
  serve(call: Call, cause: Cause, gone: AbortSignal): Promise<Answer> {
    return runAs(cause, () => this.#operations.request(call, gone));
  }

  /** The table's stream shows a change, perhaps late, perhaps twice. */
  show(name: string, namespace: string, state: LockState): void {
    if (this.waiting !== 'notified') return;
    this.process.deliver(() =>
      runAs(causeOfTimer(this.process.name, this.#time.now()), () =>
        this.#service.locks.memory.learn({ namespace, name }, state),
      ),
    );
  }
}
