/** Keeps the house tidy: imports point inward, nothing is left over, and every dependency has its reason. */
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** The files that git knows or would add. Ignored files are not checked. */
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => statSync(join(root, file), { throwIfNoEntry: false })?.isFile() && file !== '');
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');

interface Folder {
  /** The other folders that it may import: whole folders, or single files of them. */
  readonly may: readonly string[];
  /** Packages whose code it may load. */
  readonly packages?: readonly string[];
  /** Packages and folders that it may import by `import type` only, so that none of their code is loaded. */
  readonly types?: readonly string[];
}

const rules = ['src/time', 'src/lock', 'src/session', 'src/record', 'src/multi'];
/** The parts of the contract that contain only types and constants. */
const plainContract = ['src/contract/limits.ts', 'src/contract/problems.ts', 'src/contract/views.ts'];
/** What is kept, and the one table under it. */
const stores = ['src/queue', 'src/store', 'src/table'];

/** The folders, from the rules outwards. A file belongs to the deepest folder that contains it. */
const folders: Record<string, Folder> = {
  'src/time': { may: [] },
  // Small tools that know nothing of locks. Any folder may use them.
  'src/tools': { may: ['src/time'] },
  'src/lock': { may: ['src/time'] },
  'src/session': { may: ['src/lock', 'src/time'] },
  'src/record': { may: ['src/lock', 'src/time'] },
  'src/multi': { may: ['src/lock', 'src/time'] },
  // A DynamoDB in memory. It knows nothing of Holdfast.
  'src/engine': { may: ['src/tools'] },
  // The one port at the table, and the built-in engine behind it. It loads no SDK, so the twin doesn't either.
  'src/table': { may: ['src/engine', 'src/time', 'src/tools'], types: ['aws-lambda'] },
  'src/table/aws': { may: ['src/table', 'src/tools'], packages: ['@aws-sdk/client-dynamodb'] },
  'src/queue': { may: ['src/lock', 'src/table', 'src/time', 'src/tools'] },
  'src/store': {
    may: ['src/lock', 'src/session', 'src/record', 'src/queue', 'src/table', 'src/time', 'src/tools'],
    types: ['aws-lambda'],
  },
  'src/service': { may: [...rules, 'src/tools', ...stores] },
  'src/notify': { may: [...rules, 'src/tools', ...stores, 'src/service'], types: ['aws-lambda'] },
  'src/notify/aws': {
    may: [...rules, 'src/tools', ...stores, 'src/service', 'src/notify'],
    packages: [
      '@aws-sdk/client-sqs',
      '@aws-sdk/client-lambda',
      '@aws-sdk/client-sfn',
      '@aws-sdk/client-eventbridge',
      '@aws-sdk/client-apigatewaymanagementapi',
    ],
    types: ['aws-lambda'],
  },
  // What callers are promised. It knows the limits of the rules, but none of the code that keeps the promise.
  'src/contract': { may: rules, packages: ['zod'] },
  'src/http': {
    may: [...rules, 'src/tools', 'src/contract', ...stores, 'src/service', 'src/notify'],
    packages: ['zod'],
    types: ['aws-lambda'],
  },
  'src/websocket': {
    may: ['src/time', 'src/tools', 'src/contract', ...stores, 'src/service', 'src/notify', 'src/http'],
    packages: ['zod'],
    types: ['aws-lambda'],
  },
  // What a process starts with: environment, wiring, log, version.
  'src/process': {
    may: ['src/tools', ...stores, 'src/table/aws', 'src/service', 'src/http'],
    packages: ['@aws-lambda-powertools/logger'],
  },
  // Users import these, so they load no other package. From the contract they use only types and plain constants.
  'src/client': { may: ['src/tools', ...plainContract], types: ['src/contract'] },
  // Records and guards refuse with the same StaleFenceError.
  'src/guards': { may: ['src/tools', 'src/client/errors.ts'] },
  'src/opentelemetry': { may: ['src/client'], packages: ['@opentelemetry/api'] },
  'src/durable': { may: ['src/client'], types: ['@aws/durable-execution-sdk-js'] },
  'src/middleware': { may: ['src/client', 'src/tools'], types: ['@middy/core', 'aws-lambda'] },
  'src/server': {
    may: ['src/client', 'src/contract', 'src/http', 'src/process', 'src/table', 'src/table/aws', 'src/tools'],
    types: ['@aws-sdk/client-dynamodb'],
  },
  'src/testing': {
    may: [
      ...rules,
      'src/tools',
      ...stores,
      'src/engine',
      'src/service',
      'src/notify',
      'src/http',
      'src/process',
      'src/client',
      'src/server',
    ],
    types: ['aws-lambda'],
  },
  'src/local': {
    may: [
      'src/engine',
      ...rules,
      'src/tools',
      ...stores,
      'src/table/aws',
      'src/service',
      'src/notify',
      'src/notify/aws',
      'src/http',
      'src/websocket',
      'src/process',
    ],
    packages: [
      '@aws-sdk/client-dynamodb',
      '@aws-sdk/client-dynamodb-streams',
      '@aws-sdk/client-lambda',
      '@aws-sdk/client-sfn',
      'ws',
      'zod',
    ],
    types: ['aws-lambda'],
  },
  // The console's server calls the service as any other client does. The page's model is pure and shared with tests,
  // and the page draws it. Of the SDK, both know only the types of its answers.
  'src/console/server': { may: ['src/client', 'src/tools'], packages: ['esbuild'] },
  'src/console/model': { may: ['src/client'] },
  'src/console/page': { may: ['src/console/model', 'src/client'], packages: ['lit-html'] },
  'src/mcp': { may: ['src/client'], packages: ['@modelcontextprotocol/sdk', 'zod'] },
  'src/cli': {
    may: [
      'src/local',
      'src/client',
      'src/mcp',
      'src/console/server',
      'src/time',
      'src/tools',
      'src/process',
      ...plainContract,
    ],
  },
  'src/demo': { may: ['src/local', 'src/client', 'src/guards'] },
  // Wiring only: each function gets its adapters here and decides nothing, so it needs no rules and no use cases.
  functions: {
    may: ['src/http', 'src/websocket', 'src/process', 'src/notify', 'src/notify/aws', 'src/store', 'src/time'],
    packages: ['@middy/core'],
    types: ['aws-lambda'],
  },
  // The stack reads what the code says about itself: its contract, its table, its limits and the names of its metrics.
  infra: {
    may: [
      // The page of the console is built with the package.
      'src/console/server/bundle.ts',
      'src/contract',
      'src/process/version.ts',
      'src/table/shape.ts',
      'src/lock/limits.ts',
      'src/notify/measures.ts',
      'src/notify/stream-filter.ts',
    ],
    packages: ['aws-cdk-lib', 'constructs', 'cdk-nag', 'esbuild'],
  },
};

