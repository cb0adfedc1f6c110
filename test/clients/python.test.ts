import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contractText } from '../../clients/python/generate.ts';
import { startService, type TestService } from '../support/service.ts';
import { hasPackage, hasPython, pythonEnv, pythonFolder, warnSkipped } from './python.ts';

if (!hasPython) warnSkipped('the Python client is not tested in this run.', 'apt-get install python3 (3.10 or newer)');
const hasTypes = hasPackage('mypy');
const hasLint = hasPackage('ruff');
if (hasPython && !(hasTypes && hasLint))
  warnSkipped('the Python client is not checked for types and style in this run.', 'pip install mypy ruff');
if (hasPython && !hasPackage('websockets'))
  warnSkipped('the Python client does not wait by push in this run.', 'pip install websockets');

const python = async (args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> => {
  const options = { cwd: pythonFolder, env: { ...process.env, ...pythonEnv, ...env } };
  const run = promisify(execFile)('python3', args, options);
  const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => {
    throw new Error(`${error.stdout}\n${error.stderr}`);
  });
  return `${stdout}${stderr}`;
};

const suite = (...modules: string[]) => ['-m', 'unittest', ...modules.map((name) => `tests.${name}`)];

describe('the Python client', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());

  it('has the contract of the OpenAPI document', async () => {
    const written = await readFile(join(pythonFolder, 'src/holdfast/contract.py'), 'utf8');
    expect(written, 'run: npm run clients:python').toBe(contractText);
  });

  it.skipIf(!hasPython)('keeps every rule in virtual time', async () => {
    expect(await python(suite('test_rules'))).toContain('OK');
  });

  it.skipIf(!hasPython)('stands what a socket can do to it', async () => {
    expect(await python(suite('test_drivers'))).toContain('OK');
  });

  it.skipIf(!hasPython)('works against the service, with threads and with asyncio', async () => {
    expect(await python(suite('test_service'), { HOLDFAST_TEST_URL: service.url })).toContain('OK');
  });

  it.skipIf(!hasTypes)('passes mypy --strict', async () => {
    await python(['-m', 'mypy', '--no-incremental', 'src', 'tests']);
  });

  it.skipIf(!hasLint)('passes ruff', async () => {
    await python(['-m', 'ruff', 'check', '--no-cache', '.']);
    await python(['-m', 'ruff', 'format', '--no-cache', '--check', '.']);
  });
});
