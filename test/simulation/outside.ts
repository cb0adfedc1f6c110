/**
 * What the service calls outside of itself: an event bus, tasks that wait for a token, WebSocket connections, and the queue of
 * timers. The service's own adapters call it like AWS. Each call may fail, have its effect without an answer, late, or twice.
 */
import { PostToConnectionCommand } from '@aws-sdk/client-apigatewaymanagementapi';
import { PutEventsCommand } from '@aws-sdk/client-eventbridge';
import {
  SendDurableExecutionCallbackFailureCommand,
  SendDurableExecutionCallbackSuccessCommand,
} from '@aws-sdk/client-lambda';
import { SendTaskFailureCommand, SendTaskSuccessCommand } from '@aws-sdk/client-sfn';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import type { Notify } from '../../src/lock/state.ts';
import { grantedToWaiter } from '../../src/notify/parked.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { type Cause, causeNow } from './cause.ts';
import type { Chance } from './chance.ts';
import type { Conditions } from './conditions.ts';
import { addressOfCallback, type Delivery, type NotifierPromises } from './notifier-promises.ts';
import type { Process } from './process.ts';
import type { Sockets } from './sockets.ts';
import type { StoreWeather } from './table-path.ts';
import type { TimerQueue } from './timer-queue.ts';
import type { Verdicts } from './verdicts.ts';

/** If nobody answers a call, its client gives up after two tries of two seconds. */
const unansweredMs = 4_000;

interface OutsideParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly conditions: Conditions;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  readonly promises: () => NotifierPromises;
  readonly queue: TimerQueue;
  readonly sockets: () => Sockets;
}

/** An address for deliveries. It is open until it is closed. */
interface Address {
  readonly owner: Process;
  readonly hear: (message: unknown) => void;
  /** A connection keeps its messages in order and loses none while it is open. The bus and the state machine do not promise that. */
  readonly inOrder: boolean;
  /** When its latest message arrives. */
  arrivesAt: number;
  isOpen: boolean;
}

/** A parked waiter. */
export interface Listener {
  readonly notify: Notify;
  close(): void;
}

type Performed = { readonly value: object } | { readonly error: Error };

const failure = (name: string, attempts = 1): Error =>
  Object.assign(new Error(`The outside says ${name}.`), {
    name,
    // A call that got no answer has no status.
    $metadata: { attempts, ...(name === 'TimeoutError' ? {} : { httpStatusCode: 400 }) },
  });

/** Lambda's ids of callbacks have no dash. */
const idOfCallback = (address: string): string => address.replaceAll('-', '/');

export class Outside {
  readonly #parts: OutsideParts;
  readonly #addresses = new Map<string, Address>();
  #opened = 0;

  constructor(parts: OutsideParts) {
    this.#parts = parts;
  }

  /** A client that parks chooses how its grant is delivered, and gets the delivery here. */
  listen(owner: Process, type: Notify['type'], hear: (message: unknown) => void): Listener {
    this.#opened += 1;
    const letter = { event: 'R', 'task-token': 'T', 'durable-callback': 'T', websocket: 'C' }[type];
    const id = `${letter}-${owner.name}-${this.#opened}`;
    const address: Address = { owner, hear, inOrder: type === 'websocket', arrivesAt: 0, isOpen: true };
    this.#addresses.set(id, address);
    const close = () => {
      address.isOpen = false;
    };
    // A connection dies with its process. A task lives on in its state machine, and a bus has other readers.
    if (type === 'websocket') owner.onDeath(close);
    if (type === 'event') return { notify: { type, ref: id }, close };
    if (type === 'websocket') return { notify: { type, connectionId: id }, close };
    return { notify: type === 'task-token' ? { type, token: id } : { type, id: idOfCallback(id) }, close };
  }

  isTaskOpen(token: string): boolean {
    return this.#addresses.get(token)?.isOpen ?? false;
  }