/** The rules only compute with their input. From Node they may use only what is pure too. */
const pureFolders = [...rules, 'src/tools', 'src/client', 'src/guards', 'src/console/model', 'src/console/page'];
const pureBuiltins = ['node:crypto'];

interface Import {
  readonly file: string;
  readonly from: string;
  readonly typeOnly: boolean;
}

const importPattern = /^(?:import|export)\s(?:(type\s)?[^'";]*?\sfrom\s)?'([^']+)'|\bimport\('([^']+)'\)/gm;

const importsOf = (file: string): Import[] =>
  [...textOf(file).matchAll(importPattern)].map(([, type, from, dynamic]) => ({
    file,
    from: from ?? dynamic ?? '',
    typeOnly: type !== undefined,
  }));

const folderNames = Object.keys(folders).sort((one, other) => other.length - one.length);
const folderOf = (file: string): string | undefined => folderNames.find((name) => file.startsWith(`${name}/`));

const sources = files.filter((file) => /^(src|functions|infra)\/.*\.ts$/.test(file));
const imports = sources.flatMap(importsOf);
const packageOf = (from: string): string => from.split('/', from.startsWith('@') ? 2 : 1).join('/');

/** What is wrong with an import. Undefined if it is fine. */
function complaint({ file, from, typeOnly }: Import): string | undefined {
  const folder = folderOf(file);
  if (folder === undefined) return `${file} is in no folder of this list; add the folder`;
  const { may, packages = [], types = [] } = folders[folder] as Folder;
  if (from.startsWith('.')) {
    const target = posix.join(posix.dirname(file), from);
    const other = folderOf(target) ?? target;
    const allowed =
      other === folder || may.includes(other) || may.includes(target) || (typeOnly && types.includes(other));
    return allowed ? undefined : `${file} imports ${target}: ${folder} must not know ${other}`;
  }
  if (from.startsWith('node:')) {
    const impure = pureFolders.includes(folder) && !pureBuiltins.includes(from);
    return impure ? `${file} imports ${from}: ${folder} does no I/O` : undefined;
  }
  if (builtinModules.includes(from)) return `${file} imports ${from} without node:`;
  const name = packageOf(from);
  if (packages.includes(name) || (typeOnly && types.includes(name))) return undefined;
  return `${file} imports ${from}: ${folder} must not load it`;
}

describe('the house', () => {
  it('has sources to look at', () => {
    expect(sources.length).toBeGreaterThan(100);
    expect(imports.length).toBeGreaterThan(300);
  });

  it('has imports that point inward only', () => {
    expect(imports.map(complaint).filter((wrong) => wrong !== undefined)).toEqual([]);
  });

  it('has no circle of imports between folders', () => {
    const reaches = (from: string, to: string, seen = new Set<string>()): boolean => {
      if (seen.has(from)) return false;
      seen.add(from);
      const next = (folders[from]?.may ?? []).map((target) => folderOf(`${target}/`) ?? target);
      return next.includes(to) || next.some((folder) => reaches(folder, to, seen));
    };
    // Imports are checked against the table above, so the table itself must have no cycle.
    expect(Object.keys(folders).filter((folder) => reaches(folder, folder))).toEqual([]);
  });

  it('has only the usual files in its top folder', () => {
    const expected = new Set([
      'package.json',
      'package-lock.json',
      'tsconfig.json',
      'cdk.json',
      'infra',
      'functions',
      'src',
      'clients',
      'test',
      'docs',
      'README.md',
      'LICENSE',
      'CONTRIBUTING.md',
      'ARCHITECTURE.md',
      'CHANGELOG.md',
      'SECURITY.md',
    ]);
    const top = new Set(files.map((file) => file.split('/')[0] as string));
    expect([...top].filter((name) => !expected.has(name) && !name.startsWith('.'))).toEqual([]);
  });

  it('has no test that is skipped or that excludes others', () => {
    // Built from parts, so that this file does not find itself. `skipIf` and `runIf` state their reason, and are fine.
    const left = new RegExp(`\\.(?:${['only', 'skip', 'todo', 'fails'].join('|')})[(.]|\\bx(?:it|describe)\\(`);
    const tests = files.filter((file) => /^test\/.*\.test\.ts$/.test(file) && file !== 'test/unit/house.test.ts');
    expect(tests.filter((file) => left.test(textOf(file)))).toEqual([]);
  });

  it('has a reason for every dependency', () => {
    type Names = Record<string, string> | undefined;
    // The benchmark's peers are a separate package. Their reasons are on the same page.
    const named = new Set(
      ['package.json', 'test/bench/peers/package.json'].flatMap((manifest) => {
        const { dependencies, devDependencies, optionalDependencies, peerDependencies } = JSON.parse(
          textOf(manifest),
        ) as Record<string, Names>;
        return [dependencies, devDependencies, optionalDependencies, peerDependencies].flatMap((names) =>
          Object.keys(names ?? {}),
        );
      }),
    );
    const reasons = new Set(
      [...textOf('docs/dependencies.md').matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, names = '']) =>
        names.replaceAll('`', '').split(', '),
      ),
    );
    expect([...named].filter((name) => !reasons.has(name))).toEqual([]);
    expect([...reasons].filter((name) => !named.has(name as string) && name !== 'package')).toEqual([]);
  });

  it('has every package that its sources load among its dependencies', () => {
    const manifest = JSON.parse(textOf('package.json')) as Record<string, Record<string, string> | undefined>;
    const known = new Set(
      ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'].flatMap((kind) =>
        Object.keys(manifest[kind] ?? {}),
      ),
    );
    const loaded = imports.filter(({ from }) => !from.startsWith('.') && !from.startsWith('node:'));
    const missing = loaded.filter(({ from }) => {
      const name = packageOf(from);
      return !known.has(name) && !known.has(`@types/${name}`);
    });
    expect(missing).toEqual([]);
  });

  it('names no path of the machine on which it was written', () => {
    // If the clone is directly under the root, any mention of its name would look like its path.
    const own = root.split('/').length > 2 ? [root] : [];
    const places = [...own.map((path) => `${path}/`), ...own.map((path) => `${path}'`)];
    const homes = /(?:\/home|\/Users)\/[\w.-]+\//;
    const named = files.filter((file) => {
      const text = textOf(file);
      return places.some((place) => text.includes(place)) || homes.test(text);
    });
    expect(named).toEqual([]);
  });
});
