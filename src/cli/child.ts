import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Writable } from 'node:stream';
import { exitCodes } from './exit-codes.ts';
import { Failure } from './failure.ts';
import { exitCodeOfSignal } from './signals.ts';

function startFailure(file: string, cause: NodeJS.ErrnoException): Failure {
  return cause.code === 'ENOENT' || cause.code === 'ENOTDIR'
    ? new Failure('command', exitCodes.notFound, `There is no command '${file}'.`, { cause })
    : new Failure('command', exitCodes.notExecutable, `'${file}' can't be run: ${cause.message}`, { cause });
}

export interface ChildOptions {
  readonly env: NodeJS.ProcessEnv;
  /** The command stays in our process group and keeps the terminal. A signal then reaches only the command itself. */
  readonly foreground: boolean;
}

/**
 * Waits for a line on its third descriptor, then becomes the command and keeps its process id. If the pipe closes first,
 * because the holder was killed, the command never runs.
 */
const waitForGo = 'read -r go <&3 && exec "$@" 3<&-';

/** A shell passes on only variables whose names it can hold itself. */
const shellName = /^[A-Za-z_][A-Za-z0-9_]*$/;

const canWait = (env: NodeJS.ProcessEnv): boolean =>
  process.platform !== 'win32' && Object.keys(env).every((name) => shellName.test(name));

/** The failure that `spawn` would have if the system finds no program of this name, or may not run it. */
function failureOf(file: string, { PATH }: NodeJS.ProcessEnv): NodeJS.ErrnoException | undefined {
  if (file.includes('/')) return failureAt(file);
  if (PATH === undefined) return undefined;
  const failures = PATH.split(delimiter).map((folder) => failureAt(join(folder, file)));
  if (failures.includes(undefined)) return undefined;
  return failures.find((failure) => failure?.code === 'EACCES') ?? failures[0];
}

function failureAt(path: string): NodeJS.ErrnoException | undefined {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile() ? undefined : Object.assign(new Error(`${path} is not a file`), { code: 'EACCES' });
  } catch (error) {
    return error as NodeJS.ErrnoException;
  }
}

/** A command that was started. It has its own process group, and shares our input and output. */
export class Child {
  /**
   * The exit code as a shell reports it: the command's own code, or 128 plus the number of the signal that ended it.
   */
  readonly exited: Promise<{ readonly exitCode: number; readonly signal: NodeJS.Signals | null }>;
  /** The id of the process group as a negative number, or the id of the process. */
  readonly target: number;
  readonly #go: Writable | undefined;

  private constructor(child: ChildProcess, foreground: boolean) {
    const pid = child.pid as number;
    this.#go = child.stdio[3] as Writable | undefined;
    // The command may be killed before it is let go.
    this.#go?.on('error', () => {});
    this.target = foreground ? pid : -pid;
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        const exitCode = signal === null ? (code ?? exitCodes.internal) : exitCodeOfSignal(signal);
        resolve({ exitCode, signal });
      });
    });
  }

  /**
   * Starts a process that has the command's id, but runs the command only after `go`. So nobody can kill this program
   * between the start of a command and the moment when its guardian knows it. Windows, and environments that a shell
   * can't pass on, have no such protection: there the command runs at once.
   */
  static async start(command: readonly string[], { env, foreground }: ChildOptions): Promise<Child> {
    const [file = '', ...args] = command;
    const detached = !foreground;
    const stdio: StdioOptions = ['inherit', 'inherit', 'inherit'];
    if (!canWait(env)) return Child.#started(file, foreground, spawn(file, args, { stdio, detached, env }));
    const failure = failureOf(file, env);
    if (failure !== undefined) throw startFailure(file, failure);
    const waiting = ['-c', waitForGo, 'sh', ...command];
    return Child.#started(file, foreground, spawn('/bin/sh', waiting, { stdio: [...stdio, 'pipe'], detached, env }));
  }

  static async #started(file: string, foreground: boolean, child: ChildProcess): Promise<Child> {
    if (child.pid === undefined) {
      const [error] = await once(child, 'error');
      throw startFailure(file, error as NodeJS.ErrnoException);
    }
    // A signal that can't be sent causes an 'error' event. Without a listener, that event would end this program.
    child.on('error', () => {});
    return new Child(child, foreground);
  }

  /** Lets the command run. */
  go(): void {
    this.#go?.end('go\n');
  }

  /** Signals the whole group, so that processes started by the command get it too. Does nothing if they have ended. */
  send(signal: NodeJS.Signals): void {
    try {
      process.kill(this.target, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
