import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { exitCodes } from './exit-codes.ts';
import { Failure } from './failure.ts';
import { exitCodeOfSignal } from './signals.ts';

function startFailure(file: string, cause: NodeJS.ErrnoException): Failure {
  return cause.code === 'ENOENT'
    ? new Failure('command', exitCodes.notFound, `There is no command '${file}'.`, { cause })
    : new Failure('command', exitCodes.notExecutable, `'${file}' can't be run: ${cause.message}`, { cause });
}

export interface ChildOptions {
  readonly env: NodeJS.ProcessEnv;
  /** The command stays in our process group and keeps the terminal. A signal then reaches only the command itself. */
  readonly foreground: boolean;
}

/** A running command. It has its own process group, and shares our input and output. */
export class Child {
  /**
   * The exit code as a shell reports it: the command's own code, or 128 plus the number of the signal that ended it.
   */
  readonly exited: Promise<{ readonly exitCode: number; readonly signal: NodeJS.Signals | null }>;
  /** The id of the process group as a negative number, or the id of the process. */
  readonly target: number;

  private constructor(child: ChildProcess, foreground: boolean) {
    const pid = child.pid as number;
    this.target = foreground ? pid : -pid;
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        const exitCode = signal === null ? (code ?? exitCodes.internal) : exitCodeOfSignal(signal);
        resolve({ exitCode, signal });
      });
    });
  }

  static async start(command: readonly string[], { env, foreground }: ChildOptions): Promise<Child> {
    const [file = '', ...args] = command;
    const child = spawn(file, args, { stdio: 'inherit', detached: !foreground, env });
    if (child.pid === undefined) {
      const [error] = await once(child, 'error');
      throw startFailure(file, error as NodeJS.ErrnoException);
    }
    // A signal that can't be sent causes an 'error' event. Without a listener, that event would end this program.
    child.on('error', () => {});
    return new Child(child, foreground);
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
