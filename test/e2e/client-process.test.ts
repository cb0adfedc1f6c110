import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type BuildResult, build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { Holdfast } from '../../src/client/index.ts';
import { freePort } from '../../src/local/engine/endpoint.ts';
import { type ServingProgram, startServing } from '../support/program.ts';
import { patient } from '../support/service.ts';

const run = promisify(execFile);
const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The lines that the worker prints, as they come. */
function readLines(child: ChildProcess) {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  return {
    nextLine: async () => JSON.parse((await lines.next()).value as string) as Record<string, unknown>,
    noMoreLines: async () => (await lines.next()).done === true,
  };
}

/** For all tests that do not end it. */
let service: ServingProgram;
beforeAll(async () => {
  service = await startServing(['--memory', '--port', '0']);
});
afterAll(() => service.end('SIGTERM'));

describe('a process that is frozen past its lease', () => {
  it('knows it when it goes on, is refused by the fence, and ends by itself', async () => {
    await using locks = new Holdfast({ url: service.url, namespace: 'test', patience: patient });
    const name = randomUUID();
    const worker = spawn(process.execPath, [at('./client-worker.ts'), service.url, name], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = new Promise<number | null>((resolve) => worker.once('exit', (code) => resolve(code)));
    onTestFinished(() => void worker.kill('SIGKILL'));
    const { nextLine } = readLines(worker);
    const { held } = await nextLine();

    worker.kill('SIGSTOP');
    const lock = await locks.acquire(name, { waitMs: 120_000 });
    expect(lock.fence).toBeGreaterThan(held as number);
    await locks.record(name).update(() => 'by the next holder', { fence: lock.fence });
    worker.kill('SIGCONT');

    const lost = await nextLine();
    expect(lost).toMatchObject({ lost: 'lease-lost', isHeld: false });
    expect(await nextLine()).toMatchObject({ refused: 'stale-fence' });
    expect(await exited).toBe(0);
    expect((await locks.record(name).get())?.value).toBe('by the next holder');
    expect(lock.isHeld()).toBe(true);
  });
});

describe('a process that has waited by push', () => {
  it.each(['its own WebSocket', 'the package ws'])('ends by itself, without closing its client: %s', async (which) => {
    await using locks = new Holdfast({ url: service.url, namespace: 'test' });
    const name = randomUUID();
    const held = await locks.acquire(name);
    const code = `
      const { Holdfast } = await import(${JSON.stringify(new URL('../../src/client/index.ts', import.meta.url).href)});
      const { WebSocket } = ${which === 'the package ws' ? "await import('ws')" : 'globalThis'};
      const locks = new Holdfast({ url: ${JSON.stringify(service.url)}, namespace: 'test', webSocket: WebSocket });
      const onWaiting = ({ position }) => console.log(JSON.stringify({ position }));
      const lock = await locks.acquire(${JSON.stringify(name)}, { waitMs: 60_000, onWaiting });
      await lock.release();
      // An idle socket stays open for ten seconds, but this process must not stay because of it. This timer does not
      // keep the process running.
      setTimeout(() => console.log(JSON.stringify({ stayed: true })), 9_000).unref();
      console.log(JSON.stringify({ released: true }));
    `;
    const cwd = at('../..');
    const worker = spawn(process.execPath, ['--input-type=module', '--eval', code], {
      cwd,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void worker.kill('SIGKILL'));
    const exited = new Promise<number | null>((resolve) => worker.once('exit', (status) => resolve(status)));
    const { nextLine, noMoreLines } = readLines(worker);
    // After the poll, and when it is parked.
    expect([await nextLine(), await nextLine()]).toEqual([{ position: 1 }, { position: 1 }]);
    await held.release();
    expect(await nextLine()).toEqual({ released: true });
    expect(await exited).toBe(0);
    expect(await noMoreLines()).toBe(true);
  });
});

describe('a service that is killed and started again', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('finds its locks again, and the holder renews as if nothing had been', async () => {
    const args = ['--data', folder, '--port', String(await freePort())];
    const first = await startServing(args);
    let renewed = () => {};
    const renewedAgain = new Promise<void>((resolve) => {
      renewed = resolve;
    });
    const locks = new Holdfast({
      url: first.url,
      namespace: 'test',
      onEvent: ({ type }) => {
        if (type === 'renewed') renewed();
      },
    });
    const lock = await locks.acquire('wallet:42', { leaseMs: 30_000 });
    await first.end('SIGKILL');
    await expect(lock.renew()).rejects.toMatchObject({ code: 'unavailable' });
    const second = await startServing(args);
    await renewedAgain;
    expect(lock.isHeld()).toBe(true);
    expect(await locks.check('wallet:42', lock.fence)).toMatchObject({ valid: true });
    expect(await lock.release()).toEqual({ released: true, reason: 'ok' });
    await locks.close();
    await second.end('SIGTERM');
  });
});

describe('the SDK as it is published', () => {
  let bundle: string;
  let built: BuildResult<{ metafile: true }>;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-'));
    bundle = join(folder, 'holdfast.mjs');
    built = await build({
      entryPoints: [at('../../src/client/index.ts')],
      outfile: bundle,
      bundle: true,
      format: 'esm',
      platform: 'neutral',
      target: 'node20',
      metafile: true,
    });
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('imports nothing: no dependency, and nothing of Node', () => {
    const { metafile, warnings } = built;
    expect(warnings).toEqual([]);
    const imports = Object.values(metafile.inputs).flatMap((input) => input.imports.filter(({ external }) => external));
    expect(imports).toEqual([]);
  });

  it.each(['close', 'release'])('lets a bare script exit by itself after %s', async (end) => {
    const script = `
      import { Holdfast } from ${JSON.stringify(bundle)};
      const locks = new Holdfast({ url: ${JSON.stringify(service.url)}, namespace: 'test', deadlineMs: 60_000 });
      const lock = await locks.acquire('bare-${end}', { leaseMs: 60_000 });
      await ${end === 'close' ? 'locks.close()' : 'lock.release()'};
      console.log('done', lock.isHeld());
    `;
    const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script], { timeout: 120_000 });
    expect(stdout).toBe('done false\n');
  });

  it('lets a script exit that forgot its lock', async () => {
    const script = `
      import { Holdfast } from ${JSON.stringify(bundle)};
      const locks = new Holdfast({ url: ${JSON.stringify(service.url)}, namespace: 'test', deadlineMs: 60_000 });
      await locks.acquire('forgotten', { leaseMs: 60_000 });
    `;
    await run(process.execPath, ['--input-type=module', '--eval', script], { timeout: 120_000 });
  });
});
