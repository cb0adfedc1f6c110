import { once } from 'node:events';
import { WebSocket } from 'ws';
import type { Answer, BenchService } from '../bench-service.ts';
import type { Contestant, Holding } from '../contestant.ts';
import { ownTables } from '../stores/dynamodb.ts';
import { expectGranted, newLeaseId } from './holdfast-http.ts';

const base = '/v1/bench';
const waitMs = 600_000;

/** One connection, and the waiters on it. */
export class PushConnection {
  readonly connectionId: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, () => void>();
  /** How many grants were delivered, and how many of them came twice or too late. */
  told = 0;
  unexpected = 0;

  private constructor(connectionId: string, socket: WebSocket) {
    this.connectionId = connectionId;
    this.#socket = socket;
    socket.on('message', (text) => this.#hear(JSON.parse(String(text)) as { type: string; leaseId?: string }));
  }

  static async open(service: Pick<BenchService, 'post'>): Promise<PushConnection> {
    const { body } = await service.post(`${base}/tickets`, {});
    const socket = new WebSocket(`${body.url}?ticket=${body.ticket}`);
    const [text] = await once(socket, 'message');
    return new PushConnection((JSON.parse(String(text)) as { connectionId: string }).connectionId, socket);
  }

  /** Resolves when the grant is delivered. */
  granted(leaseId: string): Promise<void> {
    return new Promise((resolve) => this.#waiting.set(leaseId, resolve));
  }

  close(): void {
    this.#socket.terminate();
  }

  #hear({ type, leaseId = '' }: { type: string; leaseId?: string }): void {
    if (type !== 'granted') return;
    const tell = this.#waiting.get(leaseId);
    this.#waiting.delete(leaseId);
    this.told += 1;
    if (tell === undefined) this.unexpected += 1;
    else tell();
  }
}

const triesMax = 10;

/** A slow engine may not answer a crowd in time. The SDK repeats such a request too. */
async function repeated(ask: () => Promise<Answer>): Promise<Answer> {
  let answer = await ask();
  for (let tries = 1; answer.status === 503 && tries < triesMax; tries++) answer = await ask();
  return answer;
}

/** The local service over HTTP. Waiters are parked on one WebSocket, and get their grants there. */
export function holdfastByPush(service: BenchService, connection: PushConnection): Contestant {
  const pathOf = (name: string) => `${base}/locks/${name}`;
  const { connectionId } = connection;
  const holdingOf = (name: string, leaseId: string): Holding => ({
    release: async () => expectGranted(await repeated(() => service.post(`${pathOf(name)}/release`, { leaseId }))),
  });
  return {
    id: 'holdfast-push',
    name: 'Holdfast, push',
    store: 'dynamodb',
    ours: true,
    table: ownTables.http,
    waitsQuietly: true,
    how: 'The same service. Waiters are parked on one WebSocket and told of their grant.',
    requestsMin: 2,
    take: async (name, { leaseMs }) => {
      const leaseId = newLeaseId();
      expectGranted(await repeated(() => service.post(`${pathOf(name)}/acquire`, { leaseId, leaseMs })));
      return holdingOf(name, leaseId);
    },
    join: (name, { leaseMs }) => {
      const leaseId = newLeaseId();
      const told = connection.granted(leaseId);
      const notify = { type: 'websocket', connectionId };
      const parked = repeated(() => service.post(`${pathOf(name)}/acquire`, { leaseId, leaseMs, waitMs, notify }));
      const granted = (async () => {
        const answer = await parked;
        if (answer.status === 202) await told;
        else expectGranted(answer);
        return holdingOf(name, leaseId);
      })();
      return { granted, leave: () => service.post(`${pathOf(name)}/release`, { leaseId }) };
    },
    queued: async (name) => Number((await service.get(pathOf(name))).body.queueDepth),
    stop: async () => connection.close(),
  };
}
