/**
 * The command line under the fault kit: `holdfast run` for each lock. Its command is the work, and says so as long as it
 * runs. docs/clients.md has the protocol.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

interface Command {
  readonly do: 'acquire' | 'release' | 'abort' | 'quit';
  readonly id: string;
  readonly lock?: string;
  readonly leaseMs?: number;
  readonly waitMs?: number;
  readonly deadlineMs?: number;
}

const program = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url));
/** It works until its input ends. */
const work = `
const { KIT_ID: id, HOLDFAST_FENCE: fence } = process.env;
const tell = () => process.stdout.write(JSON.stringify({ id, is: 'working', at: Date.now(), fence: Number(fence) }) + '\\n');
tell();
setInterval(tell, 20);
process.stdin.on('end', () => process.exit(0)).resume();
`;
const codes: Readonly<Record<number, string>> = { 69: 'unavailable', 75: 'refused', 76: 'lease-lost', 77: 'forbidden' };

const tell = (line: object): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};

const running = new Map<string, ChildProcess>();

function acquire({ id, lock = '', leaseMs = 30_000, waitMs = 0, deadlineMs }: Command): void {
  const bounds = deadlineMs === undefined ? [] : ['--timeout', `${Math.max(100, deadlineMs - waitMs)}ms`];
  const signed = process.env.HOLDFAST_AUTH === 'sigv4' ? ['--sigv4'] : [];
  const flags = ['--lease', `${leaseMs}ms`, '--wait', `${waitMs}ms`, '--grace', '100ms', ...bounds, ...signed];
  const child = spawn(process.execPath, [program, 'run', lock, ...flags, '--', process.execPath, '-e', work], {
    env: { ...process.env, KIT_ID: id },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  running.set(id, child);
  tell({ id, is: 'process', pid: child.pid });
  let worked = false;
  createInterface({ input: child.stdout }).on('line', (line) => {
    worked = true;
    process.stdout.write(`${line}\n`);
  });
  child.stdin.on('error', () => {});
  child.on('close', (code) => {
    running.delete(id);
    const at = Date.now();
    if (code === 0) tell({ id, is: 'released', at });
    else if (worked) tell({ id, is: 'lost', code, at });
    else tell({ id, is: 'refused', code: codes[code ?? -1] ?? `exit ${code}`, at });
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line) as Command;
  if (command.do === 'acquire') acquire(command);
  else if (command.do === 'release') running.get(command.id)?.stdin?.end();
  else if (command.do === 'abort') running.get(command.id)?.kill('SIGINT');
  else break;
}
for (const child of running.values()) child.kill('SIGTERM');
