import { isHoldfastError } from '../client/index.ts';
import { version } from '../process/version.ts';
import { readArguments } from './arguments.ts';
import { type Command, commonFlags, connectionFlags, type Invocation, listOf } from './command.ts';
import { commands } from './commands/index.ts';
import { type Connection, connect, defaultUrl } from './connection.ts';
import { formatMs } from './duration.ts';
import { exitCodeOf, exitCodes, exitLine } from './exit-codes.ts';
import { Failure, UsageError } from './failure.ts';
import { helpOf, helpOfGroup, helpOfProgram } from './help.ts';
import { exitCodeOfSignal, Interrupted, Signals } from './signals.ts';
import { didYouMean } from './suggestion.ts';
import { harmless } from './table.ts';
import { Terminal, type TerminalStreams } from './terminal.ts';

const versionFlag = listOf({ 'version, -v': 'Show the version.' });

/** Runs the command line. Resolves with the exit code. Tests give streams of their own. */
export async function runProgram(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  streams: TerminalStreams = process,
): Promise<number> {
  endWithReader(streams.stdout);
  // Everything after -- belongs to the command, even if it looks like one of our flags.
  const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args;
  const terminal = new Terminal({ json: own.includes('--json'), color: !own.includes('--no-color'), env }, streams);
  let connection: Connection | undefined;
  const connected = (open: () => Connection) => {
    connection ??= open();
    return connection;
  };
  const signals = new Signals();
  try {
    return await dispatch(args, { env, terminal, signals }, connected);
  } catch (error) {
    const exitCode = report(error, terminal, connection);
    // `eval` gets this line instead of the exports. Without it, the script would go on as if it held the lock.
    if (own.includes('--export')) terminal.print(exitLine(exitCode));
    return exitCode;
  } finally {
    signals.stopListening();
    // Leaves the queue if a wait was interrupted. A lock that was granted stays held.
    await connection?.service.close();
  }
}

/** The reader of our output closed the pipe, as `head` does. That is not an error. */
function endWithReader(stdout: NodeJS.WriteStream): void {
  stdout.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(exitCodeOfSignal('SIGPIPE'));
  });
}

async function dispatch(
  args: readonly string[],
  around: Pick<Invocation, 'env' | 'terminal' | 'signals'>,
  connected: (open: () => Connection) => Connection,
): Promise<number> {
  const { env, terminal } = around;
  const { leading, words } = splitLeading(args);
  if (leading.some((flag) => flag === '--version' || flag === '-v')) {
    terminal.result({ version }, () => terminal.print(version));
    return exitCodes.ok;
  }
  if (words.length === 0 || words[0] === 'help') {
    if (terminal.json && words.length === 0 && !leading.some((flag) => flag === '--help' || flag === '-h')) {
      throw new UsageError("The command is missing. 'holdfast --help' lists all commands.");
    }
    terminal.write(helpFor(words.slice(1)));
    return args.length === 0 ? exitCodes.usage : exitCodes.ok;
  }
  const command = findCommand(words);
  if (command === undefined) {
    if (terminal.json && !words.some((word) => word === '--help' || word === '-h')) {
      throw new UsageError(`'${words[0]}' needs a second word. 'holdfast ${words[0]} --help' lists them.`);
    }
    terminal.write(helpOfGroup(words[0] ?? ''));
    return words.slice(1).some((word) => word === '--help' || word === '-h') ? exitCodes.ok : exitCodes.usage;
  }
  const given = readArguments(command, [...leading, ...words.slice(command.name.split(' ').length)]);
  if (given.has('help')) {
    terminal.write(helpOf(command));
    return exitCodes.ok;
  }
  const code = await command.run({ ...around, given, connection: () => connected(() => connect(given, env)) });
  return code ?? exitCodes.ok;
}

