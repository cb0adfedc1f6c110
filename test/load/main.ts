/**
 * Load for minutes:
 * `node test/load/main.ts [minutes] [--locks 2000] [--workers 60] [--waiters 200] [--lines 8] [--engine dynoxide]`. The
 * SDK takes thousands of locks over HTTP, and hundreds of waiters wait in a few long queues. Everything is counted:
 * nothing may get lost, and memory must not keep growing.
 */
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { HoldfastError } from '../../src/client/errors.ts';
import { Holdfast } from '../../src/client/holdfast.ts';
import { startServing } from '../support/program.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    locks: { type: 'string', default: '2000' },
    workers: { type: 'string', default: '60' },
    waiters: { type: 'string', default: '200' },
    lines: { type: 'string', default: '8' },
    engine: { type: 'string', default: 'dynoxide' },
  },
});
const minutes = Number(positionals[0] ?? 2);
const [lockCount, workerCount] = [Number(values.locks), Number(values.workers)];
const [waiterCount, lineCount] = [Number(values.waiters), Number(values.lines)];

/** Compares the second quarter of the run with the last. A busy heap varies by this much. A leak grows further. */
const growthMbMax = 150;

const service = await startServing(['--memory', '--port', '0', '--engine', values.engine]);
const { url } = service;
// However this run ends, the service ends too.
process.on('exit', () => service.process.kill());
for (const stop of ['SIGINT', 'SIGTERM'] as const) process.once(stop, () => process.exit(130));

const memoryMb = async (): Promise<number> => {
  const status = await readFile(`/proc/${service.pid}/status`, 'utf8').catch(() => '');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
};

const outcomes = new Map<string, number>();
const count = (what: string) => outcomes.set(what, (outcomes.get(what) ?? 0) + 1);
const handOffsMs: number[] = [];
const wrong: string[] = [];
/** The highest fence of each lock so far, and its current holder. A second holder or a lower fence is a failure. */
const fences = new Map<string, number>();
const inside = new Map<string, string>();

/** Aborts at the end, so that every remaining waiter leaves the queue. */
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

const releasedAt = new Map<string, number>();
/** Waits in one queue with many others, again and again. */
async function queue(locks: Holdfast, name: string, owner: string): Promise<void> {
  while (!isOver()) {
    try {
      const held = await locks.acquire(name, { leaseMs: 30_000, waitMs: 300_000, signal });
      const since = releasedAt.get(name);
      if (since !== undefined) handOffsMs.push(performance.now() - since);
      if (inside.has(name)) wrong.push(`${name}: ${owner} came in while ${inside.get(name)} was inside`);
      inside.set(name, owner);
      await new Promise((resolve) => setTimeout(resolve, 2));
      inside.delete(name);
      releasedAt.set(name, performance.now());
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
    ...Array.from({ length: waiterCount }, (_, index) =>
      queue(pick(index), `line-${index % lineCount}`, `waiter ${index}`),
    ),
  ]);
  await Promise.all(clients.map((each) => each.close()));
  // Every lock was released and every waiter left the queue. If a waiter could not leave, it is dropped when it counts
  // as absent.
  const observer = new Holdfast({
    url,
    namespace: 'load',
    patience: { requestMs: 30_000, retryMs: 60_000, tryMs: 30_000 },
  });
  const leftovers = async () => {
    const found: string[] = [];
    for await (const { lock, holders, queueDepth } of observer.list({ state: 'held' }))
      found.push(`${lock} is still held by ${holders.map(({ owner }) => owner).join()}, ${queueDepth} wait`);
    return found;
  };
  // A poll, the absence allowed after it, one grant to a waiter that has left, and its lease.
  const emptyBy = performance.now() + 90_000;
  let left = await leftovers();
  while (left.length > 0 && performance.now() < emptyBy) {
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    left = await leftovers();
  }
  wrong.push(...left);
  await observer.close();
} finally {
  clearInterval(watch);
  await service.end();
}

const sorted = handOffsMs.toSorted((one, other) => one - other);
const quantile = (part: number) => (sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(1);
const medianOf = (samples: readonly number[]) =>
  samples.toSorted((one, other) => one - other)[samples.length >> 1] ?? 0;
const half = memory.slice(memory.length >> 1);
const [warm, late] = [
  medianOf(memory.slice(memory.length >> 2, memory.length >> 1)),
  medianOf(half.slice(half.length >> 1)),
];
const grownMb = late - warm;
if (minutes >= 1 && grownMb > growthMbMax) wrong.push(`the service grew by ${grownMb.toFixed(0)} MB after it was warm`);
const errors = [...outcomes].filter(
  ([what]) => !['granted', 'handed over', 'lock-held', 'wait-timeout', 'in line: wait-timeout'].includes(what),
);

process.stdout.write(
  [
    `${minutes} minutes, ${lockCount} locks, ${workerCount} workers, ${waiterCount} waiters in ${lineCount} lines, engine ${values.engine}`,
    ...[...outcomes].sort().map(([what, number]) => `  ${what}: ${number} (${(number / minutes / 60).toFixed(1)}/s)`),
    `  hand-off in line, release sent to next holder running: p50 ${quantile(0.5)} ms, p90 ${quantile(0.9)} ms, p99 ${quantile(0.99)} ms, max ${quantile(1)} ms`,
    `  memory of the service: ${warm.toFixed(0)} MB when warm, grown by ${grownMb.toFixed(0)} MB since`,
    `  errors: ${errors.length === 0 ? 'none' : errors.map(([what, number]) => `${what} ×${number}`).join(', ')}`,
    wrong.length === 0 ? 'Nothing was lost.' : `WRONG:\n${wrong.slice(0, 20).join('\n')}`,
    '',
  ].join('\n'),
);
process.exitCode = wrong.length > 0 ? 1 : 0;
