/** MiniStack, an emulator of AWS, in a Python environment of its own. Nothing of it is needed for `npm start` or `npm test`. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { packageRoot } from '../../infra/function-code.ts';
import { freePort } from '../../src/local/engine/endpoint.ts';

/** The releases that were tried. */
const packages = { ministack: 'ministack==1.4.21', lint: 'cfn-lint==1.58.0' } as const;
const pythonVersionMin = 10;
/** It is ready within two seconds on an idle machine. */
const readyMsMax = 60_000;

/** Kept across runs, ignored by git, and gone with node_modules. */
const environment = join(packageRoot, 'node_modules', '.cache', 'holdfast-emulator');
const programOf = (name: string): string => join(environment, 'bin', name);

/** What is missing, in a sentence; undefined if the emulator can run. */
export function missingEmulator(): string | undefined {
  if (existsSync(programOf('ministack'))) return undefined;
  return 'The emulator is not installed. `npm run deploy:emulated` installs it, if there is Python 3.10 or newer.';
}

export const lintProgram = (): string | undefined =>
  existsSync(programOf('cfn-lint')) ? programOf('cfn-lint') : undefined;

/** Installs what is missing. Throws with a sentence that says what to do. */
export function installEmulator(say: (line: string) => void): void {
  if (missingEmulator() !== undefined) {
    const python = findPython();
    if (python === undefined)
      throw new Error(`Python 3.${pythonVersionMin} or newer is needed, as python3 or python on the PATH.`);
    say(`Installing ${packages.ministack} into an environment of its own.`);
    mkdirSync(dirname(environment), { recursive: true });
    run(python, ['-m', 'venv', environment], 'Python’s venv module is needed (on Debian: apt install python3-venv).');
    run(programOf('pip'), ['install', '--quiet', packages.ministack], 'PyPI must be in reach to install the emulator.');
  }
  if (lintProgram() !== undefined) return;
  say(`Installing ${packages.lint}.`);
  try {
    run(programOf('pip'), ['install', '--quiet', packages.lint], 'PyPI must be in reach.');
  } catch (error) {
    say(`${(error as Error).message} The template is not linted.`);
  }
}

function findPython(): string | undefined {
  const check = `import sys; sys.exit(0 if sys.version_info >= (3, ${pythonVersionMin}) else 1)`;
  return ['python3', 'python'].find((name) => {
    try {
      execFileSync(name, ['-c', check], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  });
}

function run(program: string, args: readonly string[], advice: string): void {
  try {
    execFileSync(program, [...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    const { stderr } = error as { stderr?: Buffer };
    throw new Error(`${program} ${args.join(' ')} failed. ${advice}\n${stderr?.toString().trim() ?? ''}`);
  }
}

export interface Emulator {
  readonly url: string;
  /** For every program that is to take the emulator for AWS. */
  readonly env: NodeJS.ProcessEnv;
  log(): string;
  /** Ends the emulator and its Lambda functions. Throws if a process is left. */
  stop(): Promise<void>;
}

export async function startEmulator(): Promise<Emulator> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-emulator-'));
  const port = await freePort();
  const lines: string[] = [];
  // Detached, so that it leads a process group: its Lambda functions are in the same group, and end with it.
  const child = spawn(programOf('ministack'), [], {
    detached: true,
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      BIND_HOST: '127.0.0.1',
      GATEWAY_PORT: String(port),
      MINISTACK_REGION: 'us-east-1',
      TMPDIR: folder,
      // Functions run on the `node` that is first on the PATH: the very runtime that is deployed.
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    },
  });
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => lines.push(chunk.toString()));
  const log = () => lines.join('');
  const stop = () => stopAll(child, folder);
  const url = `http://127.0.0.1:${port}`;
  try {
    await untilReady(url, child);
  } catch (error) {
    await stop();
    throw new Error(`${(error as Error).message}\n${log()}`);
  }
  const env = {
    ...process.env,
    AWS_ENDPOINT_URL: url,
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_REGION: 'us-east-1',
    AWS_DEFAULT_REGION: 'us-east-1',
  };
  return { url, env, log, stop };
}

async function untilReady(url: string, child: ChildProcess): Promise<void> {
  const giveUpAt = Date.now() + readyMsMax;
  while (Date.now() < giveUpAt) {
    if (child.exitCode !== null) throw new Error(`The emulator ended with ${child.exitCode}.`);
    const answer = await fetch(`${url}/_ministack/health`).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    await pause(100);
  }
  throw new Error(`The emulator was not ready within ${readyMsMax} ms.`);
}

async function stopAll(child: ChildProcess, folder: string): Promise<void> {
  const ended = child.exitCode === null ? once(child, 'exit') : Promise.resolve();
  signalGroup(child, 'SIGTERM');
  await Promise.race([ended, pause(5_000)]);
  // Functions that did not end with the emulator.
  signalGroup(child, 'SIGKILL');
  await ended;
  const left = processesOf(folder);
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`Processes are left: ${left.join(', ')}.`);
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // The group has ended.
  }
}

/** Ids of processes that run a program of this folder: functions are started from there. Known on Linux only. */
function processesOf(folder: string): string[] {
  if (!existsSync('/proc/self/cmdline')) return [];
  return readdirSync('/proc').filter((id) => {
    try {
      return /^\d+$/.test(id) && readFileSync(`/proc/${id}/cmdline`, 'utf8').includes(folder);
    } catch {
      return false;
    }
  });
}
