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
import type { Flags } from './command.ts';
import { readToken, readUrl } from './connection.ts';
import { UsageError } from './failure.ts';
import { type LogHow, logHows } from './serve-log.ts';

/** Each flag with its default. It can also be set by a variable: `--poll-ms` by HOLDFAST_POLL_MS. */
const flags: Readonly<Record<string, readonly [fallback: string | number, meaning: string]>> = {
  'port <n>': [defaultOptions.port, 'Port of the HTTP and WebSocket service; 0 takes any free one.'],
  'host <address>': [defaultOptions.host, 'Address to listen on; an address other than loopback needs HOLDFAST_TOKEN.'],
  'data <folder>': [defaultOptions.dataFolder, 'Folder that keeps locks and records across restarts.'],
  memory: ['off', 'Keep nothing; every start is empty.'],
  'table <name>': [defaultOptions.table, 'Name of the table; it is created if it is missing.'],
  'engine <engine>': [defaultOptions.engine, `${engineNames.join(', ')}, or the URL of any DynamoDB endpoint.`],
  'region <region>': [defaultOptions.region, 'AWS Region of the table; a local engine takes any.'],
  'poll-ms <n>': [defaultOptions.pollMs, `How long one waiting request stays open, ${pollMsMin} to ${pollMsMax} ms.`],
  [permission.name]: ['off', permission.meaning],
  'log <how>': ['quiet in a terminal', 'json: a line per request; quiet: faults, and a summary each minute.'],
};

export const serveFlags: Flags = Object.fromEntries(
  Object.entries(flags).map(([shown, [fallback, meaning]]) => {
    const [name = ''] = shown.split(' ');
    const variable = `HOLDFAST_${name.toUpperCase().replaceAll('-', '_')}`;
    return [shown, { meaning, variable, fallback: String(fallback) }];
  }),
);

/** A flag wins over its variable. An empty variable counts as unset. */
export function readServeOptions(given: Given, env: NodeJS.ProcessEnv): LocalOptions {
  const setting = (name: string): Setting => given.setting(name, env);
  if (given.has('memory') && given.has('data')) {
    throw new UsageError('--memory keeps nothing, and --data names a folder that keeps data: give one of the two.');
  }
  const token = readToken('HOLDFAST_TOKEN', env.HOLDFAST_TOKEN);
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
    token,
    eventsUrl: readUrl('HOLDFAST_EVENTS_URL', env.HOLDFAST_EVENTS_URL),
    tasksUrl: readUrl('HOLDFAST_TASKS_URL', env.HOLDFAST_TASKS_URL),
    callbacksUrl: readUrl('HOLDFAST_CALLBACKS_URL', env.HOLDFAST_CALLBACKS_URL),
  };
}

/** Lines of JSON are for programs that read them. A person at a terminal wants to see the banner. */
export function readLogHow(given: Given, env: NodeJS.ProcessEnv, isTerminal: boolean): LogHow {
  const text = given.text('log') ?? (env.HOLDFAST_LOG || undefined);
  if (text === undefined) return isTerminal ? 'quiet' : 'json';
  const how = logHows.find((known) => known === text);
  if (how !== undefined) return how;
  throw new UsageError(
    `${given.has('log') ? '--log' : 'HOLDFAST_LOG'} expects ${logHows.join(' or ')}, but got '${text}'.`,
  );
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
