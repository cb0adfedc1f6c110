import type { Context, DynamoDBBatchResponse, DynamoDBRecord, ScheduledEvent, SQSEvent } from 'aws-lambda';
import { ProcessTimers } from '../../src/local/timers.ts';
import type { LockKey } from '../../src/lock/state.ts';
import { ApiGatewayConnections, LambdaCallbacks, StepFunctionsTasks } from '../../src/notify/aws/deliveries.ts';
import { EventBridgeBus } from '../../src/notify/aws/event-bus.ts';
import { SqsTimers } from '../../src/notify/aws/timers.ts';
import type { HandOffs } from '../../src/notify/hand-offs.ts';
import { type LockTimers, noMeter } from '../../src/notify/ports.ts';
import { TimerNotes } from '../../src/store/notices.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { after } from '../../src/time/clock.ts';
import { missedByFilter } from '../support/missed-by-filter.ts';
import {
  handOffsIn,
  notifierEffectsIn,
  publisherEffectsIn,
  reaperIn,
  serviceIn,
  silent,
  streamReaderIn,
} from '../world/functions.ts';
import { type Cause, runAs } from './cause.ts';
import type { DriftingClock } from './clock.ts';
import { accessOf, type HostParts } from './host.ts';
import type { Outside } from './outside.ts';
import { Process } from './process.ts';
import { recordsFor } from './release.ts';

/** The timeout of the reaper's function. */
const reaperMsMax = 30_000;
/** As in the local service: after a failed look, the next one comes after this time. */
const lookAgainMs = 1_000;

interface NotifierParts extends Omit<HostParts, 'waiting' | 'outside'> {
  readonly outside: Outside;
  /** Timers as delayed messages, as deployed, or inside the process, as on one machine. */
  readonly timers: 'queue' | 'process';
}

/** One process with notifier and reaper: the code that is deployed, including its calls of AWS. */
export class NotifierHost {
  readonly process: Process;
  readonly clock: DriftingClock;
  readonly release: HostParts['release'];
  readonly #notifier: ReturnType<typeof streamReaderIn>;
  readonly #reaper: ReturnType<typeof reaperIn>;
  readonly #handOffs: HandOffs;
  readonly #time: VirtualTime;

  constructor(parts: NotifierParts) {
    const { name, time, clock, outside, timers: kind, path, release } = parts;
    this.process = new Process(time, name);
    this.clock = clock;
    this.release = release;
    this.#time = time;
    const access = accessOf(this.process, parts);
    const { timers, random } = access;
    const newId = () => {
      throw new Error(`${name} never makes an id.`);
    };
    const service = serviceIn({ access, sizes: path.conditions.sizes, newId });
    const client = outside.clientOf(this.process);
    const own = new ProcessTimers({ clock, timers });
    const notes = new TimerNotes(access);
    const lockTimers: LockTimers =
      kind === 'process' ? own : new SqsTimers({ client, queueUrl: 'timers', notes, clock });
    own.onFire((key) => void this.#lookAt(key, own));
    const ports = {
      bus: new EventBridgeBus({ client, busName: 'events', log: silent, timers, random }),
      connections: new ApiGatewayConnections({ client }),
      tasks: new StepFunctionsTasks({ client }),
      callbacks: new LambdaCallbacks({ client }),
      timers: lockTimers,
      meter: noMeter,
    };
    this.#handOffs = handOffsIn(service, access, ports.connections);
    const effects = [...notifierEffectsIn(service, access, ports), ...publisherEffectsIn(access, ports)];
    this.#notifier = streamReaderIn(effects, noMeter);
    this.#reaper = reaperIn(service, access, lockTimers);
  }

  notify(shown: readonly DynamoDBRecord[]): Promise<DynamoDBBatchResponse> {
    const records = recordsFor(this.release, shown);
    if (missedByFilter(records).length > 0) throw new Error('The filter keeps work from the notifier.');
    return runAs(this.#cause('notify'), () => this.#notifier({ Records: [...records] }));
  }

  /** A timer fires. False if it must come again. */
  async fire(body: string): Promise<boolean> {
    const event = { Records: [{ messageId: 'timer', body }] } as unknown as SQSEvent;
    const { batchItemFailures } = await runAs(this.#cause('time'), () => this.#reaper.handle(event, this.#context));
    await this.#handOffs.settle();
    return batchItemFailures.length === 0;
  }

  /** The schedule asks for a sweep. */
  async sweep(): Promise<void> {
    const swept = runAs(this.#cause('time'), () => this.#reaper.handle({} as ScheduledEvent, this.#context));
    await swept.catch(() => undefined);
  }

  async #lookAt(key: LockKey, own: ProcessTimers): Promise<void> {
    await this.#reaper.reaper.look(key).catch(() => own.arm(key, after(this.clock.now(), lookAgainMs)));
  }

  get #context(): Context {
    return { getRemainingTimeInMillis: () => reaperMsMax } as Context;
  }

  #cause(operation: string): Cause {
    const { name } = this.process;
    return { operation, client: '', host: name, arrivedAt: this.#time.now(), names: [], knownDead: new Set() };
  }
}
