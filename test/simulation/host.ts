import { type Answer, type Call, pathOf } from '../../src/client/transport.ts';
import { type Operation, operations } from '../../src/contract/operations.ts';
import { instanceOf, operate } from '../../src/http/handler.ts';
import { toProblem } from '../../src/http/problems.ts';
import type { Service } from '../../src/http/service.ts';
import type { LockState } from '../../src/lock/state.ts';
import { ApiGatewayConnections } from '../../src/notify/aws/deliveries.ts';
import { HandOffs } from '../../src/notify/hand-offs.ts';
import { MemoryHistory } from '../../src/store/memory/history-store.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { apiGatewayWebsocketHandler } from '../../src/websocket/api-gateway.ts';
import { createWebsocketHandler, type Opening } from '../../src/websocket/handler.ts';
import { type Cause, causeOfTimer, runAs } from './cause.ts';
import type { Chance } from './chance.ts';
import type { DriftingClock } from './clock.ts';
import { lockContextOf, timersOf } from './lock-context.ts';
import type { Outside } from './outside.ts';
import { Process } from './process.ts';
import type { SocketHost } from './sockets.ts';
import { StorePath } from './store-path.ts';

export interface HostParts {
  readonly name: string;
  readonly time: VirtualTime;
  readonly clock: DriftingClock;
  readonly chance: Chance;
  readonly waiting: 'notified' | 'polled';
  readonly path: Omit<ConstructorParameters<typeof StorePath>[0], 'process' | 'time' | 'chance'>;
  /** If missing, there are no WebSockets. */
  readonly outside?: Outside | undefined;
}

const silent = { info: () => {}, warn: () => {}, error: () => {} };

/** One process that serves: the real code behind the routes, with clock, timers and random numbers of the simulation. */
export class Host implements SocketHost {
  readonly process: Process;
  readonly clock: DriftingClock;
  readonly waiting: 'notified' | 'polled';
  readonly #service: Service;
  readonly #handOffs: HandOffs | undefined;
  readonly #websocket: ReturnType<typeof apiGatewayWebsocketHandler>;
  readonly #time: VirtualTime;

  constructor({ name, time, clock, chance, waiting, path, outside }: HostParts) {
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
    const locks = lockContextOf({ clock, timers, random, stores, waiting, sizes: path.conditions.sizes, newId });
    this.#service = {
      locks,
      records: { store: stores.records, clock, newWriteId: () => newId('W') },
      history: new MemoryHistory({ clock }),
      probe: () => Promise.resolve(),
      engine: 'simulated',
      version: 'simulated',
      sockets: outside && { store: stores.sockets, url: () => 'ws://simulated/v1/watch' },
    };
    const { watchers, sockets, deliveries } = stores;
    this.#websocket = apiGatewayWebsocketHandler(
      createWebsocketHandler({ watchers, sockets, locks, needsTicket: true, log: silent }),
    );
    const connections = outside && new ApiGatewayConnections({ client: outside.clientOf(process) });
    this.#handOffs = connections && new HandOffs({ locks, connections, deliveries, log: silent });
  }

  /** Answers, unless it is killed before. */
  serve(call: Call, cause: Cause, gone: AbortSignal): Promise<Answer> {
    return runAs(cause, async () => {
      const answer = await this.#answer(call, cause, gone);
      await this.#handOffs?.settle();
      return answer;
    });
  }

  async connect({ requestId, connectionId, connectedAt, query }: Opening): Promise<number> {
    const context = { routeKey: '$connect', connectionId, connectedAt, requestId };
    const event = { requestContext: context, queryStringParameters: query };
    const { statusCode = 500 } = await runAs(this.#cause('connect'), () => this.#websocket(event));
    return statusCode;
  }

  async message(connectionId: string): Promise<string> {
    const context = { routeKey: '$default', connectionId, connectedAt: 0, requestId: 'message' };
    return (await this.#websocket({ requestContext: context })).body ?? '';
  }

  async disconnect(connectionId: string): Promise<boolean> {
    const context = { routeKey: '$disconnect', connectionId, connectedAt: 0, requestId: 'disconnect' };
    try {
      await runAs(this.#cause('disconnect'), () => this.#websocket({ requestContext: context }));
      return true;
    } catch {
      return false;
    }
  }

  /** Acts like an adapter, for a caller whose name the gateway has checked. */
  async #answer(call: Call, { client: caller }: Cause, signal: AbortSignal): Promise<Answer> {
    const { operation, method, parameters, query = {}, headers } = call;
    const id = `request-${this.process.name}`;
    try {
      const reply = await operate(this.#service, {
        id,
        operation: operation in operations ? (operation as Operation) : undefined,
        method,
        path: pathOf(call),
        parameters,
        query,
        headers: { 'content-type': 'application/json', ...headers },
        body: call.body === undefined ? undefined : JSON.stringify(call.body),
        caller,
        signal,
      });
      const body = reply.text === undefined ? reply.body : JSON.parse(reply.text);
      return { status: reply.status, headers: { ...reply.headers }, body };
    } catch (error) {
      const problem = toProblem(error);
      return { status: problem.status, headers: {}, body: { ...problem.toJSON(), instance: instanceOf(id) } };
    }
  }

  #cause(operation: string): Cause {
    const { name } = this.process;
    return { operation, client: '', host: name, arrivedAt: this.#time.now(), names: [], knownDead: new Set() };
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
