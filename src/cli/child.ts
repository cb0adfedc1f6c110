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
  /** Stays in the process group of this program, and so with its terminal. Then only the process itself can be ended. */
  readonly foreground: boolean;
}

/** A running command, in a process group of its own, with the input and output of this program. */
export class Child {
  /** As shells tell it: its own code, or 128 and the number of the signal that ended it. */
  readonly exited: Promise<{ readonly exitCode: number; readonly signal: NodeJS.Signals | null }>;
  /** The process group as a negative number, or the process. */
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
    // Failing to signal is reported as an event, which nobody listening for would end this program.
    child.on('error', () => {});
    return new Child(child, foreground);
  }

  /** To the whole group, so that it also reaches what the command started. Who has ended already is not told. */
  send(signal: NodeJS.Signals): void {
    try {
      process.kill(this.target, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
