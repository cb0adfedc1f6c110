/** The command line without processes: its commands run here, on a twin. */
import { readArguments } from '../../../src/cli/arguments.ts';
import { commands } from '../../../src/cli/commands/index.ts';
import { Service } from '../../../src/cli/service.ts';
import { Signals } from '../../../src/cli/signals.ts';
import { Terminal } from '../../../src/cli/terminal.ts';
import type { HttpTransport } from '../../../src/client/http-transport.ts';
import type { Transport } from '../../../src/client/transport.ts';
import { Twin } from '../../../src/testing/index.ts';
import { coreOf } from '../client/inside.ts';

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A writable stream that keeps what is written. */
export function kept(isTTY = false): { readonly stream: NodeJS.WriteStream; readonly text: () => string } {
  let text = '';
  const write = (more: string) => {
    text += more;
    return true;
  };
  return { stream: { write, isTTY } as unknown as NodeJS.WriteStream, text: () => text };
}

/** `wrap` may change what the service answers. */
export function shell(wrap: (transport: Transport) => Transport = (transport) => transport) {
  const twin = new Twin();
  const client = twin.client();
  const { transport, runtime } = coreOf(client);
  const wrapped = wrap({
    request: (call, signal) => transport.request(call, signal),
    watch: (query, handlers) => transport.watch?.(query, handlers) ?? (() => {}),
  });
  const service = new Service({ transport: wrapped, runtime, namespace: twin.namespace, owner: 'me' });

  /** Starts a command as it would be typed, without the name of the program. */
  async function start(words: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ran> {
    const command = commands.find(({ name }) => name === words[0] || name === words.slice(0, 2).join(' '));
    if (command === undefined) throw new Error(`There is no command ${words.join(' ')}.`);
    const [stdout, stderr] = [kept(), kept()];
    const given = readArguments(command, words.slice(command.name.split(' ').length));
    const terminal = new Terminal(
      { json: given.has('json'), color: false, env },
      { stdout: stdout.stream, stderr: stderr.stream },
    );
    const connection = {
      url: 'http://twin',
      namespace: twin.namespace,
      owner: 'me',
      transport: wrapped as HttpTransport,
      service,
    };
    const signals = new Signals();
    const code = await command
      .run({ given, env, terminal, signals, connection: () => connection })
      .finally(() => signals.stopListening());
    return { code: code ?? 0, stdout: stdout.text(), stderr: stderr.text() };
  }
  /** Runs a command to its end, and lets as much time pass as it needs. */
  const run = (words: readonly string[], env: NodeJS.ProcessEnv = {}) => twin.until(start(words, env));
  return { twin, client, other: twin.client({ owner: 'other' }), service, start, run };
}
