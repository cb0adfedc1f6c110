/**
 * `npm run bench:deadlines`: how long each call takes while the service is down. Prints the last column of the table "How long a call
 * takes" in docs/sdk.md: with connections refused, and with a service that takes them and never answers.
 */
import { type AddressInfo, createServer } from 'node:net';
import { Holdfast } from '../../src/client/index.ts';

const calls: readonly (readonly [string, (locks: Holdfast) => Promise<unknown>])[] = [
  ['tryAcquire', (locks) => locks.tryAcquire('a')],
  ['tryAcquireAll', (locks) => locks.tryAcquireAll(['a', 'b'])],
  ['acquire, waitMs 500', (locks) => locks.acquire('a', { waitMs: 500 })],
  ['acquireAll, waitMs 500', (locks) => locks.acquireAll(['a', 'b'], { waitMs: 500 })],
  ['health', (locks) => locks.health()],
  ['inspect', (locks) => locks.inspect('a')],
  ['record', (locks) => locks.record('a').get()],
  ['session', (locks) => locks.session()],
  ['park', (locks) => locks.park('a', { waitMs: 1_000, notify: { type: 'event', ref: 'r' } })],
  ['release', (locks) => locks.release({ lock: 'a', leaseId: 'lease-of-somebody' })],
  ['tryAcquire, deadlineMs 300', (locks) => locks.tryAcquire('a', { deadlineMs: 300 })],
  ['acquire, deadlineMs 300', (locks) => locks.acquire('a', { waitMs: 500, deadlineMs: 300 })],
  ['health, deadlineMs 300', (locks) => locks.health({ deadlineMs: 300 })],
];

/** The median of several, in seconds, because retries are random. */
async function measure(url: string, call: (locks: Holdfast) => Promise<unknown>): Promise<string> {
  const tookMs: number[] = [];
  for (let turn = 0; turn < 5; turn++) {
    const locks = new Holdfast({ url, namespace: 'down' });
    const beganMs = performance.now();
    await call(locks).catch(() => undefined);
    tookMs.push(performance.now() - beganMs);
    // `close` releases what a lost answer may have granted. That takes its own time.
    void locks.close().catch(() => undefined);
  }
  tookMs.sort((one, other) => one - other);
  return `${((tookMs[2] ?? 0) / 1_000).toFixed(2)} s (at most ${((tookMs.at(-1) ?? 0) / 1_000).toFixed(2)} s)`;
}

const silent = createServer((socket) => void socket.on('error', () => {}));
await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
const silentUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
// Nobody listens on the port for discarding.
const refusedUrl = 'http://127.0.0.1:9';

for (const [name, call] of calls) {
  console.log(`${name}: refused ${await measure(refusedUrl, call)}, silent ${await measure(silentUrl, call)}`);
}
process.exit(0);
