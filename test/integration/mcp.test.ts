import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Holdfast } from '../../src/client/index.ts';
import { Agent as LockAgent } from '../../src/mcp/agent.ts';
import { serveHttp } from '../../src/mcp/listen.ts';
import { holdfastProgram as program } from '../support/program.ts';
import { patient, startService, type TestService } from '../support/service.ts';

interface Said {
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what a tool answers is what the test checks.
  readonly data: any;
  readonly isError: boolean;
}

/** An agent, driven by the protocol's own client. */
class Agent {
  readonly client: Client;
  readonly notes: string[] = [];

  constructor(name: string) {
    this.client = new Client({ name, version: '1' });
    this.client.fallbackNotificationHandler = async ({ params }) => {
      this.notes.push(JSON.stringify(params));
    };
  }

  async connect(transport: Transport): Promise<this> {
    await this.client.connect(transport);
    return this;
  }

  async call(name: string, given: Record<string, unknown> = {}, signal?: AbortSignal): Promise<Said> {
    const options = { timeout: 300_000, ...(signal === undefined ? {} : { signal }) };
    const answer = await this.client.callTool({ name, arguments: given }, undefined, options);
    const [{ text }] = answer.content as [{ text: string }];
    return { text, data: answer.structuredContent, isError: answer.isError === true };
  }

  async read(uri: string): Promise<unknown> {
    const { contents } = await this.client.readResource({ uri });
    return JSON.parse((contents[0] as { text: string }).text);
  }
}