  /** The clients of one process. They replace those of AWS. */
  clientOf(process: Process): never {
    return { send: (command: object) => this.#send(process, command) } as never;
  }

  #send(process: Process, command: object): Promise<object> {
    const { time, chance, conditions, weather, verdicts } = this.#parts;
    const cause = causeNow(process.name, time.now());
    const perform = (): Performed => {
      try {
        return { value: this.#perform(cause, command) };
      } catch (error) {
        return { error: error as Error };
      }
    };
    return new Promise((resolve, reject) => {
      const back = (run: () => void, ms = this.#legMs()) => time.after(ms, () => process.deliver(run));
      const answer = (performed: Performed, attempts = 1) =>
        back(() => {
          if ('value' in performed) resolve(performed.value);
          else reject(failure(performed.error.name, attempts));
        });
      time.after(this.#legMs(), () => {
        const fate = weather.calm ? 1 : chance.next();
        const { outsideFails, outsideRepeats } = conditions;
        if (weather.outsideAway) back(() => reject(failure('ThrottlingException')));
        else if (fate < outsideFails) {
          // The call is refused, or has its effect without an answer, or later.
          const kind = chance.pick(['refused', 'unanswered', 'late', 'unanswered'] as const);
          verdicts.count(`outside: ${kind}`);
          if (kind === 'unanswered') perform();
          if (kind === 'late') time.after(chance.longTailed(500, 20_000), () => void perform());
          const ms = kind !== 'refused' && chance.happens(0.3) ? unansweredMs : this.#legMs();
          back(() => reject(failure(kind === 'refused' ? 'ThrottlingException' : 'TimeoutError')), ms);
        } else if (fate < outsideFails + outsideRepeats) {
          // The answer was lost, so the client itself tries a second time. The caller sees the result of the second try.
          verdicts.count('outside: repeated by its client');
          perform();
          time.after(chance.longTailed(200, 2_000), () => answer(perform(), 2));
        } else answer(perform());
      });
    });
  }

  #perform(cause: Cause, command: object): object {
    if (command instanceof PutEventsCommand) {
      return { Entries: (command.input.Entries ?? []).map((entry) => this.#publish(cause, entry)) };
    }
    if (command instanceof SendTaskSuccessCommand) {
      const { taskToken = '', output = '' } = command.input;
      const task = this.#reach(taskToken, 'TaskTimedOut');
      this.#tell(cause, taskToken, JSON.parse(output) as Delivery);
      task.isOpen = false;
    } else if (command instanceof SendTaskFailureCommand) {
      this.#reach(command.input.taskToken ?? '', 'TaskTimedOut').isOpen = false;
      this.#parts.verdicts.count(`tasks failed: ${command.input.error}`);
    } else if (command instanceof SendDurableExecutionCallbackSuccessCommand) {
      const id = addressOfCallback(command.input.CallbackId ?? '');
      const callback = this.#reach(id, 'CallbackTimeoutException');
      this.#tell(cause, id, JSON.parse(new TextDecoder().decode(command.input.Result as Uint8Array)) as Delivery);
      callback.isOpen = false;
    } else if (command instanceof SendDurableExecutionCallbackFailureCommand) {
      this.#reach(addressOfCallback(command.input.CallbackId ?? ''), 'CallbackTimeoutException').isOpen = false;
      this.#parts.verdicts.count(`callbacks failed: ${command.input.Error?.ErrorType}`);
    } else if (command instanceof PostToConnectionCommand) {
      const { ConnectionId: id = '', Data } = command.input;
      const text = new TextDecoder().decode(Data as Uint8Array);
      if (this.#addresses.has(id)) this.#pass(this.#reach(id, 'GoneException'), JSON.parse(text));
      else this.#post(cause, id, text);
    } else if (command instanceof SendMessageCommand) {
      const { MessageBody: body = '', DelaySeconds: delaySeconds = 0 } = command.input;
      this.#parts.queue.send(body, delaySeconds);
    } else throw new Error('The simulation does not know this command.');
    return {};
  }

  #post(cause: Cause, id: string, text: string): void {
    const message = JSON.parse(text) as Delivery & { type: string };
    const isSent = this.#parts.sockets().post(id, text);
    if (!isSent) {
      // Only a waiter that can't be reached may lose its grant.
      if (message.type === 'granted') this.#parts.promises().foundGone(id);
      throw failure('GoneException');
    }
    if (message.type === 'granted') this.#parts.promises().told(cause, id, message);
  }

  /** Some entries of a request may be refused while the others are accepted. */
  #publish(cause: Cause, entry: { DetailType?: string | undefined; Detail?: string | undefined }): object {
    const { weather, chance, conditions, promises } = this.#parts;
    if (!weather.calm && chance.happens(conditions.outsideFails)) return { ErrorCode: 'ThrottlingException' };
    const { DetailType = '', Detail = '' } = entry;
    const detail = JSON.parse(Detail) as Delivery & { id: string; ref: string };
    promises().checkPublic(Detail);
    if (DetailType === grantedToWaiter) this.#tell(cause, detail.ref, detail);
    else promises().published(detail.lock, detail.id, Detail);
    return { EventId: 'some' };
  }

  #reach(id: string, otherwise: string): Address {
    const address = this.#addresses.get(id);
    if (address?.isOpen) return address;
    this.#parts.promises().foundGone(id);
    throw failure(otherwise);
  }

  #tell(cause: Cause, id: string, delivery: Delivery): void {
    this.#parts.promises().told(cause, id, delivery);
    const address = this.#addresses.get(id);
    if (address !== undefined) this.#pass(address, delivery);
  }

  /** From the outside service to the listener: later, perhaps twice, perhaps never. */
  #pass(address: Address, message: unknown): void {
    const { time, chance, conditions, weather, verdicts } = this.#parts;
    const { owner, hear, inOrder } = address;
    const isSafe = weather.calm || inOrder;
    if (!isSafe && chance.happens(conditions.answerLost)) {
      verdicts.count('outside: a message does not arrive');
      return;
    }
    const copies = !isSafe && chance.happens(conditions.duplicated) ? 2 : 1;
    if (copies > 1) verdicts.count('outside: a message arrives twice');
    for (let copy = 0; copy < copies; copy++) {
      const arrivesAt = time.now() + this.#legMs() + chance.longTailed(50, weather.calm ? 300 : 5_000);
      address.arrivesAt = inOrder ? Math.max(arrivesAt, address.arrivesAt) : arrivesAt;
      time.after(address.arrivesAt - time.now(), () => owner.deliver(() => hear(message)));
    }
  }

  #legMs(): number {
    const { chance, conditions, weather } = this.#parts;
    const { networkMs } = conditions;
    return 1 + (weather.calm ? chance.between(0, networkMs) : chance.longTailed(networkMs, 3_000));
  }
}
