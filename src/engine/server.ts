/** The engine on a port of this machine, in DynamoDB's own protocol, so that every DynamoDB client can use it. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { MemoryEngine } from './engine.ts';
import { EngineError, invalid } from './errors.ts';
import { Journal } from './journal.ts';

/** DynamoDB deletes expired items within days. A minute keeps memory small, and no item is deleted before its time. */
const collectEveryMs = 60_000;
/** The largest request that DynamoDB accepts. */
const bodyBytesMax = 16 * 1024 * 1024;

export interface ServedEngine {
  readonly endpoint: string;
  /** Resolves if the folder can't be written any more. Then every request fails. */
  readonly failed: Promise<Error>;
  stop(): Promise<void>;
}

export interface ServeOptions {
  readonly region?: string;
  /** Where a journal keeps everything. If missing, all is lost when the process ends. */
  readonly folder?: string;
}

/** Listens on loopback only, because any caller that reaches it can read and write everything. */
export async function serveEngine({ folder, ...options }: ServeOptions = {}): Promise<ServedEngine> {
  const engine = new MemoryEngine(options);
  const journal = folder === undefined ? undefined : await Journal.open(folder, engine);
  const server = createServer((request, response) => void answer(engine, journal, request, response));
  // Clients may keep connections open for as long as they like.
  server.keepAliveTimeout = 0;
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const collecting = setInterval(() => engine.collectExpired(), collectEveryMs).unref();
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    failed: journal?.failed ?? new Promise(() => {}),
    stop: async () => {
      clearInterval(collecting);
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
      await journal?.close();
    },
  };
}

async function answer(
  engine: MemoryEngine,
  journal: Journal | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let status = 200;
  let body: Record<string, unknown>;
  try {
    const operation = String(request.headers['x-amz-target'] ?? '').split('.')[1] ?? '';
    body = engine.call(operation, JSON.parse(await textOf(request)));
    // A read may show a write that another caller was not answered for yet, so it waits for the disk too.
    await journal?.flushed();
  } catch (error) {
    status = error instanceof EngineError ? 400 : 500;
    body = problemOf(error);
  }
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(body));
}

function problemOf(error: unknown): Record<string, unknown> {
  if (error instanceof EngineError) {
    return { __type: `com.amazonaws.dynamodb.v20120810#${error.name}`, message: error.message, ...error.more };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { __type: 'com.amazonaws.dynamodb.v20120810#InternalServerError', message };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bodyBytesMax) throw invalid('The request is larger than 16 MB.');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
