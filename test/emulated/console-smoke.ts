/** The console in front of the deployed service: each request that its page makes. */
import { strict as assert } from 'node:assert';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { HttpTransport } from '../../src/client/http-transport.ts';
import { Console, newConsoleToken } from '../../src/console/server/console.ts';
import { eventually, TextSocket } from './callers.ts';
import { type Checks, lease, ok } from './smoke.ts';

interface OpenConsole {
  // biome-ignore lint/suspicious/noExplicitAny: answers are read by what the page shows of them.
  ask(path: string, body?: object): Promise<any>;
  /** The messages of the page's stream so far, as text. */
  stream(): string;
  close(): void;
}

async function openConsole(url: string, namespace: string): Promise<OpenConsole> {
  const transport = new HttpTransport({ url, webSocket: TextSocket });
  const token = newConsoleToken();
  const page = new Console({ transport, serviceUrl: url, auth: 'none', token, namespace, mayChange: true });
  const server = createServer((request, response) => void page.handle(request, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/console`;
  const entered = await fetch(`${base}?token=${token}`);
  await entered.body?.cancel();
  const headers = { cookie: (entered.headers.get('set-cookie') ?? '').split(';')[0] ?? '' };
  let text = '';
  const left = new AbortController();
  const events = await fetch(`${base}/api/${namespace}/events`, { headers, signal: left.signal });
  const follow = async () => {
    for await (const part of events.body as ReadableStream<Uint8Array>) text += Buffer.from(part).toString();
  };
  follow().catch(() => undefined);
  return {
    async ask(path, body) {
      const response = await fetch(`${base}/api/${path}`, {
        headers,
        ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      });
      const answer = await response.json();
      assert.equal(response.status, 200, JSON.stringify(answer));
      return answer;
    },
    stream: () => text,
    close() {
      left.abort();
      page.close();
      server.closeAllConnections();
      server.close();
    },
  };
}

export const consoleChecks: Checks = {
  'the requests of the console': async ({ caller, deployed }) => {
    const { ask, stream, close } = await openConsole(deployed.url, 'shown');
    try {
      assert.equal((await ask('about')).namespace, 'shown');
      await eventually('a live stream', () => stream().includes('"state":"live"') || undefined);
      const { fence } = ok(await caller.post('/v1/shown/locks/seen/acquire', { leaseId: lease('first') }));
      await eventually('an event', () => stream().includes('"type":"granted"') || undefined);
      assert.ok(!stream().includes(lease('first')), 'The page is shown a lease.');
      assert.equal((await ask('shown/locks')).locks[0].lock, 'seen');
      assert.equal((await ask('shown/locks/seen')).fence, fence);
      assert.equal((await ask('shown/look?lock=seen')).locks[0].fence, fence);
      await eventually(
        'a history',
        async () => (await ask('shown/locks/seen/history')).events.length === 1 || undefined,
      );
      ok(await caller.call('PUT', '/v1/shown/records/cursor', { value: 7 }, { 'if-none-match': '*' }), 201);
      assert.equal((await ask('shown/records/cursor')).value, 7);
      assert.equal((await ask('shown/locks/seen/revoke', { fence, reason: 'smoke' })).revoked, true);
      await eventually('the revocation', () => stream().includes('"type":"revoked"') || undefined);
    } finally {
      close();
    }
  },
};
