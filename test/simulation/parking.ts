import type { HeldLock } from '../../src/client/held-lock.ts';
import type { Answer, OpenSocket } from '../../src/client/transport.ts';
import type { Notify, TicketBody } from '../../src/contract/views.ts';
import type { Chance } from '../world/chance.ts';
import type { Client } from './client.ts';
import type { Delivery } from './notifier-promises.ts';
import type { Listener, Outside } from './outside.ts';
import type { SocketPromises } from './socket-promises.ts';
import type { Verdicts } from './verdicts.ts';

export interface ParkingParts {
  readonly outside: Outside;
  readonly chance: Chance;
  readonly verdicts: Verdicts;
  readonly sockets: SocketPromises;
}

/** A message may be this late and still find its listener. */
const listensMs = 15_000;
/** How long a client without the SDK waits for its connection. */
const openMsMax = 5_000;

/**
 * A client that parks. It chooses how its grant is delivered, waits without asking, and adopts the lease when the grant arrives.
 * Undefined if the grant never arrives, or if the client does not want it any more.
 */
export async function park(
  client: Client,
  name: string,
  { outside, chance, verdicts, sockets }: ParkingParts,
): Promise<HeldLock | undefined> {
  const told = Promise.withResolvers<Delivery | undefined>();
  const way = chance.pick(['event', 'task-token', 'durable-callback', 'websocket'] as const);
  const hear = (message: unknown) => told.resolve(message as Delivery);
  const listener =
    way === 'websocket' ? await dial(client, sockets, told.resolve) : outside.listen(client.process, way, hear);
  if (listener === undefined) return undefined;
  try {
    const waitMs = chance.pick([2_000, 10_000, 45_000]);
    const leaseMs = chance.pick([3_000, 10_000, 30_000]);
    const parked = await client.locks.park(name, { waitMs, leaseMs, notify: listener.notify as Notify });
    if (parked.status === 'granted') return await client.locks.adopt(parked);
    // Some clients stop: they give up their place, or simply can't be reached any more.
    client.after(chance.happens(0.15) ? waitMs / 4 : waitMs + listensMs, () => told.resolve(undefined));
    const body = { leaseId: parked.leaseId, owner: client.process.name, waitMs, leaseMs, notify: listener.notify };
    const stopAsking = chance.happens(0.2) ? askOn(client, name, body, told.resolve) : () => {};
    const delivery = await told.promise.finally(stopAsking);
    if (delivery === undefined) {
      if (chance.happens(0.5)) cancel(client, name, parked.leaseId);
      return undefined;
    }
    verdicts.count(`heard by ${way}`);
    // The process that gets the delivery may first have to start.
    if (chance.happens(0.5)) await client.idle(chance.longTailed(500, 3_000));
    const held = await client.locks.adopt({ lock: name, leaseId: delivery.leaseId ?? parked.leaseId });
    if (held.fence !== delivery.fence)
      verdicts.breach(
        'told',
        `${client.process.name} was told of fence ${delivery.fence} and has ${held.fence}`,
        delivery,
      );
    return held;
  } finally {
    listener.close();
  }
}

/** A client that opens a connection itself. When the connection ends, the client does not wait any more. */
async function dial(
  client: Client,
  sockets: SocketPromises,
  told: (delivery: Delivery | undefined) => void,
): Promise<Listener | undefined> {
  const { transport } = client;
  const call = { operation: 'createTicket', method: 'POST', route: '/v1/{ns}/tickets', body: {} } as const;
  const asked = transport.request({ ...call, parameters: { ns: 'sim' } }, new AbortController().signal);
  const late = new Promise<undefined>((resolve) => client.after(openMsMax, () => resolve(undefined)));
  const answer = await Promise.race([asked.catch(() => undefined), late]);
  if (answer?.status !== 201 || transport.socket === undefined) return undefined;
  const { ticket, url } = answer.body as TicketBody;
  const connected = Promise.withResolvers<string | undefined>();
  const socket: OpenSocket = transport.socket(
    url,
    { ticket },
    {
      open: () => socket.send('hello'),
      message: (body) => {
        const { type, connectionId } = body as { type: string; connectionId?: string };
        if (type === 'connected') connected.resolve(connectionId);
        else told(type === 'granted' ? (body as Delivery) : undefined);
      },
      closed: () => {
        connected.resolve(undefined);
        told(undefined);
      },
    },
  );
  const connectionId = await Promise.race([connected.promise, late]);
  if (connectionId === undefined) {
    socket.close();
    return undefined;
  }
  sockets.withoutSdk(connectionId);
  return { notify: { type: 'websocket', connectionId }, close: () => socket.close() };
}

/** A client names the connection of another, to get messages that are not its own. */
export async function parkOnForeign(client: Client, name: string, connectionId: string): Promise<void> {
  const leaseId = client.newId();
  const body = { leaseId, waitMs: 5_000, leaseMs: 1_000, notify: { type: 'websocket', connectionId } };
  const asked = send(client, name, 'acquire', body).catch(() => undefined);
  await Promise.race([asked, client.idle(openMsMax)]);
}

/** Some clients ask for their place, although they need not. If the lock was granted in the meantime, the answer says so. */
function askOn(client: Client, name: string, body: object, granted: (delivery: Delivery) => void): () => void {
  let cancel = () => {};
  const ask = () => {
    cancel = client.after(300, ask);
    send(client, name, 'acquire', body)
      .then((answer) => answer.status === 200 && granted(answer.body as Delivery))
      .catch(() => undefined);
  };
  ask();
  return () => cancel();
}

/** Sent once, by a client that does not care whether it arrives. */
function cancel(client: Client, name: string, leaseId: string): void {
  send(client, name, 'release', { leaseId }).catch(() => undefined);
}

const send = (client: Client, name: string, action: 'acquire' | 'release', body: object): Promise<Answer> =>
  client.transport.request(
    {
      operation: `${action}Lock`,
      method: 'POST',
      route: `/v1/{ns}/locks/{name}/${action}`,
      parameters: { ns: 'sim', name },
      body,
    },
    new AbortController().signal,
  );
