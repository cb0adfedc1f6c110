/**
 * The engine's parent: runs it, and ends it as soon as the service is gone.
 *
 * No process can clean up after its own `kill -9`, so someone else must. The channel to the service is closed
 * by the operating system however the service ends, and that is the one signal that this program needs. It runs in a
 * process group of its own, so that Ctrl-C reaches the service alone, which may then finish its requests first.
 */
import { spawn } from 'node:child_process';

/** What the guardian tells the service. */
export type GuardianMessage =
  | { kind: 'started'; pid: number }
  | { kind: 'failed'; message: string }
  | { kind: 'ended'; code: number | null; signal: NodeJS.Signals | null };

/** Engines end within a tenth of a second on SIGTERM; one that hangs must not outlive the service by much. */
const endWithinMs = 3_000;

const [file, ...args] = process.argv.slice(2);
if (file === undefined) throw new Error('guardian expects the program to guard, and got nothing');

const engine = spawn(file, args, { stdio: ['ignore', 'inherit', 'inherit'] });

function report(message: GuardianMessage, then: () => void = () => {}): void {
  if (process.connected) process.send?.(message, then);
  else then();
}

function endEngine(): void {
  engine.kill('SIGTERM');
  setTimeout(() => engine.kill('SIGKILL'), endWithinMs);
}

engine.once('spawn', () => report({ kind: 'started', pid: engine.pid ?? 0 }));
engine.once('error', ({ message }) => report({ kind: 'failed', message }, () => process.exit(1)));
engine.once('exit', (code, signal) => report({ kind: 'ended', code, signal }, () => process.exit(0)));

process.once('disconnect', endEngine);
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, endEngine);
