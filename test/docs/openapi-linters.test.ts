import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { openApiDocument } from '../../src/http/openapi.ts';
import { wide } from '../support/wide.ts';
import { root } from './blocks.ts';

const run = promisify(execFile);
const folder = join(root, 'node_modules', '.cache', 'holdfast', 'openapi-linters');
const packages = ['@redocly/cli@2.77.0', '@stoplight/spectral-cli@6.16.0'];

/** They are kept between runs. They are no dependencies of ours, because they bring hundreds of packages. */
async function install(): Promise<boolean> {
  if (existsSync(join(folder, 'node_modules', '.bin', 'spectral'))) return true;
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'openapi-linters', private: true }));
  const npm = ['install', ...packages, '--no-audit', '--no-fund', '--loglevel=error', '--prefer-offline'];
  return run('npm', npm, { cwd: folder }).then(
    () => true,
    (error: Error) => {
      console.warn(`SKIPPED: the linters of OpenAPI could not be installed: ${error.message}`);
      return false;
    },
  );
}

const isInstalled = wide && (await install());

describe.skipIf(!isInstalled)('the OpenAPI document', () => {
  const lint = (...args: string[]) =>
    run(process.execPath, args, { cwd: folder }).then(
      () => '',
      ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
    );

  it('has no errors for Redocly and Spectral', async () => {
    await writeFile(join(folder, 'openapi.json'), JSON.stringify(openApiDocument('0.0.0'), null, 1));
    await writeFile(join(folder, '.spectral.yaml'), 'extends: ["spectral:oas"]\n');
    expect(await lint('node_modules/@redocly/cli/bin/cli.js', 'lint', 'openapi.json')).toBe('');
    const spectral = 'node_modules/@stoplight/spectral-cli/dist/index.js';
    expect(await lint(spectral, 'lint', 'openapi.json', '--fail-severity', 'error')).toBe('');
  });
});
