import { fork } from 'node:child_process';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { withinLimit } from '../../tools/time-limit.ts';
import type { GuardianMessage } from './guardian.ts';

/** The program that starts an engine and its arguments. It is not a shell line, so no path needs quoting. */
export interface EngineCommand {
  file: string;
  args: string[];
  /** A text in the engine's command line. Another process with the same pid does not have it. */
  mark: string;
}

/** Where an engine keeps its items. Without a folder it keeps them in memory. */
export interface EngineStorage {
  port: number;
  folder?: string;
}

export interface EngineExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** True if `stop` was called. False if the engine ended by itself. */
  stopped: boolean;
  /** The last lines that the engine wrote. They say why it ended. */
  lastLines: string;
}

export interface GuardedEngine {
  pid: number;
  exited: Promise<EngineExit>;
  stop(): Promise<void>;
}

/** Enough for a Java exception with its cause. An engine that writes for days must not fill the memory. */
const lastCharactersMax = 4_000;

/** The guardian kills the engine after 3 s, and then exits. */
const stopWithinMs = 5_000;

/** The file is beside this one, both in the sources and in the published package. */
const guardianFile = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? './guardian.ts' : './guardian.js', import.meta.url),
);

export function endNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}

/** Starts an engine under a guardian. Returns when the process exists, which may be before it serves. */
export async function spawnGuarded(command: EngineCommand): Promise<GuardedEngine> {
  const guardian = fork(guardianFile, [command.file, ...command.args], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    // The guardian must not get flags of this process, such as a debugger's port.
    execArgv: [],
  });
  let output = '';
  let stopped = false;
  let enginePid: number | undefined;
  let ended: Pick<EngineExit, 'code' | 'signal'> | undefined;
  const outputs = [guardian.stdout, guardian.stderr].filter((stream) => stream !== null);
  for (const stream of outputs) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-lastCharactersMax);
    });
  }

  // The output is read to its end, so that the last lines are complete. (Node's 'close' event would be enough, but it
  // does not come after this side disconnected the channel.)
  const exited = Promise.all([
    new Promise<Pick<EngineExit, 'code' | 'signal'>>((resolve) => {
      guardian.once('exit', (code, signal) => resolve({ code, signal }));
    }),
    ...outputs.map((stream) => finished(stream).catch(() => {})),
  ]).then(([exit]): EngineExit => ({ ...(ended ?? exit), stopped, lastLines: output.trimEnd() }));
  // If the guardian was killed, it could not end the engine. This process must.
  guardian.once('exit', () => {
    if (ended === undefined && enginePid !== undefined) endNow(enginePid);
  });

  const pid = await new Promise<number>((resolve, reject) => {
    guardian.on('error', reject);
    guardian.on('message', (message: GuardianMessage) => {
      if (message.kind === 'started') {
        enginePid = message.pid;
        resolve(message.pid);
      } else if (message.kind === 'ended') ended = { code: message.code, signal: message.signal };
      else reject(new Error(message.message));
    });
    guardian.once('exit', () => reject(new Error(`the guardian ended before the engine started: ${output}`)));
  });

  async function stop(): Promise<void> {
    stopped = true;
    // The guardian sees the same as if this process died. So there is only one way to end an engine, and it is in use
    // every day.
    if (guardian.connected) guardian.disconnect();
    if ((await withinLimit(exited, stopWithinMs)).kind === 'done') return;
    endNow(pid);
    guardian.kill('SIGKILL');
    await exited;
  }
  return { pid, exited, stop };
}
