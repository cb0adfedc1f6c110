import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Console, newConsoleToken } from '../../console/server/console.ts';
import { permission } from '../../console/server/questions.ts';
import type { Command } from '../command.ts';
import { UsageError } from '../failure.ts';

export const showConsole: Command = {
  name: 'console',
  summary: 'Show locks, queues and events in a browser, live.',
  flags: {
    'port <n>': 'Port on this machine; any free one by default.',
    [permission.name]: permission.meaning,
  },
  details: `Prints an address that only works in a browser on this machine. This program signs the requests and
forwards them, so that credentials never reach the browser. It runs until Ctrl-C.`,
  examples: [
    'holdfast console',
    'holdfast console --url https://abc.execute-api.eu-west-1.amazonaws.com --sigv4 -n payments',
  ],
  async run({ given, env, terminal, connection }) {
    const port = given.integer('port', 0, 65_535) ?? 0;
    const { url: serviceUrl, namespace, transport, service } = connection();
    // The page can't show the reason if nothing works. This request can: it fails at once if the URL or token is wrong.
    await service.health();
    const token = newConsoleToken();
    const auth = given.has('sigv4') ? 'sigv4' : given.has('token-file') || env.HOLDFAST_TOKEN ? 'bearer' : 'none';
    const mayChange = given.has(permission.name);
    const page = new Console({ transport, serviceUrl, auth, token, namespace, mayChange });
    const server = createServer((request, response) => {
      if (page.handle(request, response)) return;
      response.writeHead(302, { location: '/console' }).end();
    });
    await once(server.listen(port, '127.0.0.1'), 'listening').catch((error: NodeJS.ErrnoException) => {
      const inUse = error.code === 'EADDRINUSE';
      throw inUse ? new UsageError(`Port ${port} is in use; choose another with --port.`) : error;
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/console?token=${token}`;
    terminal.result({ url }, () => {
      terminal.print(`The console of ${serviceUrl} is at`);
      terminal.print(`  ${url}`);
      terminal.note(`It ${mayChange ? permission.words : 'only reads'}. Ctrl-C ends it.`);
    });
    await new Promise<void>((resolve) => {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve());
    });
    page.close();
    server.closeAllConnections();
    server.close();
  },
};
