import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { holdfastProgram, Program, startServing } from '../support/program.ts';
import { foreignHost } from './browser.ts';
import { live, newNamespace, row, scenes, violations } from './stage.ts';

scenes('access to the console', (stage) => {
  it('teaches how to make the first lock, shows it when it is made, and takes the token out of the address', async () => {
    const page = await stage.open('');
    expect(page.url()).not.toContain('token');
    await page.getByText('No lock was used in demo yet.').waitFor();
    const line = (await page.locator('.copyable pre').textContent()) ?? '';
    const [, body = '', url = ''] = /-d '(.*)' \\\n\s*(\S+)/.exec(line) ?? [];
    const headers = { 'content-type': 'application/json' };
    expect((await fetch(url, { method: 'POST', body, headers })).status).toBe(200);
    await row(page, 'wallet:42').getByText('me').waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it('lets nobody in without the token, and says what to do', async () => {
    const ns = newNamespace();
    await stage.acquire(`${ns}/a`, { owner: 'hidden' });
    const opened = await stage.visit(`${stage.service.url}/console#/${ns}/locks`);
    await opened.page.getByRole('heading', { name: 'This console needs its token' }).waitFor();
    expect(await opened.page.content()).not.toContain('hidden');
    expect(await violations(opened.page)).toEqual([]);
    const { status } = await opened.page.evaluate(
      async (path) => ({ status: (await fetch(path)).status }),
      `/console/api/${ns}/locks`,
    );
    expect(status).toBe(401);
  });

  it('answers to no foreign name and to no foreign page', async () => {
    const { port } = new URL(stage.service.url);
    const token = new URL(stage.service.console).searchParams.get('token');
    const opened = await stage.visit(`http://${foreignHost}:${port}/console?token=${token}`);
    expect(await opened.page.textContent('body')).toContain('answers only to loopback names');
    await opened.context.close();

    // Another page of this machine, in a browser that was let in: its requests carry the cookie.
    const other = createServer((_, response) =>
      response.setHeader('content-type', 'text/html').end('<h1>elsewhere</h1>'),
    );
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    try {
      const page = await stage.open(`${newNamespace()}/locks`);
      await live(page);
      await page.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
      const seen = await page.evaluate(async (url) => {
        const ask = (init: RequestInit) =>
          fetch(url, { credentials: 'include', ...init }).then(
            (answer) => answer.type,
            () => 'refused',
          );
        const framed = await new Promise((resolve) => {
          const frame = document.createElement('iframe');
          frame.addEventListener('load', () => resolve(frame.contentDocument === null ? 'closed' : 'open'));
          frame.src = url.replace('/api/about', '');
          document.body.append(frame);
        });
        return { read: await ask({}), changed: await ask({ method: 'POST', body: '{}' }), framed };
      }, `${stage.service.url}/console/api/about`);
      expect(seen).toEqual({ read: 'refused', changed: 'refused', framed: 'closed' });
    } finally {
      other.close();
      other.closeAllConnections();
      for (const { complaints } of stage.visits) complaints.length = 0;
    }
  });

  it('is opened by a command for any service, reads only, and keeps the credentials to itself', async () => {
    const ns = newNamespace();
    const secret = 'credential-of-the-service';
    const env = { HOLDFAST_TOKEN: secret };
    const guarded = await startServing(['--memory', '--engine', 'memory', '--port', '0'], { env });
    const { url } = guarded;
    const command = new Program(process.execPath, [holdfastProgram, 'console', '--url', url, '-n', ns], { env });
    try {
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${secret}` };
      const body = JSON.stringify({ owner: 'ada', leaseId: 'lease-that-is-secret', leaseMs: 600_000 });
      await fetch(`${url}/v1/${ns}/locks/a/acquire`, { method: 'POST', headers, body });
      const opened = await stage.visit((await command.said(/http:\S+token=\S+(?=\s)/))[0] ?? '');
      const { page } = opened;
      const heard: string[] = [];
      page.on(
        'response',
        (response) =>
          void response.text().then(
            (text) => heard.push(text, JSON.stringify(response.headers())),
            () => undefined,
          ),
      );
      await row(page, 'a').getByText('ada').waitFor();
      await page.getByRole('link', { name: 'a', exact: true }).click();
      await page.locator('.history .row', { hasText: 'ada got the lock' }).waitFor();
      expect(await page.getByRole('button', { name: 'Revoke …' }).count()).toBe(0);
      await page.getByText('reads only').waitFor();
      const all = [...heard, await page.content(), JSON.stringify(await opened.context.cookies())].join('\n');
      expect(heard.length).toBeGreaterThan(2);
      expect(all).not.toContain(secret);
      expect(all).not.toContain('lease-that-is-secret');
      // If the service needs a token, the console of the same process uses it for the page.
      const beside = await stage.visit(`${(await guarded.said(/console (http:\S+)\s/))[1]}#/${ns}/locks`);
      await row(beside.page, 'a').getByText('ada').waitFor();
    } finally {
      await command.end();
      await guarded.end();
    }
  });
});
