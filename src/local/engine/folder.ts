import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { reasonOf } from '../../tools/error-text.ts';
import { StartError } from '../start-error.ts';
import { type EngineCommand, endNow } from './guarded.ts';

/** The exclusive right of one service to use a data folder. */
export interface ReservedFolder {
  /** Where this engine keeps its files. Each engine has its own folder, because none can read another's files. */
  engineFolder: string;
  /** Notes which process serves the folder. If that process is left behind, the next start ends it. */
  record(enginePid: number, command: EngineCommand): void;
  release(): void;
}

interface Serving {
  servicePid: number;
  enginePid?: number;
  mark?: string;
}

/** An engine that was left behind gets SIGTERM first, so that it can close its files. If it hangs, it is killed. */
const leftEngineEndsWithinMs = 3_000;

/** Keeps a reference to each database. Without it, the garbage collector would close the database and free its lock. */
const reserved = new Set<DatabaseSync>();

/**
 * Takes a lock that the operating system frees however the process ends, so a stale lock can't exist. Node has no
 * flock, but an open SQLite transaction holds the same kind of lock on its file.
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

/** The command line of a process, or an empty text if it has ended. */
async function commandLine(pid: number): Promise<string> {
  try {
    if (process.platform === 'linux') return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ');
    return (await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)])).stdout;
  } catch {
    return '';
  }
}

/**
 * Ends an engine that outlived both its service and its guardian. The system uses pids again, so a process is ours only
 * if its command line names both our engine and this folder.
 */
async function endLeftEngine(serving: Serving | undefined, dataFolder: string): Promise<void> {
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
    // It has ended in the meantime, perhaps by its guardian.
  }
  for (let waitedMs = 0; await isOurs(); waitedMs += 50) {
    if (waitedMs >= leftEngineEndsWithinMs) endNow(enginePid);
    if (waitedMs >= 2 * leftEngineEndsWithinMs) {
      throw new StartError(
        `An engine left behind (pid ${enginePid}) does not end; kill it, or name another folder with --data.`,
      );
    }
    await pause(50);
  }
}

/** The engine that last wrote to the folder. Undefined if none has. */
export function engineOf(folder: string): string | undefined {
  const dataFolder = resolve(folder);
  try {
    return readFileSync(join(dataFolder, engineFile), 'utf8').trim();
  } catch {
    // An earlier release wrote the folder and left no note. The engine's own folder shows which engine it was.
    return ['dynamodb-local', 'dynoxide'].find((name) => existsSync(join(dataFolder, name)));
  }
}

/** The file that names the engine in use. */
const engineFile = 'engine';

/** Prepares the folder for one engine, and keeps every other service out of it. */
export async function reserveFolder(folder: string, engineName: string): Promise<ReservedFolder> {
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
  reserved.add(held);
  const release = () => {
    if (!reserved.delete(held)) return;
    rmSync(servingFile, { force: true });
    held.close();
  };
  try {
    await endLeftEngine(before, dataFolder);
    writeFileSync(join(dataFolder, engineFile), `${engineName}\n`);
    writeServing(servingFile, { servicePid: process.pid });
  } catch (error) {
    reserved.delete(held);
    held.close();
    throw error;
  }
  return {
    engineFolder,
    record: (enginePid, { mark }) => writeServing(servingFile, { servicePid: process.pid, enginePid, mark }),
    release,
  };
}
