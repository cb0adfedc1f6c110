import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { packageRoot } from '../../infra/function-code.ts';
import { eventually } from './callers.ts';
import { type Emulator, lintProgram } from './emulator.ts';

const stackName = 'HoldfastEmulated';
/** The CDK's own command takes half a minute on a busy machine. */
const commandMsMax = 300_000;
/** Its warnings advise; its errors are what CloudFormation would refuse. */
const lintArgs = ['--non-zero-exit-code', 'error', '--format', 'parseable'];

const execute = promisify(execFile);

export interface Deployed {
  /** Of the HTTP API, without a slash at the end. */
  readonly url: string;
  readonly watchUrl: string;
  readonly tableName: string;
  readonly busName: string;
  readonly durableFunctionName: string;
}

/** The stack by the CDK's own command, as a user deploys it. */
export class Deployment {
  readonly #emulator: Emulator;
  readonly #folder = mkdtempSync(join(tmpdir(), 'holdfast-deployment-'));

  constructor(emulator: Emulator) {
    this.#emulator = emulator;
  }

  async bootstrap(): Promise<void> {
    await this.#cdk(['bootstrap', 'aws://000000000000/us-east-1'], this.#folder);
  }

  /** Creates the stack, or updates it in place. */
  async deploy(pollSeconds: number): Promise<Deployed> {
    const outputs = join(this.#folder, 'outputs.json');
    const context = [`emulator=${this.#emulator.url}`, `pollSeconds=${pollSeconds}`, `scratch=${this.#folder}`];
    const given = context.flatMap((one) => ['-c', one]);
    await this.#cdk(['deploy', '--require-approval', 'never', '--outputs-file', outputs, ...this.#app, ...given]);
    const found =
      (JSON.parse(readFileSync(outputs, 'utf8')) as Record<string, Record<string, string>>)[stackName] ?? {};
    return {
      url: `${this.#emulator.url}/_aws/execute-api/${apiIdOf(found.Url)}/$default`,
      watchUrl: `${this.#emulator.url.replace(/^http/, 'ws')}/_aws/execute-api/${apiIdOf(found.WatchUrl)}/v1`,
      tableName: found.TableName ?? '',
      busName: found.EventBusName ?? '',
      durableFunctionName: found.DurableFunctionName ?? '',
    };
  }

  async destroy(): Promise<void> {
    await this.#cdk(['destroy', '--force', '--app', this.#assembly]).catch(() => this.#deleteByName());
  }

  /** The CDK deletes a stack by its ARN, which this release of the emulator does not find: it deletes nothing and says that it did. */
  async #deleteByName(): Promise<void> {
    await this.#cloudFormation('DeleteStack');
    await eventually('the end of the stack', async () => {
      const text = await this.#cloudFormation('DescribeStacks');
      return text.includes('does not exist') || text.includes('DELETE_COMPLETE') ? true : undefined;
    });
  }

  async #cloudFormation(action: string): Promise<string> {
    const scope = 'test/20261116/us-east-1/cloudformation/aws4_request';
    const response = await fetch(this.#emulator.url, {
      method: 'POST',
      // The emulator finds the service by the scope of the signature, and does not check it.
      headers: {
        authorization: `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=none`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({ Action: action, StackName: stackName, Version: '2010-05-15' }),
    });
    return response.text();
  }

  /** By AWS's own linter. Undefined if it is not installed, else what it found. */
  async lint(): Promise<string | undefined> {
    const program = lintProgram();
    if (program === undefined) return undefined;
    const template = join(this.#assembly, `${stackName}.template.json`);
    return execute(program, [...lintArgs, template]).then(
      () => '',
      ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout || stderr,
    );
  }

  end(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #assembly(): string {
    return join(this.#folder, 'assembly');
  }

  get #app(): string[] {
    return ['--app', `${process.execPath} test/emulated/app.ts`, '--output', this.#assembly];
  }

  async #cdk(args: readonly string[], cwd = packageRoot): Promise<void> {
    const program = join(packageRoot, 'node_modules', '.bin', 'cdk');
    const options = {
      cwd,
      env: { ...this.#emulator.env, CDK_DISABLE_CLI_TELEMETRY: '1' },
      timeout: commandMsMax,
      maxBuffer: 64 * 2 ** 20,
    };
    await execute(program, [...args, '--ci', '--no-notices'], options).catch(
      (error: { stdout: string; stderr: string }) => {
        throw new Error(`cdk ${args[0]} failed:\n${error.stdout}\n${error.stderr}`);
      },
    );
  }
}

/** The emulator names its own host, or AWS's. */
const apiIdOf = (url = ''): string => /\/\/(\w+)\./.exec(url)?.[1] ?? '';
