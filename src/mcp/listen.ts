/** How agents reach the server: over standard input and output, or over HTTP on this machine. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { type McpOptions, mcpServer } from './server.ts';

/** Serves one agent until its input ends or the signal fires. Then its locks are free. */
export async function serveStdio(options: McpOptions, stop: AbortSignal): Promise<void> {
  const { server, end } = mcpServer(options);
  const left = Promise.race([once(process.stdin, 'end'), once(process.stdin, 'close'), fired(stop)]);
  await server.connect(new StdioServerTransport());
  await left;
  await end();
  await server.close();
}

const fired = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** An agent that has no open request for so long has left without saying so. */
const idleMsMax = 900_000;
/** More agents than one machine has. */
const agentsMax = 100;

interface Visit {
  readonly transport: StreamableHTTPServerTransport;
  readonly leave: () => Promise<void>;
  open: number;
  idle?: NodeJS.Timeout;
}

/** Listens on loopback only. Each agent has its own session, and loses its locks when it ends that session. */
export async function serveHttp(options: McpOptions, port: number): Promise<{ url: string; close(): Promise<void> }> {
  const visits = new Map<string, Visit>();
  const server = createServer((request, response) => {
    handle(request, response).catch(() => {
      if (!response.headersSent) refuse(response, 500, 'Something that should not happen did.');
    });
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url?.split('?')[0] !== '/mcp') return refuse(response, 404, 'There is only /mcp here.');
    const id = request.headers['mcp-session-id'];
    const visit = typeof id === 'string' ? visits.get(id) : undefined;
    if (id !== undefined && visit === undefined) return refuse(response, 404, 'This session is over. Begin a new one.');
    if (visit === undefined && visits.size >= agentsMax) return refuse(response, 503, 'Too many agents are here.');
    const current = visit ?? (await begin());
    stay(current, response);
    await current.transport.handleRequest(request, response);
    // A request that opened no session leaves nothing behind.
    if (visit === undefined && current.transport.sessionId === undefined) await current.leave();
  }

  async function begin(): Promise<Visit> {
    const { port: own } = server.address() as AddressInfo;
    const { server: mcp, end } = mcpServer(options);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void visits.set(id, visit),
      onsessionclosed: () => visit.leave(),
      // A page in a browser could reach this port by a name that it makes point to loopback.
      enableDnsRebindingProtection: true,
      allowedHosts: [`127.0.0.1:${own}`, `localhost:${own}`],
    });
    let leaving: Promise<void> | undefined;
    const visit: Visit = {
      transport,
      open: 0,
      leave: () => {
        leaving ??= depart();
        return leaving;
      },
    };
    const depart = async () => {
      clearTimeout(visit.idle);
      if (transport.sessionId !== undefined) visits.delete(transport.sessionId);
      await end();
      await mcp.close();
    };
    await mcp.connect(transport as Parameters<typeof mcp.connect>[0]);
    return visit;
  }

  /** Counts open requests, a stream of messages too. */
  function stay(visit: Visit, response: ServerResponse): void {
    clearTimeout(visit.idle);
    visit.open += 1;
    response.once('close', () => {
      visit.open -= 1;
      if (visit.open === 0) visit.idle = setTimeout(() => void visit.leave(), idleMsMax).unref();
    });
  }

  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    close: async () => {
      await Promise.allSettled([...visits.values()].map(({ leave }) => leave()));
      server.closeAllConnections();
      server.close();
    },
  };
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32_000, message }, id: null }));
}
