import type { Answer, Call } from '../../src/client/transport.ts';
import type { Service } from '../../src/http/service.ts';
import type { LockState } from '../../src/lock/state.ts';
import { ApiGatewayConnections } from '../../src/notify/aws/deliveries.ts';
import { defaultTableName } from '../../src/table/shape.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Timers } from '../../src/time/timers.ts';
import type { Opening } from '../../src/websocket/handler.ts';
import type { Chance } from '../world/chance.ts';
import {
  handOffsIn,
  httpIn,
  type ProcessAccess,
  serviceIn,
  silent,
  socketRoutes,
  websocketIn,
} from '../world/functions.ts';
import { type Cause, causeOfTimer, runAs } from './cause.ts';
import type { DriftingClock } from './clock.ts';
import type { Outside } from './outside.ts';
import { Process } from './process.ts';
import { ofRelease, type Release } from './release.ts';
import type { SocketHost } from './sockets.ts';
import { type PathParts, TablePath } from './table-path.ts';

export type WayToTable = Omit<PathParts, 'process' | 'time' | 'chance' | 'release'>;

export interface HostParts {
  readonly name: string;
  readonly time: VirtualTime;
  readonly clock: DriftingClock;
  readonly chance: Chance;
  readonly waiting: 'notified' | 'polled';
  readonly release: Release;
  readonly path: WayToTable;
  /** If missing, there are no WebSockets. */
  readonly outside?: Outside | undefined;
}

/** The timers of a process. Each remembers the cause that set it. */
export const timersOf = (process: Process, time: VirtualTime): Timers => ({
  after: (ms, run) => {
    const cause = causeOfTimer(process.name, time.now() + ms);
    return process.after(ms, () => runAs(cause, run));
  },
});

/** The table, clock, timers and random numbers of a process of the simulation. */
export function accessOf(
  process: Process,
  { time, clock, chance, release, path }: Pick<HostParts, 'time' | 'clock' | 'chance' | 'release' | 'path'>,
): ProcessAccess {
  const table = ofRelease(release, new TablePath({ ...path, time, process, release, chance: chance.branch() }));
  const timers = timersOf(process, time);
  return { table, tableName: defaultTableName, clock, timers, random: chance.branch().next };
}

/** One process that serves: the real code behind the routes, with table, clock, timers and random numbers of the simulation. */
export class Host implements SocketHost {
  readonly process: Process;
  readonly clock: DriftingClock;
  readonly waiting: 'notified' | 'polled';
  readonly release: Release;
  readonly #service: Service;
  readonly #answer: ReturnType<typeof httpIn>;
  readonly #sockets: ReturnType<typeof socketRoutes>;
  readonly #time: VirtualTime;

  constructor(parts: HostParts) {
    const { name, time, clock, waiting, release, path, outside } = parts;
    this.process = new Process(time, name);
    this.clock = clock;
    this.waiting = waiting;
    this.release = release;
    this.#time = time;
    const access = accessOf(this.process, parts);
    let ids = 0;
    this.#service = serviceIn({
      access,
      alone: waiting === 'notified',
      sizes: path.conditions.sizes,
      socketUrl: outside && 'ws://simulated/v1/watch',
      newId: (kind) => `${kind}-${name}-${String(++ids).padStart(16, '0')}`,
    });
    this.#sockets = socketRoutes(websocketIn(this.#service, access));
    const connections = outside && new ApiGatewayConnections({ client: outside.clientOf(this.process) });
    const handOffs = connections && handOffsIn(this.#service, access, connections);
    this.#answer = httpIn(this.#service, {
      ...(handOffs && { handOffs }),
      log: { ...silent, error: (_, fields) => this.#noteLayout(path, fields) },
    });
  }

  /** Answers, unless it is killed before. */
  serve(call: Call, cause: Cause, signal: AbortSignal): Promise<Answer> {
    return runAs(cause, () => this.#answer(call, { name: cause.client, signal }));
  }

  connect(opening: Opening): Promise<number> {
    return runAs(this.#cause('connect'), () => this.#sockets.connect(opening));
  }

  async message(connectionId: string): Promise<string> {
    return (await this.#sockets.message(connectionId)) ?? '';
  }

  disconnect(connectionId: string): Promise<boolean> {
    const told = runAs(this.#cause('disconnect'), () => this.#sockets.disconnect(connectionId));
    return told.then(
      () => true,
      () => false,
    );
  }

  #cause(operation: string): Cause {
    const { name } = this.process;
    return { operation, client: '', host: name, arrivedAt: this.#time.now(), names: [], knownDead: new Set() };
  }

  /** The log must say why an older release refuses: a newer one wrote the item. */
  #noteLayout({ verdicts }: WayToTable, fields: object | undefined): void {
    if (JSON.stringify(fields).includes('a newer release wrote')) verdicts.count('releases: refused and logged');
  }

  /** The table's stream shows a change, perhaps late, perhaps twice. */
  show(name: string, namespace: string, state: LockState): void {
    if (this.waiting !== 'notified') return;
    this.process.deliver(() =>
      runAs(causeOfTimer(this.process.name, this.#time.now()), () =>
        this.#service.locks.cache.learn({ namespace, name }, state),
      ),
    );
  }
}
