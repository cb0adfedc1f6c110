import { execFile } from 'node:child_process';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { spawnGuarded } from '../../src/local/engine/guarded.ts';
import { withinLimit } from '../../src/tools/time-limit.ts';
import { findProgram } from '../support/program.ts';
import { pauseMs } from './measure.ts';

export const run = promisify(execFile);

/** A server is not installed. The report says why, and the run goes on without it. */
export class NotInstalled extends Error {}

/** A JVM or an initdb takes seconds on a busy machine. After this time it will not start. */
const readyWithinMs = 30_000;

/** The path of a program: on the PATH, or in a folder of Debian that is not on the PATH. */
export function requireProgram(name: string, folders: readonly string[] = []): string {
  const file = findProgram(name, folders);
  if (file === null) throw new NotInstalled(`${name} is not installed`);
  return file;
}

export interface ServerProcess {
  readonly pid: number;
  stop(): Promise<void>;
}

/** Starts a server, and waits until `ready` succeeds. The server ends with this process in every case. */
export async function startServer(
  file: string,
  args: readonly string[],
  ready: () => Promise<unknown>,
): Promise<ServerProcess> {
  const guarded = await spawnGuarded({ file, args: [...args], mark: file });
  const endsAt = performance.now() + readyWithinMs;
  for (;;) {
    const answered = await ready().then(
      () => true,
      () => false,
    );
    if (answered) return { pid: guarded.pid, stop: () => guarded.stop() };
    const ended = (await withinLimit(guarded.exited, 100)).kind === 'done';
    if (ended || performance.now() > endsAt) {
      await guarded.stop();
      const { lastLines } = await guarded.exited;
      throw new Error(`${file} did not start: ${lastLines.split('\n').slice(-3).join(' ')}`);
    }
    await pauseMs(100);
  }
}

/** A folder for a server's files, deleted with the server. It is on the disk and not in memory, so that a sync has its real cost. */
export async function temporaryFolder(owner?: {
  uid: number;
  gid: number;
}): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'holdfast-bench-'));
  if (owner !== undefined) await chown(path, owner.uid, owner.gid);
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
