import type { HeldLock } from '../../src/client/held-lock.ts';
import type { Answer } from '../../src/client/transport.ts';
import type { Notify } from '../../src/contract/views.ts';
import type { Chance } from './chance.ts';
import type { Client } from './client.ts';
import type { Delivery } from './news-promises.ts';
import type { Outside } from './outside.ts';
import type { Verdicts } from './verdicts.ts';

/** A message may be this late and still find somebody who listens. */
const listensMs = 15_000;

/**
 * A client that parks: it says how it wants to be told, waits without asking, and takes up the lease when it hears of its grant.
 * Undefined if it never does, or has lost interest by then.
 */
export async function park(
  client: Client,
  name: string,
  { outside, chance, verdicts }: { outside: Outside; chance: Chance; verdicts: Verdicts },
): Promise<HeldLock | undefined> {
  const told = Promise.withResolvers<Delivery | undefined>();
  const way = chance.pick(['event', 'task-token', 'durable-callback', 'websocket'] as const);
  const listener = outside.listen(client.process, way, (message) => told.resolve(message as Delivery));
  try {
    const waitMs = chance.pick([2_000, 10_000, 45_000]);
    const leaseMs = chance.pick([3_000, 10_000, 30_000]);
    const parked = await client.locks.park(name, { waitMs, leaseMs, notify: listener.notify as Notify });
    if (parked.status === 'granted') return await client.locks.adopt(parked);
    // Some have other things to do: they give up their place, or simply can't be told any more.
    client.after(chance.happens(0.15) ? waitMs / 4 : waitMs + listensMs, () => told.resolve(undefined));
    const body = { leaseId: parked.leaseId, owner: client.process.name, waitMs, leaseMs, notify: listener.notify };
    const stopAsking = chance.happens(0.2) ? askOn(client, name, body, told.resolve) : () => {};
    const delivery = await told.promise.finally(stopAsking);
    if (delivery === undefined) {
      if (chance.happens(0.5)) cancel(client, name, parked.leaseId);
      return undefined;
    }
    verdicts.count(`heard by ${way}`);
    // Who is told may first have to be started.
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

/** Some ask where they stand, though they need not. Where it has been granted in the meantime, the answer says so. */
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