describe('holdfast mcp', () => {
  let service: TestService;
  let locks: Holdfast;
  let http: Awaited<ReturnType<typeof serveHttp>>;
  beforeAll(async () => {
    service = await startService();
    locks = new Holdfast({ url: service.url, namespace: 'agents', patience: patient });
    http = await serveHttp({ locks, version: '1', owner: 'me@here', ttlMs: 60_000 }, 0);
  });
  afterAll(async () => {
    await http.close();
    await locks.close();
    await service.stop();
  });

  const overHttp = (name: string) =>
    new Agent(name).connect(new StreamableHTTPClientTransport(new URL(http.url)) as Transport);
  const overStdio = (name: string) =>
    new Agent(name).connect(
      new StdioClientTransport({
        command: process.execPath,
        args: [program, 'mcp', '--url', service.url, '--namespace', 'agents', '--timeout', '60s'],
        stderr: 'inherit',
      }),
    );

  it.each([
    ['HTTP', overHttp],
    ['standard input', overStdio],
  ])('lets two agents take turns over %s', async (how, connect) => {
    const lock = `repo:${how.replace(' ', '-')}`;
    const [one, other] = await Promise.all([connect('one'), connect('other')]);
    expect(one.client.getInstructions()).toContain('Before you change something');

    const first = await one.call('acquire', { lock, purpose: 'rename a module' });
    expect(first).toMatchObject({ isError: false, data: { ok: true, lock, fence: expect.any(Number) } });
    expect((await one.call('acquire', { lock })).text).toMatch(/already hold/);
    expect((await one.call('renew', { lock })).data).toMatchObject({ ok: true });

    const refused = await other.call('acquire', { lock, waitSeconds: 0 });
    expect(refused.data).toMatchObject({ ok: false, code: 'lock-held' });
    expect(refused.text).toMatch(/held by "one .*for "rename a module"/);
    expect((await other.call('inspect', { lock })).text).toMatch(/is held by "one/);
    expect((await other.call('list', { prefix: lock })).data.locks).toHaveLength(1);
    expect((await other.call('release', { lock })).data).toMatchObject({ ok: false, reason: 'not_owner' });

    const waiting = other.call('acquire', { lock, waitSeconds: 120 });
    await expect.poll(async () => (await locks.inspect(lock)).queueDepth).toBe(1);
    expect((await one.call('release', { lock })).data).toMatchObject({ ok: true });
    const second = await waiting;
    expect(second.data.fence).toBeGreaterThan(first.data.fence);
    expect(await other.read(`holdfast://locks/${encodeURIComponent(lock)}`)).toMatchObject({ state: 'held' });
    await expect
      .poll(() => one.read(`holdfast://locks/${encodeURIComponent(lock)}/history`))
      .toContainEqual(expect.objectContaining({ type: 'released' }));

    await Promise.all([one.client.close(), other.client.close()]);
  });

  it('frees the locks of an agent that leaves', async () => {
    const ways = [
      async () => {
        const agent = await overStdio('leaves');
        return { agent, leave: () => agent.client.close() };
      },
      async () => {
        const transport = new StreamableHTTPClientTransport(new URL(http.url));
        const agent = await new Agent('leaves').connect(transport as Transport);
        return { agent, leave: () => transport.terminateSession() };
      },
    ];
    for (const way of ways) {
      const { agent, leave } = await way();
      await agent.call('acquire', { lock: 'left' });
      await agent.call('once', { key: 'left' });
      await leave();
      await expect.poll(async () => (await locks.inspect('left')).state).toBe('free');
      await expect.poll(async () => (await locks.inspect('once:left')).state).toBe('free');
    }
  });

  it('gives the place up if the agent cancels', async () => {
    const [one, other] = await Promise.all([overHttp('one'), overHttp('other')]);
    await one.call('acquire', { lock: 'cancelled' });
    const controller = new AbortController();
    const waiting = other.call('acquire', { lock: 'cancelled', waitSeconds: 120 }, controller.signal);
    await expect.poll(async () => (await locks.inspect('cancelled')).queueDepth).toBe(1);
    controller.abort();
    await expect(waiting).rejects.toThrow();
    await expect.poll(async () => (await locks.inspect('cancelled')).queueDepth).toBe(0);
    await Promise.all([one.client.close(), other.client.close()]);
  });

  it('tells an agent that its lock is lost', async () => {
    const agent = await overHttp('loses');
    const { data } = await agent.call('acquire', { lock: 'lost' });
    await locks.revoke('lost', { fence: data.fence, reason: 'a test' });
    const said = await agent.call('renew', { lock: 'lost' });
    expect(said).toMatchObject({ isError: true, data: { ok: false, code: 'lease-lost' } });
    expect(said.text).toMatch(/Stop what this lock protects/);
    await expect.poll(() => agent.notes.join()).toMatch(/You have lost lost/);
    await agent.client.close();
  });

  it('gives a job to one agent, and its result to the others', async () => {
    const [one, other] = await Promise.all([overHttp('one'), overHttp('other')]);
    expect((await one.call('once', { key: 'changelog' })).data).toMatchObject({ run: true });
    expect((await other.call('once', { key: 'changelog' })).data).toMatchObject({ run: false, done: false });
    expect((await other.call('once_done', { key: 'changelog', result: 1 })).isError).toBe(true);
    await one.call('once_done', { key: 'changelog', failed: 'no time' });
    expect((await other.call('once', { key: 'changelog' })).data).toMatchObject({ run: true });
    await other.call('once_done', { key: 'changelog', result: { pages: 3 } });
    expect((await one.call('once', { key: 'changelog' })).data).toMatchObject({ done: true, value: { pages: 3 } });
    await Promise.all([one.client.close(), other.client.close()]);
  });

  it('shows no secret, and clips the labels of others', async () => {
    const agent = await overHttp('curious');
    const held = await locks.acquire('labelled', { owner: 'x'.repeat(128), metadata: { purpose: 'y'.repeat(400) } });
    const { leaseId } = held.detach();
    const texts = [
      ...(await Promise.all(
        ['acquire', 'inspect'].map((tool) => agent.call(tool, { lock: 'labelled', waitSeconds: 0 })),
      )),
      await agent.call('list'),
      await agent.read('holdfast://locks/labelled'),
      await agent.read('holdfast://locks/labelled/history'),
    ].map((said) => JSON.stringify(said));
    expect(texts.join()).not.toContain(leaseId);
    expect(texts.join()).not.toContain('sessionId');
    expect(texts[0]).not.toContain('y'.repeat(101));
    expect((await agent.call('inspect', { lock: 'not a name' })).isError).toBe(true);
    await agent.client.close();
  });

  it('opens one session for locks that are taken at the same time', async () => {
    const agent = new LockAgent(locks, 'busy', 60_000, () => {});
    const names = ['busy:1', 'busy:2', 'busy:3'];
    const wish = { waitMs: 0, signal: new AbortController().signal };
    await Promise.all(names.map((name) => agent.acquire(name, wish)));
    await agent.end();
    await expect(agent.acquire('busy:4', wish)).rejects.toThrow('The agent has left.');
    for (const name of names) expect((await locks.inspect(name)).state).toBe('free');
  });

  it('refuses pages that reach it by another name, and sessions that are over', async () => {
    const call = (headers: Record<string, string>) =>
      fetch(http.url, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json', ...headers } });
    expect((await call({ 'mcp-session-id': 'made-up' })).status).toBe(404);
    expect((await fetch(http.url.replace('/mcp', '/'))).status).toBe(404);
    const accept = 'application/json, text/event-stream';
    const headers = { 'content-type': 'application/json', accept, host: 'evil.example' };
    const rebound = request(http.url, { method: 'POST', headers });
    rebound.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }));
    const [answer] = (await once(rebound, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(403);
    answer.resume();
  });
});
