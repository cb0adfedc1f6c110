/** Runs what of docs/recipes.md can run here. All of its TypeScript is compiled with the other pages. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../src/client/index.ts';
import { holdfastProgram as program } from '../support/program.ts';
import { startService, type TestService } from '../support/service.ts';
import { blocksIn, root } from './blocks.ts';

const blocks = blocksIn('ts', 'yaml').filter(({ page }) => page === 'docs/recipes.md');
const recipe = (name: string): string => blocks.find(({ text }) => text.includes(name))?.text ?? '';

describe('docs/recipes.md', () => {
  let service: TestService;
  let folder: string;
  beforeAll(async () => {
    service = await startService();
    await mkdir(join(root, 'coverage'), { recursive: true });
    folder = await mkdtemp(join(root, 'coverage', 'recipes-'));
    process.env.HOLDFAST_URL = service.url;
  });
  afterAll(async () => {
    delete process.env.HOLDFAST_URL;
    await rm(folder, { recursive: true, force: true });
    await service.stop();
  });

  /** The recipe as a module, with the SDK of this repository. */
  const load = async (name: string) => {
    const file = join(folder, name);
    const sdk = pathToFileURL(join(root, 'src/client/index.ts')).href;
    await writeFile(file, recipe(name.replace('-', '/')).replaceAll("from 'holdfast'", `from '${sdk}'`));
    return import(pathToFileURL(file).href);
  };

  it('has recipes of less than 30 lines', () => {
    expect(blocks).toHaveLength(5);
    for (const { text } of blocks) expect(text.trimEnd().split('\n').length).toBeLessThan(30);
  });

  it('closes the client with a NestJS application', async () => {
    const { LocksModule } = await load('locks.module.ts');
    const { providers, exports } = LocksModule.register({ url: service.url, namespace: 'nest' });
    const locks = providers[0].useValue as Holdfast;
    expect(locks).toBeInstanceOf(exports[0]);
    await locks.acquire('a');
    await providers[1].useFactory().onApplicationShutdown();
    expect(await service.call('GET', '/v1/nest/locks/a')).toMatchObject({ body: { state: 'free' } });
  });

  it('does a webhook once in a route of Next.js', async () => {
    const { POST } = await load('webhook-route.ts');
    const call = (headers: Record<string, string> = {}): Promise<Response> =>
      POST(new Request('http://shop/api/webhook', { method: 'POST', body: '{"amount":5}', headers }));
    const first = await (await call({ 'webhook-id': '7' })).json();
    expect(first).toEqual({ charged: 5, fence: expect.any(Number) });
    expect(await (await call({ 'webhook-id': '7' })).json()).toEqual(first);
    expect((await call()).status).toBe(400);
  });

  it('runs the script of the workflow under the lock', async () => {
    const [, line = ''] = /- run: npx holdfast (.+)/.exec(recipe('workflows/deploy.yml')) ?? [];
    expect(line).toContain('--sigv4');
    const args = line.replace(' --sigv4', '').replace('./deploy.sh', 'printenv HOLDFAST_FENCE').split(' ');
    const env = {
      ...process.env,
      HOLDFAST_URL: service.url,
      HOLDFAST_NAMESPACE: 'deployments',
      HOLDFAST_OWNER: 'a run 7',
    };
    const { stdout } = await promisify(execFile)(process.execPath, [program, ...args], { env });
    expect(stdout).toMatch(/^\d{13}\n$/);
  });
});
