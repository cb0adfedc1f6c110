import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService, type TestService } from '../support/service.ts';
import { type Block, blocksIn, root } from './blocks.ts';

/**
 * Blocks that need an account, a registry or another clone, blocks that never end, and blocks with a gap for the reader
 * to fill.
 */
const notRunnable = /\b(npm|npx|aws|cdk|pip)\b|sigv4|…|holdfast (watch|serve|console|doctor|mcp)\b/;

const blocks = blocksIn('sh').filter(({ text }) => !notRunnable.test(text.replaceAll(/#.*$/gm, '')));

/** Programs that the examples run under a lock. */
const readersPrograms = ['report.sh', 'read.sh', 'settle.sh', 'migrate.sh', 'scheduler', 'bin/make', 'bin/python'];

let service: TestService;
let folder: string;
beforeAll(async () => {
  service = await startService();
  folder = await mkdtemp(join(tmpdir(), 'holdfast-docs-'));
  const program = (name: string, text: string) => {
    const path = join(folder, name);
    return mkdir(dirname(path), { recursive: true })
      .then(() => writeFile(path, `#!/bin/sh\n${text}\n`))
      .then(() => chmod(path, 0o755));
  };
  for (const name of readersPrograms) await program(name, 'exit 0');
  await program('bin/holdfast', `exec '${process.execPath}' '${join(root, 'src/cli/main.ts')}' "$@"`);
  await writeFile(join(folder, 'config.json'), '{"retries":5}');
  // The blocks say `curl -s`. If a request gets no answer, curl still says why.
  await writeFile(join(folder, '.curlrc'), 'show-error\n');
  for (const home of ['.local/share/bash-completion/completions', '.zfunc', '.config/fish/completions']) {
    await mkdir(join(folder, home), { recursive: true });
  }
});
afterAll(async () => {
  await service.stop();
  await rm(folder, { recursive: true, force: true });
});

interface Ran {
  readonly output: string;
  /** What it wrote to its error output, with the exit code of each command that failed. */
  readonly errors: string;
  /** The exit codes of all commands that failed. */
  readonly codes: readonly number[];
}

/** Runs a block as a reader would paste it, against the local service. */
async function runBlock({ text }: Block, namespace: string): Promise<Ran> {
  const script = `set -E\ntrap 'echo "exit code $?" >&2' ERR\n${text.replaceAll('http://127.0.0.1:4100', service.url)}`;
  const shell = spawn('bash', ['-c', script], {
    cwd: folder,
    // Its own process group, so that processes in the background end with the block.
    detached: true,
    env: {
      PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
      HOME: folder,
      // What Node compiled before.
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      HOLDFAST_URL: service.url,
      HOLDFAST_NAMESPACE: namespace,
      // The variables that `holdfast run` gives to a command.
      HOLDFAST_FENCE: '1794837595413',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  shell.stdout.setEncoding('utf8').on('data', (part: string) => {
    output += part;
  });
  shell.stderr.setEncoding('utf8').on('data', (part: string) => {
    errors += part;
  });
  // At its exit, what it wrote last may not have been read yet. A process that it left in the background holds the
  // output open until it is ended.
  const closed = once(shell, 'close');
  await once(shell, 'exit');
  if (shell.pid !== undefined) endGroup(shell.pid);
  await closed;
  return { output, errors, codes: [...errors.matchAll(/^exit code (\d+)$/gm)].map(([, code]) => Number(code)) };
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGTERM');
  } catch {
    // Nothing was left in the background.
  }
}

const titleOf = ({ page, line }: Block): string => `${page}:${line}`;
const namespaceOf = (block: Block): string =>
  titleOf(block)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-');

describe.skipIf(spawnSync('curl', ['--version']).error !== undefined)('the shell blocks of README and docs', () => {
  it('are found', () => {
    expect(blocks.map(({ page }) => page)).toEqual(
      expect.arrayContaining(['README.md', 'docs/cli.md', 'docs/http.md', 'docs/records.md']),
    );
  });

  it.concurrent.each(blocks.map((block) => [titleOf(block), block] as const))('%s can be pasted', async (_, block) => {
    const statuses = [...block.text.matchAll(/# ([1-5]\d\d)\b/g)].map(([, status]) => Number(status));
    const answers = [...block.text.matchAll(/^# (\{.*?)(?:, ?…\}|,…\}|…\}|\})?$/gm)].map(
      ([, start]) => start as string,
    );
    // A reader may paste the HTTP examples again and again, so they run twice. Each command of the CLI takes a second,
    // so those run once.
    for (const round of block.text.includes('curl') ? ['first', 'second'] : ['only']) {
      const { output, errors, codes } = await runBlock(block, namespaceOf(block));
      const said = `${round} run:\n${output}\n${errors}`;
      // Wrong usage, no service, an internal error, no permission, or no such program. Other codes are answers.
      expect(
        codes.filter((code) => [64, 69, 70, 77, 126, 127].includes(code)),
        said,
      ).toEqual([]);
      const found = [...output.matchAll(/HTTP\/1\.1 (\d\d\d)/g)].map(([, status]) => Number(status));
      if (statuses.length > 0) expect(found, said).toEqual(statuses);
      for (const start of answers) expect(output, said).toContain(start.split(/,"leaseId"|, …/)[0]);
    }
  });
});
