/** Programs in processes of their own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';

/** The command line of Holdfast. */
export const holdfastProgram = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));

/** The fastest engine that is installed and keeps its data. */
const fastestEngine = findDynoxide() === undefined ? 'auto' : 'dynoxide';

/** The environment of a user who has set no variables. */
export const plainEnv: NodeJS.ProcessEnv = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(HOLDFAST_.*|FORCE_COLOR|NO_COLOR)$/.test(name)),
);

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The output as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: what a JSON answer holds is what the test checks.
  readonly json: any;
}

export const finishedWith = (code: number | null, stdout: string, stderr: string): Finished => ({
  code,
  stdout,
  stderr,
  get json() {
    if (stdout === '') throw new Error(`The program printed nothing and ended with ${code}: ${stderr}`);
    return JSON.parse(stdout);
  },
});

export interface ProgramSettings {
  /** Added to the plain environment. */
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** The program gets its own process group, which can be killed as a whole. */
  readonly detached?: boolean;
}

const started = new Set<Program>();

/** A program that was started: its output so far, and how it ends. */
export class Program {
  readonly process: ChildProcess;
  readonly finished: Promise<Finished>;
  stdout = '';
  stderr = '';
  /** Its output may be open for longer, because a process that it started may have it too. */
  readonly #exited: Promise<unknown>;
  #isOver = false;
  /** Called when the program has said more, or has ended. */
  #wake: () => void = () => {};

  constructor(file: string, args: readonly string[], { env = {}, ...settings }: ProgramSettings = {}) {
    const child = spawn(file, args, { ...settings, env: { ...plainEnv, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
    started.add(this);
    this.process = child;
    child.stdin.on('error', () => {});
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => {
        this[name] += text;
        this.#wake();
      });
    this.#exited = once(child, 'exit').finally(() => started.delete(this));
    this.finished = once(child, 'close').then(([code]) => {
      this.#isOver = true;
      this.#wake();
      return finishedWith(code, this.stdout, this.stderr);
    });
    // A program that can't be started fails what waits for it, and nothing else.
    for (const end of [this.#exited, this.finished]) end.catch(() => undefined);
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

  /** Resolves with the match of the pattern in the output. Rejects if the program ends before. */
  async said(pattern: RegExp, from: 'stdout' | 'stderr' = 'stdout'): Promise<string[]> {
    for (;;) {
      const found = pattern.exec(this[from]);
      if (found !== null) return [...found];
      if (this.#isOver) throw new Error(`It ended before it said ${pattern}:\n${this.stdout}\n${this.stderr}`);
      const more = new Promise<void>((resolve) => {
        const others = this.#wake;
        this.#wake = () => {
          this.#wake = () => {};
          others();
          resolve();
        };
      });
      await Promise.race([more, this.finished]);
    }
  }

  /** Ends it, also if it is stopped. If it ignores the signal for too long, it is killed. */
  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const late = setTimeout(() => this.process.kill('SIGKILL'), 15_000);
    this.process.kill('SIGCONT');
    this.process.kill(signal);
    await this.#exited.finally(() => clearTimeout(late));
  }
}

/** Ends every program that a test has left, by its id. */
export async function endStarted(): Promise<void> {
  await Promise.all([...started].map((program) => program.end()));
}

export interface ServingProgram extends Program {
  readonly url: string;
}

/** The service as a user starts it, which a test may kill. A flag that names another engine counts. */
export async function startServing(flags: readonly string[], settings: ProgramSettings = {}): Promise<ServingProgram> {
  const serving = new Program(
    process.execPath,
    [holdfastProgram, 'serve', '--engine', fastestEngine, ...flags],
    settings,
  );
  serving.endInput();
  const [, url = ''] = await serving.said(/listening on (http:\S+)\s/);
  return Object.assign(serving, { url });
}

/** The path of a program, on the PATH or in one of the folders. Debian keeps servers where not every PATH has them. */
export function findProgram(name: string, folders: readonly string[] = []): string | null {
  const all = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', ...folders];
  return all.map((folder) => join(folder, name)).find(canRun) ?? null;
}

function canRun(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
