import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Block, blocksIn, root } from './blocks.ts';

const run = promisify(execFile);

/** Beside node_modules, so that packages are found. Git ignores this folder. */
const folder = join(root, 'coverage', 'docs-blocks');

const sources: Record<string, string> = {
  holdfast: 'src/client/index.ts',
  'holdfast/server': 'src/server/index.ts',
  'holdfast/cdk': 'infra/lock-service.ts',
  'holdfast/testing': 'src/testing/index.ts',
  'holdfast/guards': 'src/guards/index.ts',
  'holdfast/middleware': 'src/middleware/index.ts',
  'holdfast/durable': 'src/durable/index.ts',
  'holdfast/opentelemetry': 'src/opentelemetry/index.ts',
};

const fileOf = ({ page, line }: Block): string => `${page.replaceAll('/', '_')}_${line}.ts`;

/** The errors of the compiler, each with its page and line. */
async function compile(blocks: readonly Block[]): Promise<string[]> {
  const tsconfig = {
    extends: '../../tsconfig.json',
    compilerOptions: {
      lib: ['ES2024', 'ESNext.Disposable', 'DOM', 'DOM.AsyncIterable'],
      noUnusedLocals: false,
      noUnusedParameters: false,
      paths: Object.fromEntries(Object.entries(sources).map(([name, file]) => [name, [join(root, file)]])),
    },
    include: [],
    files: [...blocks.map(fileOf), join(root, 'test/docs/reader.d.ts')],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
  for (const block of blocks) {
    // A block that imports nothing is a module too. The empty lines make the compiler's line numbers those of the page.
    const text = `${'\n'.repeat(block.line - 1)}${block.text}\nexport {};\n`;
    await writeFile(join(folder, fileOf(block)), text);
  }
  const tsc = join(root, 'node_modules/.bin/tsc');
  // Several checkers each compute the types that they share, and other tests need the other cores.
  const options = ['--project', folder, '--pretty', 'false', '--singleThreaded'];
  const { stdout } = await run(tsc, options, { cwd: root }).catch((error: { stdout: string }) => error);
  return stdout.split('\n').filter((line) => /error TS/.test(line));
}

const options = readFileSync(join(root, 'docs/options.md'), 'utf8');

/** True if both have the same members. Otherwise a type that names what is missing on either side. */
const same = `type Same<Type, Page> = [Exclude<Type, Page>, Exclude<Page, Type>] extends [never, never]
  ? true
  : ['not in the page', Exclude<Type, Page>, 'not in the type', Exclude<Page, Type>];`;

/** For each type of docs/options.md, a statement that compiles only if its fields are those of the table. */
function optionChecks(): Block {
  const sections = options.split(/^### /m).slice(1);
  const statements = sections.map((section, index) => {
    const [, type, entry, base] = /^`(.+?)` of `(.+?)`(?:, adds to `(.+?)`)?$/m.exec(section) ?? [];
    const page = [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => `'${name}'`).join(' | ');
    const baseEntry = base === 'ClientOptions' ? 'holdfast' : entry;
    const inherited = base === undefined ? 'never' : `keyof import('${baseEntry}').${base}`;
    return `export const type${index}: Same<Exclude<keyof import('${entry}').${type}, ${inherited}>, ${page}> = true;`;
  });
  return { page: 'docs/options.md', line: 1, language: 'ts', text: [same, ...statements].join('\n') };
}

/** Types that another section already explains, or that only tests use. */
const explainedElsewhere = ['TransportOptions', 'NamedTryOptions', 'NamedAcquireOptions', 'RefusalOptions'];

describe('docs/options.md', () => {
  it('has a section for every type of options that the package exports', () => {
    const entries = ['client', 'server', 'middleware', 'durable', 'opentelemetry'].map(
      (room) => `src/${room}/index.ts`,
    );
    const exported = entries.flatMap((file) => [
      ...readFileSync(join(root, file), 'utf8').matchAll(/\b[A-Z]\w+Options\b/g),
    ]);
    const names = new Set(exported.map(([name]) => name).filter((name) => !explainedElsewhere.includes(name)));
    expect(names.size).toBeGreaterThan(15);
    expect([...names].filter((name) => !options.includes(`### \`${name}`))).toEqual([]);
  });
});

describe('the TypeScript of README and docs', () => {
  beforeAll(() => mkdir(folder, { recursive: true }));
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('compiles under strict, and docs/options.md names the fields that the types have', async () => {
    const blocks = blocksIn('ts');
    expect(blocks.length).toBeGreaterThan(15);
    expect(await compile([...blocks, optionChecks()])).toEqual([]);
  });
});
