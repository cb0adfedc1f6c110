/**
 * Load for minutes: `node test/load/main.ts [minutes] [--locks 2000] [--workers 60] [--waiters 200] [--engine dynoxide]`. Thousands of
 * locks taken by the SDK over HTTP, one lock with hundreds of waiters, and a count of everything: nothing may get lost, and
 * nothing may grow for ever.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { HoldfastError } from '../../src/client/errors.ts';
import { Holdfast } from '../../src/client/holdfast.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    locks: { type: 'string', default: '2000' },
    workers: { type: 'string', default: '60' },
    waiters: { type: 'string', default: '200' },
    engine: { type: 'string', default: 'dynoxide' },
  },
});
const minutes = Number(positionals[0] ?? 2);
const [lockCount, workerCount, waiterCount] = [Number(values.locks), Number(values.workers), Number(values.waiters)];

/** After the first fifth of the run caches are warm; from there on the service may grow by this much. */
const growthMbMax = 80;

const root = fileURLToPath(new URL('../../', import.meta.url));
const service = spawn(
  process.execPath,
  [join(root, 'src/cli/main.ts'), 'serve', '--memory', '--port', '0', '--engine', values.engine],
  {
    stdio: ['ignore', 'pipe', 'ignore'],
  },
);
const url = await (async () => {
  for await (const line of createInterface({ input: service.stdout })) {
    const found = /listening on (http\S+)/.exec(line)?.[1];
    if (found !== undefined) return found;
  }
  throw new Error('The service did not start.');
})();
service.stdout.resume();
// Whatever ends this run, the service goes with it.
process.on('exit', () => service.kill());
for (const stop of ['SIGINT', 'SIGTERM'] as const) process.once(stop, () => process.exit(130));

const memoryMb = async (): Promise<number> => {
  const status = await readFile(`/proc/${service.pid}/status`, 'utf8').catch(() => '');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
};

const outcomes = new Map<string, number>();
const count = (what: string) => outcomes.set(what, (outcomes.get(what) ?? 0) + 1);
const handOffsMs: number[] = [];
const wrong: string[] = [];
/** The highest fence seen of each lock, and who is inside it now: what the locks are for. */
const fences = new Map<string, number>();
const inside = new Map<string, string>();

/** Fires at the end: whoever still waits leaves the line. */
const over = new AbortController();
const { signal } = over;
setTimeout(() => over.abort(new Error('The load is over.')), minutes * 60_000);
const isOver = () => signal.aborted;

async function hold(locks: Holdfast, name: string, owner: string, waitMs: number, workMs: number): Promise<void> {
  const held = await locks.acquire(name, { leaseMs: 30_000, waitMs, signal });
  if (held.fence <= (fences.get(name) ?? 0)) wrong.push(`${name}: fence ${held.fence} after ${fences.get(name)}`);
  if (inside.has(name)) wrong.push(`${name}: ${owner} came in while ${inside.get(name)} was inside`);
  fences.set(name, held.fence);
  inside.set(name, owner);
  await new Promise((resolve) => setTimeout(resolve, workMs));
  inside.delete(name);
  await held.release();
}

/** Takes locks at random, as independent callers do. */
async function work(locks: Holdfast, owner: string): Promise<void> {
  while (!isOver()) {
    try {
      await hold(
        locks,
        `lock-${Math.floor(Math.random() * lockCount)}`,
        owner,
        Math.random() < 0.5 ? 0 : 5_000,
        Math.random() * 20,
      );
      count('granted');
    } catch (error) {
      if (!isOver()) count(error instanceof HoldfastError ? error.code : String(error));
    }
  }
}

let releasedAt = 0;
/** Stands in one long line with all the others, over and over. */
async function queue(locks: Holdfast, owner: string): Promise<void> {
  while (!isOver()) {
    try {
      const held = await locks.acquire('the-line', { leaseMs: 30_000, waitMs: 300_000, signal });
      if (releasedAt > 0) handOffsMs.push(performance.now() - releasedAt);
      if (inside.has('the-line')) wrong.push(`the-line: ${owner} came in while ${inside.get('the-line')} was inside`);
      inside.set('the-line', owner);
      await new Promise((resolve) => setTimeout(resolve, 2));
      inside.delete('the-line');
      releasedAt = performance.now();
      await held.release();
      count('handed over');
    } catch (error) {
      if (!isOver()) count(error instanceof HoldfastError ? `in line: ${error.code}` : String(error));
    }
  }
}

const memory: number[] = [];
const watch = setInterval(() => void memoryMb().then((mb) => memory.push(mb)), 1_000);
const client = () => new Holdfast({ url, namespace: 'load' });
const clients = Array.from({ length: 10 }, client);
const pick = (index: number) => clients[index % clients.length] as Holdfast;
try {
  await Promise.all([
    ...Array.from({ length: workerCount }, (_, index) => work(pick(index), `worker ${index}`)),
    ...Array.from({ length: waiterCount }, (_, index) => queue(pick(index), `waiter ${index}`)),
  ]);
  await Promise.all(clients.map((each) => each.close()));
  // Everything was given back, or left the line; who could not say so is dropped after its allowed absence.
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  const observer = new Holdfast({ url, namespace: 'load', patience: { requestMs: 30_000, retryMs: 60_000 } });
  for await (const { lock, holders, queueDepth } of observer.list({ state: 'held' })) {
    // A grant whose holder had just left is bounded by its lease.
    if (holders.some(({ remainingMs }) => (remainingMs ?? 0) > 30_000) || queueDepth > 0)
      wrong.push(`${lock} is still held, ${queueDepth} wait`);
  }
  await observer.close();
} finally {
  clearInterval(watch);
  service.kill('SIGTERM');
  await once(service, 'exit');
}

const sorted = handOffsMs.toSorted((one, other) => one - other);
const quantile = (part: number) => (sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(1);
const warm = memory[Math.floor(memory.length / 5)] ?? 0;
const grownMb = Math.max(...memory.slice(-5)) - warm;
if (minutes >= 1 && grownMb > growthMbMax) wrong.push(`the service grew by ${grownMb.toFixed(0)} MB after it was warm`);
const errors = [...outcomes].filter(
  ([what]) => !['granted', 'handed over', 'lock-held', 'wait-timeout', 'in line: wait-timeout'].includes(what),
);

process.stdout.write(
  [
    `${minutes} minutes, ${lockCount} locks, ${workerCount} workers, ${waiterCount} waiters in line, engine ${values.engine}`,
    ...[...outcomes].sort().map(([what, number]) => `  ${what}: ${number} (${(number / minutes / 60).toFixed(1)}/s)`),
    `  hand-off in line, release sent to next holder running: p50 ${quantile(0.5)} ms, p90 ${quantile(0.9)} ms, p99 ${quantile(0.99)} ms, max ${quantile(1)} ms`,
    `  memory of the service: ${warm.toFixed(0)} MB when warm, grown by ${grownMb.toFixed(0)} MB since`,
    `  errors: ${errors.length === 0 ? 'none' : errors.map(([what, number]) => `${what} ×${number}`).join(', ')}`,
    wrong.length === 0 ? 'Nothing was lost.' : `WRONG:\n${wrong.slice(0, 20).join('\n')}`,
    '',
  ].join('\n'),
);
process.exitCode = wrong.length > 0 ? 1 : 0;
