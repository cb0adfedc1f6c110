import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../src/local/engine/endpoint.ts';
import { startServer } from './server-process.ts';

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));

export interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

export interface BenchService {
  readonly url: string;
  post(path: string, body: object): Promise<Answer>;
  get(path: string): Promise<Answer>;
  /** The memory of the process, by the operating system's count. */
  residentBytes(): Promise<number>;
  stop(): Promise<void>;
}

/** The service as its users run it: a separate process, on the same engine as the raw calls. */
export async function spawnService(engineEndpoint: string, table: string): Promise<BenchService> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const flags = ['--port', String(port), '--memory', '--table', table, '--engine', engineEndpoint];
  const server = await startServer(process.execPath, [main, 'serve', ...flags], async () => {
    if (!(await fetch(`${url}/v1/health`)).ok) throw new Error('It is not well yet.');
  });
  // A waiter keeps its connection while it waits. There are up to 200 waiters, and other requests at the same time.
  const agent = new Agent({ keepAlive: true, maxSockets: 1_000 });
  return {
    url,
    post: (path, body) => ask(agent, 'POST', `${url}${path}`, JSON.stringify(body)),
    get: (path) => ask(agent, 'GET', `${url}${path}`),
    residentBytes: async () => {
      const status = await readFile(`/proc/${server.pid}/status`, 'utf8');
      return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) * 1_024;
    },
    stop: async () => {
      agent.destroy();
      await server.stop();
    },
  };
}

/** Node's own client, because the service is measured and not the SDK. The SDK over HTTP has its own row. */
function ask(agent: Agent, method: 'GET' | 'POST', url: string, body?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers =
      body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = request(url, { method, agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        resolve({
          status: response.statusCode ?? 0,
          body: JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>,
        });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
