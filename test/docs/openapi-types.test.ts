import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openApiDocument } from '../../src/http/openapi.ts';
import { startService } from '../support/service.ts';
import { root } from './blocks.ts';

const run = promisify(execFile);
const folder = join(root, 'coverage', 'openapi-types');

/**
 * A client that a user could write with generated types. It compiles only if the document describes requests, answers
 * and errors. Run with a URL, it takes a lock, renews it, is refused, writes a record with the fence, and releases.
 */
const client = `
import type { components, paths } from './holdfast';

type Path = keyof paths;
type Body<P extends Path, M extends keyof paths[P]> = paths[P][M] extends {
  requestBody: { content: { 'application/json': infer B } };
} ? B : never;
type Answer<P extends Path, M extends keyof paths[P], S extends number> = paths[P][M] extends {
  responses: { [Status in S]: { content: { 'application/json': infer B } } };
} ? B : never;
type Problem = components['schemas']['Problem'];

const acquirePath = '/v1/{ns}/locks/{name}/acquire' as const;
const renewPath = '/v1/{ns}/locks/{name}/renew' as const;
const releasePath = '/v1/{ns}/locks/{name}/release' as const;
const recordPath = '/v1/{ns}/records/{key}' as const;

const [, , url = '', name = ''] = (globalThis as unknown as { process: { argv: string[] } }).process.argv;

async function send(method: string, path: string, body: object, headers: Record<string, string> = {}) {
  const target = path.replace('{ns}', 'generated').replace(/{name}|{key}/, name);
  const response = await fetch(url + target, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as unknown };
}

const asked: Body<typeof acquirePath, 'post'> = { waitMs: 0, lockDelayMs: 0, tier: 'correctness', leaseMs: 30_000 };
const taken = (await send('POST', acquirePath, asked)).body as Answer<typeof acquirePath, 'post', 200>;
const lease: Body<typeof releasePath, 'post'> = { leaseId: taken.leaseId };
const renewed = (await send('POST', renewPath, lease)).body as Answer<typeof renewPath, 'post', 200>;
const refused = await send('POST', acquirePath, asked);
const problem = refused.body as Problem;
const value: Body<typeof recordPath, 'put'> = { value: { balance: 5 } };
const written = await send('PUT', recordPath, value, { 'if-none-match': '*', 'fence-token': String(taken.fence) });
const record = written.body as Answer<typeof recordPath, 'put', 201>;
const released = (await send('POST', releasePath, lease)).body as Answer<typeof releasePath, 'post', 200>;
const code: 'lock-held' | string = problem.code;
console.log(JSON.stringify({ sameFence: renewed.fence === taken.fence, status: refused.status, code, floor: record.fence === taken.fence, released: released.released }));

// @ts-expect-error A wrong mode is refused by the compiler.
export const wrong: Body<typeof acquirePath, 'post'> = { mode: 'both' };
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

  it('makes a client that takes, renews and releases a lock and writes a record', async () => {
    const service = await startService();
    try {
      const { stdout } = await run(process.execPath, ['client.ts', service.url, randomUUID()], { cwd: folder });
      expect(JSON.parse(stdout)).toEqual({
        sameFence: true,
        status: 409,
        code: 'lock-held',
        floor: true,
        released: true,
      });
    } finally {
      await service.stop();
    }
  });
});