/** Flags may come before the command. Their values must not be read as the command. */
function splitLeading(args: readonly string[]): { leading: readonly string[]; words: readonly string[] } {
  const known = [...connectionFlags, ...commonFlags, ...versionFlag];
  let at = 0;
  while (at < args.length) {
    const arg = args[at] ?? '';
    if (!arg.startsWith('-') || arg === '--') break;
    const flag = known.find(({ name, short }) => arg.split('=')[0] === `--${name}` || arg === `-${short}`);
    if (flag === undefined) {
      const names = known.map(({ name }) => `--${name}`);
      throw new UsageError(`Unknown flag ${arg} before the command.${didYouMean(arg, names)}`);
    }
    at += flag.value === undefined || arg.includes('=') ? 1 : 2;
  }
  return { leading: args.slice(0, at), words: args.slice(at) };
}

/** Undefined if only the first of two words was given. */
function findCommand(words: readonly string[]): Command | undefined {
  const [first = '', second = ''] = words;
  const found = commands.find(({ name }) => name === first || name === `${first} ${second}`);
  if (found !== undefined) return found;
  const group = commands.filter(({ name }) => name.startsWith(`${first} `)).map(({ name }) => name.split(' ')[1] ?? '');
  if (group.length === 0) {
    const known = [...new Set([...commands.map(({ name }) => name.split(' ')[0] ?? ''), 'help'])];
    throw new UsageError(
      `There is no command '${first}'.${didYouMean(first, known)} 'holdfast --help' lists all commands.`,
    );
  }
  if (second === '' || second.startsWith('-')) return undefined;
  throw new UsageError(`There is no command '${first} ${second}'.${didYouMean(second, group)}`);
}

function helpFor(words: readonly string[]): string {
  if (words.length === 0) return helpOfProgram();
  const command = findCommand(words);
  return command === undefined ? helpOfGroup(words[0] ?? '') : helpOf(command);
}

/** Prints the error, as text or as JSON, and returns the exit code. */
function report(error: unknown, terminal: Terminal, connection: Connection | undefined): number {
  if (error instanceof Interrupted) return exitCodeOfSignal(error.signal);
  if (error instanceof UsageError)
    return printError(terminal, exitCodes.usage, { code: 'usage', message: error.message });
  if (error instanceof Failure)
    return printError(terminal, error.exitCode, { code: error.code, message: error.message });
  if (!isHoldfastError(error)) {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return printError(terminal, exitCodes.internal, { code: 'internal', message });
  }
  const { name: _, cause: __, message, ...fields } = { ...error, message: error.message };
  const code = exitCodeOf(error.code);
  return printError(terminal, code, { ...fields, message: `${message}${hint(error.code, message, connection)}` });
}

function printError(
  terminal: Terminal,
  exitCode: number,
  error: { readonly code: string; readonly message: string },
): number {
  if (terminal.json) terminal.errorJson({ error: { ...error, exitCode } });
  else {
    terminal.error(error.message.split('\n').map(harmless).join('\n'));
    for (const line of linesOf(error)) terminal.note(line);
  }
  return exitCode;
}

/** Further lines about a refusal, such as the holders. */
function linesOf(error: object): string[] {
  const { holders, errors, requestId } = error as {
    holders?: readonly { owner: string; fence: number; remainingMs: number | null }[];
    errors?: readonly { field: string; message: string }[];
    requestId?: string;
  };
  return [
    ...(holders ?? []).map(({ owner, fence, remainingMs }) => {
      const left = remainingMs === null ? 'a session' : formatMs(remainingMs);
      return `held by ${harmless(owner)}, fence ${fence}, for ${left} unless renewed`;
    }),
    ...(errors ?? []).map(({ field, message }) => `${harmless(field)}: ${harmless(message)}`),
    ...(requestId === undefined || holders !== undefined || errors !== undefined
      ? []
      : [`request ${harmless(requestId)}`]),
  ];
}

/** What to do. The message of the SDK names the address, unless the service itself answered. */
function hint(code: string, message: string, connection: Connection | undefined): string {
  if (connection === undefined) return '';
  if (code === 'unavailable') {
    const { url } = connection;
    if (!message.includes(url)) return ` The URL is ${url}.`;
    return url === defaultUrl ? " 'holdfast serve' starts a service there; --url names another." : '';
  }
  if (code === 'unauthorized') return ' Set HOLDFAST_TOKEN, or give --token-file or --sigv4.';
  return '';
}
