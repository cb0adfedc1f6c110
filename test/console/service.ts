/** The service as users start it, as a process of its own that a test may end and start again. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServing } from '../support/program.ts';

export interface RunningService {
  readonly url: string;
  /** With the token. */
  readonly console: string;
  /** Ends it and starts it again, on the same port and with the same data. */
  restart(whileDown?: () => Promise<void>): Promise<void>;
  stop(): Promise<void>;
}

/** `npm start` on any free port, with data of its own. */
export async function startService(flags: readonly string[] = []): Promise<RunningService> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-console-'));
  const start = async (port: string) => {
    const running = await startServing(['--data', folder, '--port', port, ...flags]);
    const [, console = ''] = await running.said(/console (http:\S+)\s/);
    return { running, console };
  };
  let now = await start('0');
  return {
    url: now.running.url,
    console: now.console,
    async restart(whileDown) {
      await now.running.end();
      await whileDown?.();
      now = await start(new URL(now.running.url).port);
    },
    async stop() {
      await now.running.end();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** One request to the service, as a caller makes it. */
export async function call<T = Record<string, unknown>>(url: string, path: string, body?: object): Promise<T> {
  const response = await fetch(`${url}/v1/${path}`, {
    ...(body === undefined
      ? {}
      : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  return (await response.json()) as T;
}
