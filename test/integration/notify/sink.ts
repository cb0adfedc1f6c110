import { EventEmitter, once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocket } from 'ws';
import { patientServer } from '../../support/patient-server.ts';

/** An event in the form that EventBridge gives to a target. */
export interface BusMessage {
  readonly 'detail-type': string;
  readonly source: string;
  readonly time: string;
  // biome-ignore lint/suspicious/noExplicitAny: what an event carries is what the test checks.
  readonly detail: any;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}

/** The messages so far, and a way to wait for more without polling. */
class Received<T> {
  readonly all: T[] = [];
  readonly #heard = new EventEmitter();

  add(one: T): void {
    this.all.push(one);
    this.#heard.emit('heard');
  }

  /** Resolves with the first message that fits, whether it has come already or comes later. */
  async until<F extends T>(fits: (one: T) => one is F): Promise<F>;
  async until(fits: (one: T) => boolean): Promise<T>;
  async until(fits: (one: T) => boolean): Promise<T> {
    for (;;) {
      const found = this.all.find(fits);
      if (found !== undefined) return found;
      await once(this.#heard, 'heard');
    }
  }

  async untilCount(count: number): Promise<readonly T[]> {
    while (this.all.length < count) await once(this.#heard, 'heard');
    return this.all;
  }
}

export interface EventSink extends AsyncDisposable {
  readonly url: string;
  readonly events: Received<BusMessage>;
  /** References of the waiters that got their delivery, in the order of the deliveries. */
  toldRefs(): string[];
  told(ref: string): Promise<BusMessage>;
}

const isGrantDelivery = (message: BusMessage) => message['detail-type'] === 'granted-to-waiter';

/** The server at HOLDFAST_EVENTS_URL. */
export async function startSink(): Promise<EventSink> {
  const events = new Received<BusMessage>();
  const server = patientServer(async (request, response) => {
    events.add(JSON.parse(await textOf(request)));
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    events,
    toldRefs: () => events.all.filter(isGrantDelivery).map(({ detail }) => detail.ref),
    told: (ref) => events.until((message) => isGrantDelivery(message) && message.detail.ref === ref),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export interface TaskCall {
  readonly action: string;
  readonly taskToken: string;
  readonly output?: string;
  readonly error?: string;
}

/**
 * An endpoint with the part of Step Functions' API that task tokens need. Tokens that begin with `gone` are unknown.
 */
export async function startTasks() {
  const calls = new Received<TaskCall>();
  const server = patientServer(async (request, response) => {
    const body = JSON.parse(await textOf(request));
    const action = String(request.headers['x-amz-target']).split('.')[1] ?? '';
    calls.add({ action, ...body });
    response.setHeader('content-type', 'application/x-amz-json-1.0');
    if (String(body.taskToken).startsWith('gone')) {
      response.statusCode = 400;
      response.end(JSON.stringify({ __type: 'TaskDoesNotExist', message: 'no such task' }));
    } else response.end('{}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export interface WatchClient {
  readonly connectionId: string;
  // biome-ignore lint/suspicious/noExplicitAny: what a message holds is what the test checks.
  readonly messages: Received<any>;
  send(text: string): void;
  close(): Promise<void>;
}

/** Connects as a watcher does and waits for the first message. */
export async function watch(url: string, query: string): Promise<WatchClient> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/watch?${query}`);
  const messages = new Received<{ type: string; connectionId: string }>();
  socket.on('message', (bytes) => messages.add(JSON.parse(String(bytes))));
  await once(socket, 'open');
  const [first] = await messages.untilCount(1);
  if (first?.type !== 'connected') throw new Error(`The first message was ${JSON.stringify(first)}.`);
  return {
    connectionId: first.connectionId,
    messages,
    send: (text) => socket.send(text),
    async close() {
      socket.close();
      await once(socket, 'close');
    },
  };
}
