import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openApiDocument } from '../../src/http/openapi.ts';
import { root } from './blocks.ts';

const run = promisify(execFile);
const folder = join(root, 'coverage', 'openapi-types');

/**
 * A client that a user could write with generated types. It compiles only if the document describes requests, answers
 * and errors.
 */
const client = `
import type { paths } from './holdfast';

type Acquire = paths['/v1/{ns}/locks/{name}/acquire']['post'];
type Request = NonNullable<Acquire['requestBody']>['content']['application/json'];
type Granted = Acquire['responses'][200]['content']['application/json'];
type Waiting = Acquire['responses'][202]['content']['application/json'];
type Refused = Acquire['responses'][409]['content']['application/problem+json'];

type Outcome = { fence: number } | { position: number } | { code: string; detail: string };

export async function acquire(url: string, body: Request): Promise<Outcome> {
  const response = await fetch(\`\${url}/v1/payments/locks/wallet:42/acquire\`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (response.status === 200) return { fence: ((await response.json()) as Granted).fence };
  if (response.status === 202) return { position: ((await response.json()) as Waiting).position };
  const { code, detail } = (await response.json()) as Refused;
  return { code, detail: detail ?? '' };
}

await acquire('http://127.0.0.1:4100', { leaseMs: 30_000, waitMs: 10_000, mode: 'shared' });
// @ts-expect-error A wrong mode is refused by the compiler.
await acquire('http://127.0.0.1:4100', { mode: 'both' });
`;

interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>;
}

const document = openApiDocument('0.0.0') as unknown as { paths: Record<string, Record<string, Operation>> };
const described = Object.values(document.paths).flatMap((path) => Object.values(path));

describe('the OpenAPI document', () => {
  beforeAll(() => mkdir(folder, { recursive: true }));
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('gives each operation its error statuses, with a problem as their body', () => {
    expect(described.length).toBeGreaterThan(15);
    for (const { operationId, responses } of described) {
      const errors = Object.entries(responses).filter(([status]) => /^[45]/.test(status));
      expect(errors.length, operationId).toBeGreaterThan(1);
      for (const [status, { content }] of errors) {
        expect(Object.keys(content ?? {}), `${operationId} ${status}`).toEqual(['application/problem+json']);
      }
    }
  });

  it('makes types by openapi-typescript with which a client compiles', async () => {
    await writeFile(join(folder, 'openapi.json'), JSON.stringify(document));
    const generate = ['--import', join(root, 'test/docs/typescript-5.ts')];
    const cli = join(root, 'node_modules/openapi-typescript/bin/cli.js');
    await run(process.execPath, [...generate, cli, 'openapi.json', '-o', 'holdfast.d.ts'], { cwd: folder });
    await writeFile(join(folder, 'client.ts'), client);
    const strict = ['--noEmit', '--strict', '--target', 'es2024', '--module', 'esnext', '--lib', 'es2024,dom'];
    const { stdout } = await run(
      join(root, 'node_modules/.bin/tsc'),
      [
        '--ignoreConfig',
        ...strict,
        '--moduleResolution',
        'bundler',
        '--pretty',
        'false',
        '--singleThreaded',
        'client.ts',
      ],
      { cwd: folder },
    ).catch((error: { stdout: string }) => error);
    expect(stdout).toBe('');
  });
});
