/** A client under test: a program that reads commands on stdin and tells what it believes on stdout. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** How a client is started. In `folder` is a tree like this repository, in which a fault may be planted. */
export interface Client {
  readonly name: string;
  readonly start: (folder: string) => { readonly command: readonly string[]; readonly env?: NodeJS.ProcessEnv };
}

export const clients: readonly Client[] = [
  {
    name: 'typescript',
    start: (folder) => ({ command: [process.execPath, join(folder, 'test/clients/drivers/typescript.ts')] }),
  },
  {
    name: 'python',
    start: (folder) => ({
      command: ['python3', join(folder, 'test/clients/drivers/driver.py')],
      env: { PYTHONPATH: join(folder, 'clients/python/src'), PYTHONDONTWRITEBYTECODE: '1' },
    }),
  },
  {
    name: 'cli',
    start: (folder) => ({ command: [process.execPath, join(folder, 'test/clients/drivers/cli.ts')] }),
  },
];

/** A client of somebody else: a command line. */
export const clientOf = (command: string): Client => ({
  name: command,
  start: () => ({ command: ['/bin/sh', '-c', command] }),
});

export interface Line {
  readonly id: string;
  readonly is: 'working' | 'lost' | 'released' | 'refused' | 'process';
  /** The client's wall clock. It is the service's, too: both run on this machine. */
  readonly at: number;
  readonly fence?: number;
  readonly code?: string;
  readonly pid?: number;
}

export interface Command {
  readonly do: 'acquire' | 'release' | 'abort';
  readonly id: string;
  readonly lock?: string;
  readonly leaseMs?: number;
  readonly waitMs?: number;
  readonly deadlineMs?: number;
  /** How the client learns that its lock is lost: it reads the clock before each step, or it waits to be told. */
  readonly learns?: 'by the clock' | 'by the event';
}

/** Only a net, for a client that hangs. A busy machine needs a few seconds for what usually takes some milliseconds. */
const netMs = 60_000;

export class ClientProcess {
  readonly lines: Line[] = [];
  /** Everything that it printed, for people and for logs. */
  printed = '';
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #closed: Promise<unknown>;
  #wake: () => void = () => {};

  constructor(client: Client, folder: string, env: NodeJS.ProcessEnv) {
    const { command, env: more } = client.start(folder);
    const [file = '', ...args] = command;
    this.#process = spawn(file, args, { cwd: root, env: { ...process.env, ...more, ...env } });
    this.#closed = once(this.#process, 'close').catch(() => undefined);
    this.#process.stdin.on('error', () => {});
    createInterface({ input: this.#process.stdout }).on('line', (line) => this.#read(line));
    this.#process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.printed += text;
    });
  }

  send(command: Command): void {
    this.#process.stdin.write(`${JSON.stringify(command)}\n`);
  }

  told(id: string, is: Line['is']): Line | undefined {
    return this.lines.find((line) => line.id === id && line.is === is);
  }

  /** Waits for a line. Undefined if it does not come. */
  async until(id: string, ...kinds: Line['is'][]): Promise<Line | undefined> {
    const until = Date.now() + netMs;
    for (;;) {
      const line = this.lines.find((one) => one.id === id && kinds.includes(one.is));
      if (line !== undefined) return line;
      if (Date.now() > until || this.#process.exitCode !== null) return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, 200);
      });
    }
  }

  /** Stops the process that holds the lock for a while, as if its machine were frozen. */
  async freeze(id: string, ms: number): Promise<void> {
    const pid = this.told(id, 'process')?.pid ?? (this.#process.pid as number);
    process.kill(pid, 'SIGSTOP');
    await new Promise((resolve) => setTimeout(resolve, ms));
    process.kill(pid, 'SIGCONT');
  }

  /** Lets it end by itself, and ends it if it does not. */
  async quit(): Promise<void> {
    this.#process.stdin.end(`${JSON.stringify({ do: 'quit' })}\n`);
    const late = setTimeout(() => this.#process.kill('SIGKILL'), 15_000);
    await this.#closed;
    clearTimeout(late);
  }

  #read(line: string): void {
    try {
      this.lines.push(JSON.parse(line) as Line);
    } catch {
      this.printed += `${line}\n`;
    }
    this.#wake();
  }
}
