import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { runProgram } from '../../src/cli/program.ts';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { eventually } from '../support/eventually.ts';

export const program = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
/** The fastest engine that is installed. */
const engine = findDynoxide() === undefined ? 'auto' : 'dynoxide';

/** The environment of a user who has set no variables. */
const { FORCE_COLOR: _, NO_COLOR: __, HOLDFAST_TOKEN: ___, ...plainEnv } = process.env;

const started: ChildProcess[] = [];

export interface RunningService {
  readonly url: string;
  readonly process: ChildProcess;
}

/** The service in its own process, which a test may kill. */
export async function startServing(flags: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<RunningService> {
  const serving = spawn(process.execPath, [program, 'serve', '--engine', engine, ...flags], {
    env: { ...plainEnv, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  started.push(serving);
  let said = '';
  serving.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(serving, 'exit').then(() => {
    throw new Error(`The service ended while starting: ${said}`);
  });
  const [line] = await Promise.race([once(createInterface(serving.stdout), 'line'), ended]);
  ended.catch(() => undefined);
  serving.stdout.resume();
  return { url: /http:\S+/.exec(line)?.[0] ?? '', process: serving };
}

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The output as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: what a JSON answer holds is what the test checks.
  readonly json: any;
}

const finishedWith = (code: number | null, stdout: string, stderr: string): Finished => ({
  code,
  stdout,
  stderr,
  get json() {
    if (stdout === '') throw new Error(`The program printed nothing and ended with ${code}: ${stderr}`);
    return JSON.parse(stdout);
  },
});

/** An output that is no terminal, and keeps what is written. */
function keptStream(): { readonly stream: NodeJS.WriteStream; readonly text: () => string } {
  let text = '';
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _, done) {
      text += chunk;
      done();
    },
  });
  return { stream: stream as unknown as NodeJS.WriteStream, text: () => text };
}

/** Runs the whole command line in this process. */
async function runHere(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Finished> {
  const [stdout, stderr] = [keptStream(), keptStream()];
  const streams = { stdout: stdout.stream, stderr: stderr.stream };
  const code = await runProgram(args, { ...plainEnv, ...env }, streams);
  return finishedWith(code, stdout.text(), stderr.text());
}

/** A running program: its output so far, and how it ends. */
export class Started {
  readonly process: ChildProcess;
  readonly finished: Promise<Finished>;
  stdout = '';
  stderr = '';

  /** `detached`: the program gets its own process group, which can be killed as a whole. */
  constructor(file: string, args: readonly string[], env: NodeJS.ProcessEnv, detached = false) {
    const child = spawn(file, args, { env: { ...plainEnv, ...env }, stdio: ['pipe', 'pipe', 'pipe'], detached });
    started.push(child);
    this.process = child;
    child.stdin.on('error', () => {});
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.finished = once(child, 'close').then(([code]) => finishedWith(code, this.stdout, this.stderr));
  }

  get pid(): number {
    return this.process.pid as number;
  }

  type(text: string): void {
    this.process.stdin?.write(text);
  }

  endInput(): void {
    this.process.stdin?.end();
  }

  /** Resolves with the match of the pattern in the output. */
  said(pattern: RegExp, from: 'stdout' | 'stderr' = 'stdout'): Promise<string[]> {
    return eventually(() => {
      expect(this[from], `${this.stdout}\n${this.stderr}`).toMatch(pattern);
      return [...(pattern.exec(this[from]) ?? [])];
    });
  }
}

/** Runs commands against one service. */
export function cliOf(url: string, more: NodeJS.ProcessEnv = {}) {
  // Only a net: many processes that start at once keep the service waiting.
  const env = { HOLDFAST_URL: url, HOLDFAST_NAMESPACE: 'test', HOLDFAST_TIMEOUT: '2m', ...more };
  const start = (...args: string[]) => new Started(process.execPath, [program, ...args], env);
  return {
    env,
    start,
    /**
     * Runs to the end in this process, where only what it answers is tested. A process of its own computes ten times as
     * much. It can't run a command, because that would get the output of this process.
     */
    runHere: (...args: string[]): Promise<Finished> => runHere(args, env),
    /** Runs to the end in a process of its own, with no input. */
    run: (...args: string[]): Promise<Finished> => {
      const running = start(...args);
      running.endInput();
      return running.finished;
    },
  };
}

export type Cli = ReturnType<typeof cliOf>;

/** Ends every process that a test has left, by its id. */
export async function endStarted(): Promise<void> {
  const running = started.splice(0).filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  await Promise.all(
    running.map((child) => {
      const exit = once(child, 'exit');
      child.kill('SIGCONT');
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), 15_000);
      return exit.finally(() => clearTimeout(late));
    }),
  );
}
