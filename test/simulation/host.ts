import type { Answer, Call } from '../../src/client/transport.ts';
import type { Service } from '../../src/http/service.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import type { LockState } from '../../src/lock/state.ts';
import { DirectTransport } from '../../src/server/direct-transport.ts';
import { BellRoom } from '../../src/service/bell-room.ts';
import { announce } from '../../src/service/context.ts';
import { PacedRoom } from '../../src/service/paced-room.ts';
import { RefusalMemory } from '../../src/service/refusal-memory.ts';
import { StoredSessionFacts } from '../../src/service/sessions.ts';
import { pollMsDefault } from '../../src/service/system.ts';
import { MemoryHistory } from '../../src/store/memory/history-store.ts';
import type { Timers } from '../../src/time/timers.ts';
import { type Cause, causeOfTimer, runAs } from './cause.ts';
import type { Chance } from './chance.ts';
import type { DriftingClock, TrueTime } from './clock.ts';
import { Process } from './process.ts';
import { StorePath } from './store-path.ts';

export interface HostParts {
  readonly name: string;
  readonly time: TrueTime;
  readonly clock: DriftingClock;
  readonly chance: Chance;
  readonly waiting: 'bell' | 'paced';
  readonly path: Omit<ConstructorParameters<typeof StorePath>[0], 'process' | 'time' | 'chance'>;
}

/** One process that serves: the very code behind the routes, on a clock, timers and chance of the simulation. */
export class Host {
  readonly process: Process;
  readonly clock: DriftingClock;
  readonly waiting: 'bell' | 'paced';
  readonly #service: Service;
  readonly #operations: DirectTransport;
  readonly #time: TrueTime;

  constructor({ name, time, clock, chance, waiting, path }: HostParts) {
    this.process = new Process(time, name);
    this.clock = clock;
    this.waiting = waiting;
    this.#time = time;
    const { process } = this;
    const stores = new StorePath({ ...path, time, process, chance: chance.branch() });
    const timers: Timers = {
      after: (ms, run) => {
        const cause = causeOfTimer(name, time.now + ms);
        return process.after(ms, () => runAs(cause, run));
      },
    };
    const { graceMs } = lockLimits;
    const random = chance.branch().next;
    let ids = 0;
    this.#service = {
      locks: {
        store: stores.locks,
        clock,
        timers,
        random,
        newLeaseId: () => `L-${name}-${String(++ids).padStart(16, '0')}`,
        newSessionId: () => `S-${name}-${String(++ids).padStart(16, '0')}`,
        graceMs,
        pollMs: pollMsDefault,
        room: waiting === 'bell' ? new BellRoom({ clock, timers }) : new PacedRoom({ timers, random }),
        refusals: new RefusalMemory(clock),
        sessionStore: stores.sessions,
        sessions: new StoredSessionFacts({ store: stores.sessions, graceMs }),
      },
      records: { store: stores.records, clock, newWriteId: () => `W-${name}-${String(++ids).padStart(16, '0')}` },
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
    if (this.waiting !== 'bell') return;
    this.process.deliver(() =>
      runAs(causeOfTimer(this.process.name, this.#time.now), () =>
        announce(this.#service.locks, { namespace, name }, state),
      ),
    );
  }
}
