import type { Command } from '../command.ts';
import { exitCodes } from '../exit-codes.ts';
import { Failure } from '../failure.ts';
import { owner } from './lease-flags.ts';

/** Long enough for a restart of the service, short enough that others soon get what a dead agent held. */
const ttlMsDefault = 30_000;

export const mcp: Command = {
  name: 'mcp',
  summary: 'Serve locks to coding agents and other agents, over the Model Context Protocol.',
  flags: {
    ...owner,
    'http <port>': 'Listen on this port of 127.0.0.1 instead of standard input; 0 for any free port.',
    'ttl <duration>': 'How long locks are kept if this program dies, 1s to 1h; 30s by default.',
  },
  details: `An agent takes locks with tools, and they end when it disconnects. Over HTTP each session is an agent of its own. It
needs the package @modelcontextprotocol/sdk, which npm does not install by itself.`,
  examples: ['holdfast mcp', 'holdfast mcp --namespace my-repo --http 4200'],
  async run(invocation) {
    const { given, terminal, signals, connection } = invocation;
    const port = given.integer('http', 0, 65_535);
    const ttlMs = given.durationMs('ttl', 1_000, 3_600_000) ?? ttlMsDefault;
    const { interrupted } = signals;
    const { service: locks, owner: name } = connection();
    const { serveHttp, serveStdio } = await load();
    const { version } = await import('../../process/version.ts');
    const options = { locks, owner: name, ttlMs, version };
    if (port === undefined) {
      await serveStdio(options, interrupted);
    } else {
      const listening = await serveHttp(options, port);
      terminal.result({ url: listening.url }, () => terminal.print(`Agents connect to ${listening.url}`));
      await new Promise<void>((resolve) => interrupted.addEventListener('abort', () => resolve(), { once: true }));
      await listening.close();
    }
    await locks.close();
    return undefined;
  },
};

async function load(): Promise<typeof import('../../mcp/listen.ts')> {
  try {
    return await import('../../mcp/listen.ts');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const message = 'This needs a package that is not installed. Run: npm install @modelcontextprotocol/sdk';
    throw new Failure('start', exitCodes.unavailable, message, { cause: error });
  }
}
