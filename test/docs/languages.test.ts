import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hasPackage, hasPython, pythonEnv } from '../clients/python.ts';
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
/** If true, requests get no answer, and their connections stay open. */
let isSilent = false;

/** A proxy before the service. It sees all requests, and can drop answers. */
const startGateway = (): Server =>
  patientServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts).toString();
    seen.push({ path: request.url ?? '', headers: request.headers, body });
    if (isSilent) return;
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch, 'fence-token': fence } = request.headers;
    const answer = await fetch(`${service.url}${request.url}`, {
      method: request.method ?? 'GET',
      ...(body === '' ? {} : { body }),
      headers: {
        ...(body === '' ? {} : { 'content-type': 'application/json' }),
        ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
        ...(ifNoneMatch === undefined ? {} : { 'if-none-match': ifNoneMatch }),
        ...(fence === undefined ? {} : { 'fence-token': String(fence) }),
      },
    });
    if (answersToLose > 0) {
      answersToLose -= 1;
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(await answer.text());
  }).listen(0, '127.0.0.1');

/** The programs: the first line of each is a comment with the name of its file. */
const named = (...languages: string[]): { name: string; text: string }[] =>
  blocksIn(...languages).flatMap(({ text }) => {
    const [, name] = /^(?:#|\/\/) (\S+\.(?:py|go))\n/.exec(text) ?? [];
    return name === undefined ? [] : [{ name, text }];
  });

/** The same Go program with a short lease, and with work that lasts until the lock is lost. */
function workingOf(text: string): string {
  const replaced = text
    .replace('"wallet:42", 30*time.Second', '"silent:1", 3*time.Second')
    .replace('return nil\n\t\t})', '<-ctx.Done()\n\t\t\tfmt.Println("stopped")\n\t\t\treturn nil\n\t\t})');
  expect(replaced).toContain('"silent:1"');
  expect(replaced).toContain('ctx.Done()\n\t\t\tfmt');
  return replaced;
}

beforeAll(async () => {
  service = await startService();
  gateway = startGateway();
  await once(gateway, 'listening');
  url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  folder = await mkdtemp(join(tmpdir(), 'holdfast-languages-'));
  // The first line of a program is a comment with the name of its file.
  for (const { name, text } of named('python', 'go')) await writeFile(join(folder, name), text);
  // Without C, HTTP/2, optimization and debug information there is much less to compile.
  if (hasGo) {
    const env = { ...process.env, CGO_ENABLED: '0' };
    const smaller = ['-tags=nethttpomithttp2', '-ldflags=-s -w', '-gcflags=all=-N -l -dwarf=false'];
    await run('go', ['build', ...smaller, 'main.go'], { cwd: folder, env });
    const text = await readFile(join(folder, 'main.go'), 'utf8');
    await writeFile(join(folder, 'working.go'), workingOf(text));
    await run('go', ['build', ...smaller, 'working.go'], { cwd: folder, env });
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
  isSilent = false;
});

const programs = [
  { language: 'Python', page: 'python.md', found: hasPython, command: ['python3', 'hold.py'] },
  { language: 'Go', page: 'http.md', found: hasGo, command: ['./main'] },
] as const;

async function runProgram(command: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const [program = '', ...args] = command;
  const { stdout } = await run(program, args, {
    cwd: folder,
    env: { ...process.env, ...pythonEnv, HOLDFAST_URL: url, ...env },
  });
  return stdout;
}

const actions = () => seen.map(({ path }) => path.split('/').at(-1));

describe.each(programs)('the $language program of docs/$page', ({ language, page, found, command }) => {
  if (!found && (wide || language !== 'Go'))
    console.warn(`${language} is not installed, so its program in docs/${page} is not run.`);

  it.skipIf(!found)('acquires, prints its fence and releases', async () => {
    const printed = await runProgram(command, { HOLDFAST_TOKEN: 'a-token' });
    expect(printed).toMatch(/^holding wallet:42 with fence \d{13}\n$/);
    expect(actions()).toEqual(['acquire', 'release']);
    // The client for Python takes its token from the program.
    if (language === 'Go') for (const { headers } of seen) expect(headers.authorization).toBe('Bearer a-token');
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

describe('the Go program of docs/http.md', () => {
  it.skipIf(!hasGo)('stops its work before its lease can end if the service falls silent', async () => {
    const printed = runProgram(['./working']).catch((error: unknown) => String(error));
    await expect.poll(actions, { timeout: 120_000 }).toContain('acquire');
    isSilent = true;
    const began = performance.now();
    // The lease is 3 s, and the release at the end may take 5 s. The long poll's timeout would be 35 s.
    expect(await printed).toContain('stopped');
    expect(performance.now() - began).toBeLessThan(25_000);
  });
});

const hasBotocore = hasPackage('botocore');
if (hasPython && !hasBotocore) console.warn('botocore is not installed, so signed.py of docs/python.md is not run.');

describe('the programs of docs/python.md', () => {
  it.skipIf(!hasPython)('run as they are', async () => {
    expect(await runProgram(['python3', 'batch.py'])).toMatch(/^(item \d with fence \d{13}\n){3}$/);
    expect(await runProgram(['python3', 'holding.py'])).toMatch(/^holding wallet:42 with fence \d{13}\n$/);
    expect(await runProgram(['python3', 'jobs.py'])).toBe("{'paid': 5} {'paid': 5} False\n");
  });

  it.skipIf(!hasPython)('have handlers that run under their lock, and once', async () => {
    await writeFile(
      join(folder, 'calls.py'),
      `import handler
class Context:
    def get_remaining_time_in_millis(self): return 60_000
print(handler.handler({"wallet": 42}, Context())["body"])
for _ in range(2): print(handler.webhook({"headers": {"webhook-id": "7"}}, Context())["body"])
`,
    );
    expect(await runProgram(['python3', 'calls.py'])).toMatch(/^fence \d{13}\ncharged\ncharged\n$/);
  });

  it.skipIf(!hasBotocore)('sign each request for API Gateway', async () => {
    const keys = { AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'eu-west-1' };
    expect(await runProgram(['python3', 'signed.py'], keys)).toBe('free\n');
    for (const { headers } of seen) {
      expect(headers.authorization).toMatch(
        /^AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE\/\d{8}\/eu-west-1\/execute-api\/aws4_request, SignedHeaders=/,
      );
    }
  });
});
