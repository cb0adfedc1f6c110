/** The TypeScript SDK under the fault kit. docs/clients.md has the protocol. */
import { createInterface } from 'node:readline';
import { inspect } from 'node:util';
import { type HeldLock, Holdfast, HoldfastError, sigv4 } from '../../../src/client/index.ts';

interface Command {
  readonly do: 'acquire' | 'release' | 'abort' | 'quit';
  readonly id: string;
  readonly lock?: string;
  readonly leaseMs?: number;
  readonly waitMs?: number;
  readonly deadlineMs?: number;
  readonly learns?: 'by the clock' | 'by the event';
}

const tickMs = 20;

const tell = (line: object): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};

const locks = new Holdfast({
  url: process.env.HOLDFAST_URL ?? '',
  namespace: process.env.HOLDFAST_NAMESPACE ?? '',
  ...(process.env.HOLDFAST_AUTH === 'sigv4' ? { auth: sigv4() } : {}),
  // What users log must contain no secret.
  onEvent: (event) => console.error(inspect(event, { depth: 8 })),
});
const held = new Map<string, HeldLock>();
const waiting = new Map<string, AbortController>();

async function acquire({ id, lock: name = '', leaseMs, waitMs, deadlineMs, learns }: Command): Promise<void> {
  const controller = new AbortController();
  waiting.set(id, controller);
  try {
    const lock = await locks.acquire(name, { leaseMs, waitMs, deadlineMs, signal: controller.signal });
    console.error(inspect(lock, { depth: 8, showHidden: true }));
    held.set(id, lock);
    const { signal } = lock;
    work(id, lock.fence, learns === 'by the event' ? () => !signal.aborted : () => lock.isHeld());
  } catch (error) {
    console.error(inspect(error, { depth: 8 }));
    const code = error instanceof HoldfastError ? error.code : 'cancelled';
    tell({ id, is: 'refused', code, at: Date.now() });
  } finally {
    waiting.delete(id);
  }
}

/** Says that it works, as long as it may. The time is taken first: a pause before the look must not make it later. */
function work(id: string, fence: number, isHeld: () => boolean): void {
  const at = Date.now();
  if (!held.has(id)) return;
  if (isHeld()) {
    tell({ id, is: 'working', at, fence });
    setTimeout(() => work(id, fence, isHeld), tickMs);
  } else tell({ id, is: 'lost', at: Date.now() });
}

async function release({ id }: Command): Promise<void> {
  const lock = held.get(id);
  held.delete(id);
  const result = await lock?.release().catch((error: Error) => error.message);
  tell({ id, is: 'released', result, at: Date.now() });
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line) as Command;
  if (command.do === 'acquire') void acquire(command);
  else if (command.do === 'release') void release(command);
  else if (command.do === 'abort') waiting.get(command.id)?.abort(new Error('The caller gave up.'));
  else break;
}
await locks.close();
