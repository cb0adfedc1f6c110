/** The service as users start it, as a process of its own that a test may end and start again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';

/** The quickest engine that is here and keeps its data. */
const engine = findDynoxide() === undefined ? 'auto' : 'dynoxide';
const program = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const { HOLDFAST_TOKEN: _, HOLDFAST_URL: __, ...plainEnv } = process.env;

export class Program {
  readonly process: ChildProcess;
  readonly lines: string[] = [];
  #wake: () => void = () => {};

  constructor(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
    this.process = spawn(process.execPath, [program, ...args], {
      env: { ...plainEnv, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      if (stream !== null) createInterface(stream).on('line', (line) => this.#hear(line));
    }
    this.process.once('exit', () => this.#wake());
  }

  /** Resolves with what the pattern found in the output. */
  async said(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = this.lines.map((line) => pattern.exec(line)?.[1]).find((text) => text !== undefined);
      if (found !== undefined) return found;
      if (this.process.exitCode !== null)
        throw new Error(`It ended before it said ${pattern}:\n${this.lines.join('\n')}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #hear(line: string): void {
    this.lines.push(line);
    this.#wake();
  }

  async end(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exit = once(this.process, 'exit');
    this.process.kill('SIGTERM');
    await exit;
  }
}

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
    const running = new Program(['serve', '--engine', engine, '--data', folder, '--port', port, ...flags]);
    const url = await running.said(/listening on (http:\S+)/);
    return { running, url, address: await running.said(/console (http:\S+)/) };
  };
  let now = await start('0');
  return {
    url: now.url,
    console: now.address,
    async restart(whileDown) {
      await now.running.end();
      await whileDown?.();
      now = await start(new URL(now.url).port);
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
