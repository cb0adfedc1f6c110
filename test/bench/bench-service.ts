import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Engine } from '../../src/local/engine.ts';

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const agent = new Agent({ keepAlive: true, maxSockets: 1_000 });

export interface BenchService {
  readonly url: string;
  post(path: string, body: object): Promise<{ status: number; body: Record<string, unknown> }>;
  stop(): Promise<void>;
}

/** The service as its users run it: a process of its own, on the engine that the raw calls go to. */
export async function spawnService(engine: Engine, table: string): Promise<BenchService> {
  const child = spawn(
    process.execPath,
    [main, 'serve', '--port', '0', '--memory', '--table', table, '--engine', engine.endpoint],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const [, found] = /^Holdfast is listening on (\S+)/.exec(line) ?? [];
      if (found !== undefined) resolve(found);
    });
    child.once('exit', (code) => reject(new Error(`The service ended with ${code}.`)));
  });
  return {
    url,
    post: (path, body) => post(`${url}${path}`, JSON.stringify(body)),
    stop: async () => {
      child.kill('SIGTERM');
      await once(child, 'exit');
      agent.destroy();
    },
  };
}

/** Node's own client: fetch alone would cost a tenth of what is measured here. */
function post(url: string, body: string): Promise<{ status: number; body: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
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
