/** A process that holds a lock, for a test that freezes it. It prints what it sees, one line of JSON at a time. */
import { Holdfast, isHoldfastError } from '../../src/client/index.ts';

const [url = '', name = ''] = process.argv.slice(2);
const say = (line: object) => process.stdout.write(`${JSON.stringify({ at: Date.now(), ...line })}\n`);
process.on('unhandledRejection', (error) => say({ unhandled: String(error) }));

const locks = new Holdfast({ url, namespace: 'test', owner: 'worker', deadlineMs: 60_000 });
const lock = await locks.acquire(name, { leaseMs: 5_000 });
await locks.record(name).put('by the worker', 'absent', { fence: lock.fence });
say({ held: lock.fence });

// Stands for work: the SDK's own timers do not keep a process alive.
const work = setInterval(() => {}, 60_000);
await new Promise((resolve) => lock.onLost(resolve));
clearInterval(work);
say({ lost: lock.signal.reason.code, isHeld: lock.isHeld() });
try {
  await locks.record(name).put('too late', 'present', { fence: lock.fence });
  say({ wrote: true });
} catch (error) {
  say({ refused: isHoldfastError(error) ? error.code : String(error) });
}
// Nothing is closed here, because open resources of the SDK must not keep the process alive.
