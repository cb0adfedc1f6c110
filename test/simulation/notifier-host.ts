import type { Context, DynamoDBBatchResponse, DynamoDBRecord, ScheduledEvent, SQSEvent } from 'aws-lambda';
import { ProcessTimers } from '../../src/local/timers.ts';
import type { LockKey } from '../../src/lock/state.ts';
import { ApiGatewayConnections, LambdaCallbacks, StepFunctionsTasks } from '../../src/notify/aws/deliveries.ts';
import { EventBridgeBus } from '../../src/notify/aws/event-bus.ts';
import { createReaperHandler } from '../../src/notify/aws/reaper-handler.ts';
import { SqsTimers } from '../../src/notify/aws/timers.ts';
import { HandOffs } from '../../src/notify/hand-offs.ts';
import { notifierEffects } from '../../src/notify/notifier.ts';
import { type LockTimers, noMeter } from '../../src/notify/ports.ts';
import { publisherEffects } from '../../src/notify/publisher.ts';
import { createReaper, type Reaper } from '../../src/notify/reaper.ts';
import { createStreamHandler, type StreamHandler } from '../../src/notify/stream-handler.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { after } from '../../src/time/clock.ts';
import type { Log } from '../../src/tools/log.ts';
import { missedByFilter } from '../support/missed-by-filter.ts';
import { type Cause, runAs } from './cause.ts';
import type { Chance } from './chance.ts';
import type { DriftingClock } from './clock.ts';
import { lockContextOf, timersOf } from './lock-context.ts';
import type { Outside } from './outside.ts';
import { Process } from './process.ts';
import { StorePath } from './store-path.ts';

/** The timeout of the reaper's function. */
const reaperMsMax = 30_000;
/** As in the local service: after a failed look, the next one comes after this time. */
const lookAgainMs = 1_000;

interface NotifierParts {
  readonly name: string;
  readonly time: VirtualTime;
  readonly clock: DriftingClock;
  readonly chance: Chance;
  readonly outside: Outside;
  /** Timers as delayed messages, as deployed, or inside the process, as on one machine. */
  readonly timers: 'queue' | 'process';
  readonly path: Omit<ConstructorParameters<typeof StorePath>[0], 'process' | 'time' | 'chance'>;
}

const silent: Log = { info: () => {}, warn: () => {}, error: () => {} };

/** One process with notifier and reaper: the code that is deployed, including its calls of AWS. */
export class NotifierHost {
  readonly process: Process;
  readonly clock: DriftingClock;
  readonly #notifier: StreamHandler;
  readonly #reaper: Reaper;
  readonly #handOffs: HandOffs;
  readonly #reap: ReturnType<typeof createReaperHandler>;
  readonly #time: VirtualTime;

  constructor({ name, time, clock, chance, outside, timers: kind, path }: NotifierParts) {
    this.process = new Process(time, name);
    this.clock = clock;
    this.#time = time;
    const { process } = this;
    const stores = new StorePath({ ...path, time, process, chance: chance.branch() });
    const timers = timersOf(process, time);
    const random = chance.branch().next;
    const newId = () => {
      throw new Error(`${name} never makes an id.`);
    };
    const locks = lockContextOf({
      clock,
      timers,
      random,
      stores,
      waiting: 'polled',
      sizes: path.conditions.sizes,
      newId,
    });
    const client = outside.clientOf(process);
    const own = new ProcessTimers({ clock, timers });
    const lockTimers: LockTimers =
      kind === 'process' ? own : new SqsTimers({ client, queueUrl: 'timers', notes: stores.timerNotes, clock });
    own.onFire((key) => void this.#lookAt(key, own));
    const shared = {
      bus: new EventBridgeBus({ client, busName: 'events', log: silent, timers, random }),
      connections: new ApiGatewayConnections({ client }),
      meter: noMeter,
      log: silent,
    };
    const tasks = new StepFunctionsTasks({ client });
    const callbacks = new LambdaCallbacks({ client });
    const { deliveries, history, watchers } = stores;
    this.#handOffs = new HandOffs({ ...shared, locks, deliveries });
    this.#notifier = createStreamHandler(
      [
        ...notifierEffects({ ...shared, locks, tasks, callbacks, timers: lockTimers, deliveries }),
        ...publisherEffects({ ...shared, clock, pauses: timers, history, watchers }),
      ],
      silent,
    );
    this.#reaper = createReaper({ locks, timers: lockTimers, awaited: stores.awaited, log: silent });
    this.#reap = createReaperHandler(this.#reaper, { clock, log: silent });
  }

  notify(records: readonly DynamoDBRecord[]): Promise<DynamoDBBatchResponse> {
    if (missedByFilter(records).length > 0) throw new Error('The filter keeps work from the notifier.');
    return runAs(this.#cause('notify'), () => this.#notifier({ Records: [...records] }));
  }

  /** A timer fires. False if it must come again. */
  async fire(body: string): Promise<boolean> {
    const event = { Records: [{ messageId: 'timer', body }] } as unknown as SQSEvent;
    const { batchItemFailures } = await runAs(this.#cause('time'), () => this.#reap(event, this.#context));
    await this.#handOffs.settle();
    return batchItemFailures.length === 0;
  }

  /** The schedule asks for a sweep. */
  async sweep(): Promise<void> {
    await runAs(this.#cause('time'), () => this.#reap({} as ScheduledEvent, this.#context)).catch(() => undefined);
  }

  async #lookAt(key: LockKey, own: ProcessTimers): Promise<void> {
    await this.#reaper.look(key).catch(() => own.arm(key, after(this.clock.now(), lookAgainMs)));
  }

  get #context(): Context {
    return { getRemainingTimeInMillis: () => reaperMsMax } as Context;
  }

  #cause(operation: string): Cause {
    const { name } = this.process;
    return { operation, client: '', host: name, arrivedAt: this.#time.now(), names: [], knownDead: new Set() };
  }
}
