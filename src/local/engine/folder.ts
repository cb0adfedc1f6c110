import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { reasonOf } from '../../tools/error-text.ts';
import { StartError } from '../start-error.ts';
import type { EngineCommand } from './command.ts';
import { endNow } from './guarded.ts';

/** The right of one service to use a data folder. */
export interface FolderClaim {
  /** Where this engine keeps its files; each engine has its own, since they can't read each other's. */
  engineFolder: string;
  /** Writes down which process serves the folder, for the next start to end it should it be left behind. */
  record(enginePid: number, command: EngineCommand): void;
  release(): void;
}

interface Serving {
  servicePid: number;
  enginePid?: number;
  mark?: string;
}

/** An orphan gets SIGTERM first, so that it may close its files; one that hangs is killed. */
const orphanEndsWithinMs = 3_000;

/** Claims are kept here because a database that nobody refers to would be closed, and its lock lost, by the garbage collector. */
const claimed = new Set<DatabaseSync>();

/**
 * Takes a lock that the operating system frees when the process ends, however it ends, so that there is no stale lock to judge.
 * Node has no flock; an open SQLite transaction holds the same kind of lock on its file.
 */
function lock(file: string): DatabaseSync | undefined {
  const database = new DatabaseSync(file);
  try {
    database.exec('BEGIN EXCLUSIVE');
    return database;
  } catch (error) {
    database.close();
    const sqliteBusy = 5;
    if (error instanceof Error && 'errcode' in error && error.errcode === sqliteBusy) return undefined;
    throw error;
  }
}

function readServing(file: string): Serving | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Serving;
  } catch {
    return undefined;
  }
}

function writeServing(file: string, serving: Serving): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, JSON.stringify(serving));
  renameSync(draft, file);
}

/** The command line of a process, or an empty text when it has ended. */
async function commandLine(pid: number): Promise<string> {
  try {
    if (process.platform === 'linux') return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ');
    return (await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)])).stdout;
  } catch {
    return '';
  }
}

/**
 * Ends an engine that outlived both its service and its guardian. Pids are used again, so a process is ours only if
 * its command line names both our engine and this folder.
 */
async function endOrphan(serving: Serving | undefined, dataFolder: string): Promise<void> {
  if (!serving?.enginePid || !serving.mark) return;
  const { enginePid, mark } = serving;
  const isOurs = async () => {
    const line = await commandLine(enginePid);
    return line.includes(mark) && line.includes(dataFolder);
  };
  if (!(await isOurs())) return;
  try {
    process.kill(enginePid, 'SIGTERM');
  } catch {
    // It ended meanwhile, perhaps by its guardian.
  }
  for (let waitedMs = 0; await isOurs(); waitedMs += 50) {
    if (waitedMs >= orphanEndsWithinMs) endNow(enginePid);
    if (waitedMs >= 2 * orphanEndsWithinMs) {
      throw new StartError(`An engine left behind (pid ${enginePid}) does not end; end it, or use another --data.`);
    }
    await pause(50);
  }
}

/** Which engine last kept its items in the folder; undefined where none has. */
export function engineOf(folder: string): string | undefined {
  const dataFolder = resolve(folder);
  try {
    return readFileSync(join(dataFolder, engineFile), 'utf8').trim();
  } catch {
    // Written by an earlier release, which kept no note: the engine's own folder shows it.
    return ['dynamodb-local', 'dynoxide'].find((name) => existsSync(join(dataFolder, name)));
  }
}

/** Names the engine whose items are in use. */
const engineFile = 'engine';

/** Makes the folder ready for one engine and keeps every other service off it. */
export async function claimFolder(folder: string, engineName: string): Promise<FolderClaim> {
  const dataFolder = resolve(folder);
  const engineFolder = join(dataFolder, engineName);
  const servingFile = join(dataFolder, 'serving.json');
  let database: DatabaseSync | undefined;
  try {
    mkdirSync(engineFolder, { recursive: true });
    accessSync(engineFolder, constants.W_OK);
    database = lock(join(dataFolder, 'service.lock'));
  } catch (error) {
    throw new StartError(
      `Can't write to the data folder ${dataFolder} (${(error as NodeJS.ErrnoException).code ?? reasonOf(error)}); name another with --data, or use --memory.`,
    );
  }
  const before = readServing(servingFile);
  if (database === undefined) {
    const who = before ? ` (pid ${before.servicePid})` : '';
    throw new StartError(
      `The data folder ${dataFolder} is in use by a running service${who}; stop it, or name another with --data.`,
    );
  }
  const held = database;
  claimed.add(held);
  const release = () => {
    if (!claimed.delete(held)) return;
    rmSync(servingFile, { force: true });
    held.close();
  };
  try {
    await endOrphan(before, dataFolder);
    writeFileSync(join(dataFolder, engineFile), `${engineName}\n`);
    writeServing(servingFile, { servicePid: process.pid });
  } catch (error) {
    claimed.delete(held);
    held.close();
    throw error;
  }
  return {
    engineFolder,
    record: (enginePid, { mark }) => writeServing(servingFile, { servicePid: process.pid, enginePid, mark }),
    release,
  };
}
