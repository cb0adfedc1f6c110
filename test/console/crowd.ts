/**
 * A service with 1,000 locks, and with 1,000 waiters at one of them. It answers from memory: the test is about what the page
 * draws, and to make so many takes an engine on a busy machine a minute.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Answer, Call, Transport } from '../../src/client/index.ts';
import { Console, newConsoleToken } from '../../src/console/server/console.ts';

const locksMax = 1_000;
const waitersMax = 1_000;
/** The service shows the first 100 of a queue. */
const shownMax = 100;

const holder = (owner: string, fence: number) => ({
  owner,
  fence,
  permits: 1,
  acquiredAt: new Date(Date.now() - 60_000).toISOString(),
  remainingMs: 3_600_000,
});

const held = (lock: string, fence: number, queueDepth: number) => ({
  lock,
  state: 'held',
  fence,
  limit: 1,
  holders: [holder(`owner-of-${lock}`, fence)],
  queueDepth,
});

const locks = Array.from({ length: locksMax }, (_, index) =>
  held(`lock:${String(index).padStart(4, '0')}`, index + 1, 0),
);
const busy = held('busy', locksMax + 1, waitersMax);

function answerTo({ route, parameters }: Call): unknown {
  if (route.endsWith('/history')) return { events: [] };
  if (route.endsWith('/locks')) {
    return { locks: [busy, ...locks].map((lock) => ({ ...lock, longestWaitMs: lock.queueDepth > 0 ? 50_000 : 0 })) };
  }
  const queue = Array.from({ length: shownMax }, (_, index) => ({
    owner: `waiter-${index}`,
    position: index + 1,
    waitingMs: 50_000 - index,
    permits: 1,
  }));
  return parameters.name === 'busy'
    ? { ...busy, queue }
    : { ...(locks.find(({ lock }) => lock === parameters.name) ?? held('x', 1, 0)), queue: [] };
}

class Crowd implements Transport {
  request(call: Call): Promise<Answer> {
    return Promise.resolve({ status: 200, headers: {}, body: answerTo(call) });
  }

  watch(_query: unknown, { message }: { message(body: unknown): void }): () => void {
    queueMicrotask(() => message({ type: 'connected', connectionId: 'crowd' }));
    return () => undefined;
  }
}

export async function startCrowd() {
  const token = newConsoleToken();
  const options = { serviceUrl: 'http://127.0.0.1', auth: 'none', namespace: 'crowd', mayChange: false } as const;
  const page = new Console({ ...options, transport: new Crowd(), token });
  const server = createServer((request, response) => {
    if (!page.handle(request, response)) response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    console: `${url}/console?token=${token}`,
    stop() {
      page.close();
      server.closeAllConnections();
      server.close();
    },
  };
}
