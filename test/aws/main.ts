/**
 * `npm run deploy:check -- --yes`: deploys a throw-away stack to the AWS account of the environment, runs the smoke checks
 * and `holdfast measure`, and destroys the stack, whatever happened in between.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { packageRoot } from '../../infra/function-code.ts';
import { sigv4 } from '../../src/client/index.ts';
import { sdkChecks } from './smoke.ts';

const execute = promisify(execFile);
const region = process.env.AWS_REGION || process.env.AWS_DEFAULT_REGION || undefined;
const isAgreed = process.argv.includes('--yes');

if (region === undefined || !isAgreed) {
  console.error(
    `${region === undefined ? 'AWS_REGION is not set. ' : ''}This creates resources in the AWS account of your ` +
      'environment and deletes them again; it should cost about a cent. Run: npm run deploy:check -- --yes',
  );
  process.exit(64);
}

const stack = `HoldfastCheck${randomBytes(4).toString('hex')}`;
const folder = mkdtempSync(join(tmpdir(), 'holdfast-check-'));
const app = ['--app', `${process.execPath} test/aws/app.ts`, '-c', `stack=${stack}`, '--ci', '--no-notices'];
const inRepository = { cwd: packageRoot, maxBuffer: 64 * 2 ** 20 };
const cdk = (...args: string[]) => execute(join(packageRoot, 'node_modules/.bin/cdk'), [...args, ...app], inRepository);
const step = (name: string) => console.log(`${new Date().toISOString().slice(11, 19)}  ${name}`);

try {
  step(`cdk deploy ${stack}`);
  const outputs = join(folder, 'outputs.json');
  await cdk('deploy', '--require-approval', 'never', '--outputs-file', outputs);
  const { Url: url = '' } =
    (JSON.parse(readFileSync(outputs, 'utf8')) as Record<string, Record<string, string>>)[stack] ?? {};
  for (const [name, check] of Object.entries(sdkChecks)) {
    step(name);
    await check({ url, namespace: 'check', auth: sigv4({ region }), deadlineMs: 30_000 });
  }
  step('holdfast measure');
  const cli = [
    join(packageRoot, 'src/cli/main.ts'),
    'measure',
    '--url',
    url,
    '--sigv4',
    '--region',
    region,
    '-n',
    'check',
  ];
  console.log((await execute(process.execPath, cli, inRepository)).stdout);
} catch (error) {
  const { message, stdout = '', stderr = '' } = error as Error & { stdout?: string; stderr?: string };
  console.error(`${message}\n${stdout}\n${stderr}`);
  process.exitCode = 1;
} finally {
  step(`cdk destroy ${stack}`);
  await cdk('destroy', '--force').catch((error: { stderr?: string }) => {
    console.error(`The stack ${stack} could not be destroyed. Delete it by hand.\n${error.stderr ?? ''}`);
    process.exitCode = 1;
  });
  rmSync(folder, { recursive: true, force: true });
}
