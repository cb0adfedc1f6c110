import { fork } from 'node:child_process';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { withinLimit } from '../../tools/time-limit.ts';
import type { EngineCommand } from './command.ts';
import type { GuardianMessage } from './guardian.ts';

export interface EngineExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** True when `stop` was asked for; otherwise the engine died by itself. */
  stopped: boolean;
  /** The last that the engine wrote, to say why. */
  lastLines: string;
}

export interface GuardedEngine {
  pid: number;
  exited: Promise<EngineExit>;
  stop(): Promise<void>;
}

/** Enough for a Java exception with its cause; an engine that writes for days must not fill the memory. */
const lastCharactersMax = 4_000;

/** The guardian kills after 3 s, and then has only to exit. */
const stopWithinMs = 5_000;

/** Beside this file, in the sources and in the published package alike. */
const guardianFile = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? './guardian.ts' : './guardian.js', import.meta.url),
);

export function endNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}

/** Starts an engine under a guardian and answers once its process exists; whether it serves is another question. */
export async function spawnGuarded(command: EngineCommand): Promise<GuardedEngine> {
  const guardian = fork(guardianFile, [command.file, ...command.args], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    // Flags of the service's own process, such as a debugger's port, are not for the guardian.
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

  // The output is read to its end, so that the last words are complete. (Node's 'close' event would say as much, but
  // it does not come once the channel was disconnected from this side.)
  const exited = Promise.all([
    new Promise<Pick<EngineExit, 'code' | 'signal'>>((resolve) => {
      guardian.once('exit', (code, signal) => resolve({ code, signal }));
    }),
    ...outputs.map((stream) => finished(stream).catch(() => {})),
  ]).then(([exit]): EngineExit => ({ ...(ended ?? exit), stopped, lastLines: output.trimEnd() }));
  // A guardian that was killed could not end the engine, so that falls to the service.
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
    // The same signal that the death of this process would be: there is one way to end, and it is always in use.
    if (guardian.connected) guardian.disconnect();
    if ((await withinLimit(exited, stopWithinMs)).kind === 'done') return;
    endNow(pid);
    guardian.kill('SIGKILL');
    await exited;
  }
  return { pid, exited, stop };
}
