import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { patientServer } from '../support/patient-server.ts';
import { startService, type TestService } from '../support/service.ts';
import { wide } from '../support/wide.ts';
import { blocksIn } from './blocks.ts';

const run = promisify(execFile);
const runs = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;
/** A first build compiles Go's own HTTP package too, which takes a minute. */
const hasGo = wide && runs('go', 'version');

interface Seen {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

let service: TestService;
let gateway: Server;
let folder: string;
let url: string;
const seen: Seen[] = [];
/** How many of the next requests reach the service, but lose their answers. */
let answersToLose = 0;

/** A proxy before the service. It sees all requests, and can drop answers. */
const startGateway = (): Server =>
  patientServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts).toString();
    seen.push({ path: request.url ?? '', headers: request.headers, body });
    const answer = await fetch(`${service.url}${request.url}`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    if (answersToLose > 0) {
      answersToLose -= 1;
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(await answer.text());
  }).listen(0, '127.0.0.1');

beforeAll(async () => {
  service = await startService();
  gateway = startGateway();
  await once(gateway, 'listening');
  url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  folder = await mkdtemp(join(tmpdir(), 'holdfast-languages-'));
  // The first line of a program is a comment with the name of its file.
  for (const { text } of blocksIn('python', 'go')) {
    const [, name = ''] = /^(?:#|\/\/) (\S+)\n/.exec(text) ?? [];
    await writeFile(join(folder, name), text);
  }
  // Without C, HTTP/2, optimization and debug information there is much less to compile.
  if (hasGo) {
    const env = { ...process.env, CGO_ENABLED: '0' };
    const smaller = ['-tags=nethttpomithttp2', '-ldflags=-s -w', '-gcflags=all=-N -l -dwarf=false'];
    await run('go', ['build', ...smaller, 'main.go'], { cwd: folder, env });
  }
});
afterAll(async () => {
  gateway.closeAllConnections();
  gateway.close();
  await service.stop();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(() => {
  seen.length = 0;
  answersToLose = 0;
});

const programs = [
  { language: 'Python', found: runs('python3', '--version'), command: ['python3', 'holdfast.py'] },
  { language: 'Go', found: hasGo, command: ['./main'] },
] as const;

async function runProgram(command: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const [program = '', ...args] = command;
  const { stdout } = await run(program, args, { cwd: folder, env: { ...process.env, HOLDFAST_URL: url, ...env } });
  return stdout;
}

const actions = () => seen.map(({ path }) => path.split('/').at(-1));

describe.each(programs)('the $language program of docs/http.md', ({ language, found, command }) => {
  if (!found && (wide || language !== 'Go'))
    console.warn(`${language} is not installed, so its program in docs/http.md is not run.`);

  it.skipIf(!found)('acquires, prints its fence and releases, with a token', async () => {
    const printed = await runProgram(command, { HOLDFAST_TOKEN: 'a-token' });
    expect(printed).toMatch(/^holding wallet:42 with fence \d{13}\n$/);
    expect(actions()).toEqual(['acquire', 'release']);
    for (const { headers } of seen) expect(headers.authorization).toBe('Bearer a-token');
    expect(await service.call('GET', '/v1/payments/locks/wallet:42')).toMatchObject({ body: { state: 'free' } });
  });

  it.skipIf(!found)('repeats a request whose answer was lost, with the same lease id, and waits its turn', async () => {
    const other = { leaseId: 'the-other-holders-lease', leaseMs: 2_000 };
    await service.call('POST', '/v1/payments/locks/wallet:42/acquire', other);
    answersToLose = 1;
    const printed = runProgram(command);
    await expect.poll(() => actions().length, { timeout: 120_000 }).toBeGreaterThan(0);
    await service.call('POST', '/v1/payments/locks/wallet:42/release', { leaseId: other.leaseId });
    expect(await printed).toMatch(/with fence \d{13}/);
    const acquires = seen.filter(({ path }) => path.endsWith('/acquire')).map(({ body }) => JSON.parse(body).leaseId);
    expect(acquires.length).toBeGreaterThan(1);
    expect(new Set(acquires).size).toBe(1);
    expect(await service.call('GET', '/v1/payments/locks/wallet:42')).toMatchObject({ body: { state: 'free' } });
  });
});

const hasBotocore = runs('python3', '-c', 'import botocore');
if (!hasBotocore) console.warn('botocore is not installed, so the signed program of docs/http.md is not run.');

describe('the signed Python program of docs/http.md', () => {
  it.skipIf(!hasBotocore)('signs each request for API Gateway', async () => {
    const keys = { AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'eu-west-1' };
    await runProgram(['python3', 'signed.py'], { ...keys, AWS_DEFAULT_REGION: 'eu-west-1' });
    expect(actions()).toEqual(['acquire', 'release']);
    for (const { headers } of seen) {
      expect(headers.authorization).toMatch(
        /^AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE\/\d{8}\/eu-west-1\/execute-api\/aws4_request, SignedHeaders=/,
      );
    }
  });
});
