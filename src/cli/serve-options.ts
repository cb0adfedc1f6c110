/** The flags and variables of `serve`, and how they become the options of the local service. */
import { isIP } from 'node:net';
import { permission } from '../console/server/questions.ts';
import {
  defaultOptions,
  type EngineChoice,
  engineNames,
  isLoopback,
  isWebUrl,
  type LocalOptions,
  pollMsMax,
  pollMsMin,
} from '../local/options.ts';
import { type Given, readInteger, type Setting } from './arguments.ts';
import type { Flag } from './command.ts';
import { UsageError } from './failure.ts';

const flags = [
  {
    name: 'port',
    value: 'n',
    fallback: String(defaultOptions.port),
    meaning: 'Port of the HTTP and WebSocket service; 0 takes any free one.',
  },
  {
    name: 'host',
    value: 'address',
    fallback: defaultOptions.host,
    meaning: 'Address to listen on; an address other than loopback needs HOLDFAST_TOKEN.',
  },
  {
    name: 'data',
    value: 'folder',
    fallback: defaultOptions.dataFolder,
    meaning: 'Folder that keeps locks and records across restarts.',
  },
  { name: 'memory', fallback: 'off', meaning: 'Keep nothing; every start is empty.' },
  {
    name: 'table',
    value: 'name',
    fallback: defaultOptions.table,
    meaning: 'Name of the table; it is created if it is missing.',
  },
  {
    name: 'engine',
    value: 'engine',
    fallback: defaultOptions.engine,
    meaning: `${engineNames.join(', ')}, or the URL of any DynamoDB endpoint.`,
  },
  {
    name: 'region',
    value: 'region',
    fallback: defaultOptions.region,
    meaning: 'AWS Region of the table; a local engine takes any.',
  },
  {
    name: 'poll-ms',
    value: 'n',
    fallback: String(defaultOptions.pollMs),
    meaning: `How long one waiting request stays open, ${pollMsMin} to ${pollMsMax} ms.`,
  },
  { name: permission.name, fallback: 'off', meaning: permission.meaning },
] as const satisfies readonly Flag[];

/** Every flag of `serve` can also be set by a variable: `--poll-ms` by HOLDFAST_POLL_MS. */
export const serveFlags: readonly Flag[] = flags.map((flag) => ({
  ...flag,
  variable: `HOLDFAST_${flag.name.toUpperCase().replaceAll('-', '_')}`,
}));

type FlagName = (typeof flags)[number]['name'];

/** A flag wins over its variable. An empty variable counts as unset. */
export function readServeOptions(given: Given, env: NodeJS.ProcessEnv): LocalOptions {
  const setting = (name: FlagName): Setting =>
    given.setting(serveFlags.find((flag) => flag.name === name) as Flag, env);
  if (given.has('memory') && given.has('data')) {
    throw new UsageError('--memory keeps nothing, and --data names a folder that keeps data: give one of the two.');
  }
  const token = readToken(env.HOLDFAST_TOKEN);
  const eventsUrl = readUrl('HOLDFAST_EVENTS_URL', env.HOLDFAST_EVENTS_URL);
  const tasksUrl = readUrl('HOLDFAST_TASKS_URL', env.HOLDFAST_TASKS_URL);
  const callbacksUrl = readUrl('HOLDFAST_CALLBACKS_URL', env.HOLDFAST_CALLBACKS_URL);
  const [port, pollMs] = [setting('port'), setting('poll-ms')];
  return {
    port: readInteger(port.by, port.text, 0, 65_535),
    host: readHost(setting('host'), token),
    dataFolder: setting('data').text,
    // A folder on the command line was given for this run. A variable may have been set for the whole shell, so the
    // folder wins.
    memory: !given.has('data') && readSwitch(setting('memory')),
    table: readMatch(setting('table'), /^[a-zA-Z0-9_.-]{3,255}$/, '3 to 255 letters, digits, _, - or .'),
    engine: readEngine(setting('engine')),
    region: readMatch(setting('region'), /^[a-z]{2,}(-[a-z]+)+-\d+$/, 'a Region such as us-east-1'),
    pollMs: readInteger(pollMs.by, pollMs.text, pollMsMin, pollMsMax),
    consoleMayChange: readSwitch(setting(permission.name)),
    ...(token !== undefined && { token }),
    ...(eventsUrl !== undefined && { eventsUrl }),
    ...(tasksUrl !== undefined && { tasksUrl }),
    ...(callbacksUrl !== undefined && { callbacksUrl }),
  };
}

function readSwitch({ text, by }: Setting): boolean {
  if (text === '1' || text === 'true') return true;
  if (text === '0' || text === 'false' || text === 'off') return false;
  throw new UsageError(`${by} expects 1, true, 0 or false, but got '${text}'.`);
}

function readEngine({ text, by }: Setting): EngineChoice {
  const known = engineNames.find((name) => name === text);
  if (known !== undefined) return known;
  if (isWebUrl(text)) return text;
  throw new UsageError(`${by} expects ${engineNames.join(', ')} or an http(s) URL, but got '${text}'.`);
}

function readMatch({ text, by }: Setting, pattern: RegExp, expected: string): string {
  if (pattern.test(text)) return text;
  throw new UsageError(`${by} expects ${expected}, but got '${text}'.`);
}

function readHost({ text, by }: Setting, token: string | undefined): string {
  if (isIP(text) === 0 && !/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(text)) {
    throw new UsageError(`${by} expects an IP address or a host name, but got '${text}'.`);
  }
  if (!isLoopback(text) && token === undefined) {
    throw new UsageError(
      `${by} ${text} can be reached from other machines: set HOLDFAST_TOKEN, or listen on 127.0.0.1.`,
    );
  }
  return text;
}

function readToken(text: string | undefined): string | undefined {
  if (!text) return undefined;
  // The token is sent in an Authorization header, and a space or a line break would end it there. The message must not
  // show the token.
  if (!/^[\x21-\x7e]+$/.test(text)) throw new UsageError('HOLDFAST_TOKEN expects printable ASCII without spaces.');
  return text;
}

function readUrl(variable: string, text: string | undefined): string | undefined {
  if (!text) return undefined;
  if (!isWebUrl(text)) throw new UsageError(`${variable} expects an http(s) URL, but got '${text}'.`);
  return text;
}
