import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The requests to DynamoDB, as a bill counts them. */
export interface Tally {
  readonly requests: number;
  readonly reads: number;
  readonly writes: number;
  /** Writes whose condition was refused. They cost as much as the others. */
  readonly refused: number;
  readonly readUnits: number;
  readonly writeUnits: number;
}

/** Locks, sessions and records are counted separately from news about them: history, timers, watchers and index sweeps. */
export interface Tallies {
  readonly locks: Tally;
  readonly news: Tally;
}

export interface CountingProxy {
  readonly endpoint: string;
  /** The requests since the last call. */
  take(): Tallies;
  stop(): Promise<void>;
}

export const noTally: Tally = { requests: 0, reads: 0, writes: 0, refused: 0, readUnits: 0, writeUnits: 0 };

const writeOperations = new Set(['PutItem', 'UpdateItem', 'DeleteItem', 'TransactWriteItems', 'BatchWriteItem']);
const readOperations = new Set(['GetItem', 'BatchGetItem', 'Query', 'Scan', 'TransactGetItems']);

/** The sort keys of locks, the pages of their queues, sessions and records. A peer's table has no `sk`, and all of its items are locks. */
const ownItem = /^(lock|page|session|record|part\/.*)$/;

export function tellsNews(body: string): boolean {
  if (/"IndexName"/.test(body)) return true;
  const sortKeys = [...body.matchAll(/"sk":\s*\{\s*"S":\s*"([^"]*)"/g)].map(([, sortKey]) => sortKey ?? '');
  if (sortKeys.length > 0) return !sortKeys.some((sortKey) => ownItem.test(sortKey));
  // A query has its partition in a value. Watchers and history are read this way.
  return /"KeyConditionExpression"/.test(body);
}

const bytesPerWriteUnit = 1_024;

/** Sums the units that the engine reports for a request. It reports nothing for a refused write, so the size of the returned item counts. */
export function unitsOf(operation: string, answer: string): { readUnits: number; writeUnits: number } {
  const consumed = [...answer.matchAll(/"ConsumedCapacity":\s*(\[[^\]]*\]|\{[^}]*\})/g)].flatMap(([, part]) =>
    [...(part ?? '').matchAll(/"CapacityUnits":\s*([\d.]+)/g)].map(([, units]) => Number(units)),
  );
  const isWrite = writeOperations.has(operation);
  const refusedUnits = isWrite ? Math.max(1, Math.ceil(answer.length / bytesPerWriteUnit)) : 0.5;
  const units = consumed.length === 0 ? refusedUnits : consumed.reduce((sum, one) => sum + one, 0);
  return isWrite ? { readUnits: 0, writeUnits: units } : { readUnits: units, writeUnits: 0 };
}

export function addTo(tally: Tally, operation: string, status: number, answer: string): Tally {
  const isWrite = writeOperations.has(operation);
  const { readUnits, writeUnits } = unitsOf(operation, answer);
  return {
    requests: tally.requests + 1,
    reads: tally.reads + (isWrite ? 0 : 1),
    writes: tally.writes + (isWrite ? 1 : 0),
    refused: tally.refused + (isWrite && status === 400 ? 1 : 0),
    readUnits: tally.readUnits + readUnits,
    writeUnits: tally.writeUnits + writeUnits,
  };
}

const readAll = async (message: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
};

/**
 * A proxy between a contestant and the engine that counts requests, in the same way for every SDK. It adds latency, so nothing is timed
 * through it. Stream reads are left out: deployed, Lambda makes them and they are not billed.
 */
export async function startCountingProxy(engineEndpoint: string): Promise<CountingProxy> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  let tallies: Tallies = { locks: noTally, news: noTally };
  const count = (operation: string, body: string, status: number, answer: string) => {
    const which = tellsNews(body) ? 'news' : 'locks';
    tallies = { ...tallies, [which]: addTo(tallies[which], operation, status, answer) };
  };
  const forward = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const asked = (await readAll(incoming)).toString();
    const [, operation = ''] = String(incoming.headers['x-amz-target'] ?? '').split('.');
    const counted = writeOperations.has(operation) || readOperations.has(operation);
    // Local engines do not check the signature, so the proxy can ask for the consumed capacity.
    const body = counted ? asked.replace(/^\{/, '{"ReturnConsumedCapacity":"TOTAL",') : asked;
    const headers = { ...incoming.headers, 'content-length': String(Buffer.byteLength(body)) };
    const sent = request(engineEndpoint, { method: incoming.method, path: incoming.url, headers, agent });
    sent.once('error', () => outgoing.destroy());
    sent.once('response', (response) => {
      void readAll(response).then((answer) => {
        const status = response.statusCode ?? 502;
        if (counted) count(operation, asked, status, answer.toString());
        outgoing.writeHead(status, response.headers).end(answer);
      });
    });
    sent.end(body);
  };
  const server = createServer((incoming, outgoing) => void forward(incoming, outgoing));
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    take: () => {
      const taken = tallies;
      tallies = { locks: noTally, news: noTally };
      return taken;
    },
    stop: async () => {
      agent.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}
