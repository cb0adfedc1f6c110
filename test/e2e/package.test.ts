import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const npm = ['--no-audit', '--no-fund', '--loglevel=error'];

/** What a user would install beside the package for the subpaths that need it; linked, to spare the download. */
const peers = [
  '@aws-sdk/client-dynamodb',
  '@aws-sdk/lib-dynamodb',
  '@aws-sdk/util-dynamodb',
  'aws-cdk-lib',
  'constructs',
  '@aws/durable-execution-sdk-js',
  '@opentelemetry/api',
  '@types/node',
];

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-package-'));
  await run('npm', ['pack', '--pack-destination', folder, ...npm], { cwd: root });
  const [tarball] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'empty', private: true, type: 'module' }));
  await run('npm', ['install', `./${tarball}`, '--omit=peer', '--prefer-offline', ...npm], { cwd: folder });
  for (const peer of peers) {
    const link = join(folder, 'node_modules', peer);
    await mkdir(dirname(link), { recursive: true });
    await rm(link, { recursive: true, force: true });
    await symlink(join(root, 'node_modules', peer), link);
  }
}, 180_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

const exportsOf = async (subpath: string): Promise<string[]> => {
  const script = `console.log(JSON.stringify(Object.keys(await import(${JSON.stringify(subpath)}))))`;
  const { stdout } = await run('node', ['--input-type=module', '-e', script], { cwd: folder });
  return JSON.parse(stdout) as string[];
};

describe('the packed tarball in an empty folder', () => {
  it.each([
    ['holdfast', 'Holdfast'],
    ['holdfast/server', 'createDirect'],
    ['holdfast/cdk', 'LockService'],
    ['holdfast/testing', 'Twin'],
    ['holdfast/guards', 'fenceDynamoDB'],
    ['holdfast/middleware', 'holdfastLock'],
    ['holdfast/durable', 'lockedStep'],
    ['holdfast/opentelemetry', 'openTelemetry'],
  ])('gives %s, with %s in it', async (subpath, name) => {
    expect(await exportsOf(subpath)).toContain(name);
  });

  it('has types for every subpath', async () => {
    const source = [
      "import { Holdfast } from 'holdfast';",
      "import * as server from 'holdfast/server';",
      "import { LockService } from 'holdfast/cdk';",
      "import * as testing from 'holdfast/testing';",
      "import { fenceDynamoDB } from 'holdfast/guards';",
      "import * as middleware from 'holdfast/middleware';",
      'export const all = [Holdfast, server, LockService, testing, fenceDynamoDB, middleware];',
      "export const locks: Holdfast = new Holdfast({ url: 'http://127.0.0.1:4100', namespace: 'a' });",
    ].join('\n');
    await writeFile(join(folder, 'use.ts'), source);
    const options = [
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--module',
      'nodenext',
      '--target',
      'es2024',
      '--types',
      'node',
    ];
    await run(join(root, 'node_modules/.bin/tsc'), [...options, 'use.ts'], { cwd: folder });
  });

  it('runs its command, which can serve', async () => {
    const { stdout } = await run(join(folder, 'node_modules/.bin/holdfast'), ['serve', '--help'], { cwd: folder });
    expect(stdout).toContain('--engine');
  });

  it('serves, and its SDK takes a lock there, as the README shows', async () => {
    const service = spawn(join(folder, 'node_modules/.bin/holdfast'), ['serve', '--memory', '--port', '0'], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const url = await new Promise<string>((resolve, reject) => {
        createInterface({ input: service.stdout }).on('line', (line) => {
          const [, found] = /^Holdfast is listening on (\S+)/.exec(line) ?? [];
          if (found !== undefined) resolve(found);
        });
        service.once('exit', (code) => reject(new Error(`The service ended with ${code}.`)));
      });
      const script = `
        import { Holdfast } from 'holdfast';
        const locks = new Holdfast({ url: ${JSON.stringify(url)}, namespace: 'payments' });
        await locks.withLock('wallet:42', { leaseMs: 30_000, waitMs: 10_000 }, async ({ fence, signal }) => {
          console.log(JSON.stringify({ fence, lost: signal.aborted }));
        });
      `;
      await writeFile(join(folder, 'quick-start.mjs'), script);
      const { stdout } = await run('node', ['quick-start.mjs'], { cwd: folder, timeout: 30_000 });
      expect(JSON.parse(stdout)).toEqual({ fence: expect.any(Number), lost: false });
      // The console's page was made when the package was: nothing here could make it now.
      const page = await fetch(`${url}/console/page.js`);
      expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8']);
      expect(await page.text()).toContain('holdfast');
    } finally {
      service.removeAllListeners('exit');
      service.kill('SIGTERM');
      await once(service, 'exit');
    }
  });

  it('ships no sources, tests or data', async () => {
    const shipped = await readdir(join(folder, 'node_modules/holdfast'));
    expect(shipped.sort()).toEqual(['LICENSE', 'README.md', 'dist', 'package.json']);
  });
});
