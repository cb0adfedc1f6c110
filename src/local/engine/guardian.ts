/**
 * The engine's parent process. It runs the engine, and ends it as soon as the service is gone.
 *
 * No process can clean up after its own `kill -9`, so this second process does. However the service ends, the operating
 * system closes its channel to this program, and this program needs no other signal. It runs in its own process group,
 * so that Ctrl-C reaches only the service. The service can then finish its requests first.
 */
import { spawn } from 'node:child_process';

/** Messages from the guardian to the service. */
export type GuardianMessage =
  | { kind: 'started'; pid: number }
  | { kind: 'failed'; message: string }
  | { kind: 'ended'; code: number | null; signal: NodeJS.Signals | null };

/** Engines end within a tenth of a second after SIGTERM. One that hangs must not outlive the service for long. */
const endWithinMs = 3_000;

const [file, ...args] = process.argv.slice(2);
if (file === undefined) throw new Error('guardian expects the program of the engine as its argument, but got nothing');

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
