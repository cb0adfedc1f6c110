import { isIP } from 'node:net';
import { parseArgs } from 'node:util';
import { defaultTableName } from '../store/dynamodb/table.ts';
import { StartError } from './start-error.ts';

export type EndpointUrl = `http://${string}` | `https://${string}`;
export type EngineChoice = 'auto' | 'dynamodb-local' | 'dynoxide' | 'memory' | EndpointUrl;

export interface LocalOptions {
  help: boolean;
  /** 0 asks the operating system for any free port. */
  port: number;
  host: string;
  dataFolder: string;
  /** Nothing is kept: `dataFolder` is not used. */
  memory: boolean;
  table: string;
  engine: EngineChoice;
  region: string;
  pollMs: number;
  /** When set, every request must carry it. It is a secret: it has no flag, since any user can list command lines. */
  token?: string;
  /** Where events are posted, in place of EventBridge. */
  eventsUrl?: string;
  /** Where task tokens are answered: an endpoint that speaks Step Functions' API, such as Step Functions Local. */
  tasksUrl?: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

interface Flag {
  flag: string;
  /** The placeholder of its value in the help; a flag without one is a switch. */
  value?: string;
  variable: string;
  fallback: string;
  meaning: string;
}

/** A poll must be answered before API Gateway gives up at 30 s, and the local service keeps to what is deployed. */
const pollMsMax = 29_000;
/** Below a tenth of a second a long poll is a busy loop. */
const pollMsMin = 100;

/** The one list of flags: the parser and the help both read it, so that neither can forget one. */
const flags = [
  {
    flag: 'port',
    value: 'n',
    variable: 'HOLDFAST_PORT',
    // Free of the ports that web frameworks take by default (3000, 5000, 8000, 8080).
    fallback: '4100',
    meaning: 'Port of the HTTP and WebSocket service; 0 takes any free one.',
  },
  {
    flag: 'host',
    value: 'address',
    variable: 'HOLDFAST_HOST',
    fallback: '127.0.0.1',
    meaning: 'Address to listen on; any but loopback needs HOLDFAST_TOKEN.',
  },
  {
    flag: 'data',
    value: 'folder',
    variable: 'HOLDFAST_DATA',
    fallback: '.holdfast',
    meaning: 'Folder that keeps locks and records across restarts.',
  },
  { flag: 'memory', variable: 'HOLDFAST_MEMORY', fallback: 'off', meaning: 'Keep nothing; every start is empty.' },
  {
    flag: 'table',
    value: 'name',
    variable: 'HOLDFAST_TABLE',
    fallback: defaultTableName,
    meaning: 'Name of the table; it is created where it is missing.',
  },
  {
    flag: 'engine',
    value: 'engine',
    variable: 'HOLDFAST_ENGINE',
    fallback: 'auto',
    meaning: 'auto, dynamodb-local, dynoxide, memory, or the URL of any DynamoDB endpoint.',
  },
  {
    flag: 'region',
    value: 'region',
    variable: 'HOLDFAST_REGION',
    fallback: 'us-east-1',
    meaning: 'AWS Region of the table; a local engine takes any.',
  },
  {
    flag: 'poll-ms',
    value: 'n',
    variable: 'HOLDFAST_POLL_MS',
    // Long enough that waiting costs little, and well under API Gateway's 30 s.
    fallback: '20000',
    meaning: `How long one waiting request stays open, ${pollMsMin} to ${pollMsMax}.`,
  },
] as const satisfies readonly Flag[];

type FlagName = (typeof flags)[number]['flag'];

/** What was given for a flag and by what name, so that a complaint points at what the user wrote. */
interface Given {
  text: string;
  by: string;
}

const isSwitch = (name: string): boolean =>
  name === 'help' || flags.some((entry) => entry.flag === name && !('value' in entry));

/** Reads the command line; a repeated flag counts as it was given last. */
function readFlags(args: readonly string[]): Map<string, string> {
  const { tokens } = parseArgs({
    args: [...args],
    // Not strict, so that each complaint can be one line in this service's own words.
    strict: false,
    tokens: true,
    allowPositionals: true,
    options: Object.fromEntries([
      ['help', { type: 'boolean', short: 'h' }],
      ...flags.map(({ flag }) => [flag, { type: isSwitch(flag) ? 'boolean' : 'string' }]),
    ]),
  });
  const given = new Map<string, string>();
  for (const token of tokens) {
    if (token.kind === 'positional') {
      throw new StartError(`Expected only flags, but got '${token.value}'; --help lists them.`);
    }
    if (token.kind !== 'option') continue;
    const known = token.name === 'help' || flags.some(({ flag }) => flag === token.name);
    if (!known) throw new StartError(`Unknown flag ${token.rawName}; --help lists those that there are.`);
    if (isSwitch(token.name)) {
      if (token.value !== undefined) {
        throw new StartError(`${token.rawName} takes no value, but got '${token.value}'; give the flag alone.`);
      }
      given.set(token.name, 'true');
    } else {
      if (!token.value) throw new StartError(`${token.rawName} expects a value; --help shows an example.`);
      given.set(token.name, token.value);
    }
  }
  return given;
}

function readInteger({ text, by }: Given, min: number, max: number): number {
  // Only digits: Number() would also take '1e3', '0x10' and ' '.
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw new StartError(`${by} expects a whole number from ${min} to ${max}, but got '${text}'.`);
  }
  return value;
}

function readSwitch({ text, by }: Given): boolean {
  if (text === '1' || text === 'true') return true;
  if (text === '0' || text === 'false' || text === 'off') return false;
  throw new StartError(`${by} expects 1, true, 0 or false, but got '${text}'.`);
}

const isWebUrl = (text: string): text is EndpointUrl =>
  URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);

const engineNames: ReadonlySet<string> = new Set(['auto', 'dynamodb-local', 'dynoxide', 'memory']);

function readEngine({ text, by }: Given): EngineChoice {
  if (engineNames.has(text) || isWebUrl(text)) return text as EngineChoice;
  throw new StartError(`${by} expects auto, dynamodb-local, dynoxide, memory or an http(s) URL, but got '${text}'.`);
}

function readMatch({ text, by }: Given, pattern: RegExp, expected: string): string {
  if (pattern.test(text)) return text;
  throw new StartError(`${by} expects ${expected}, but got '${text}'.`);
}

/** Whether only this machine can reach a server that listens on the host. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));

function readHost({ text, by }: Given, token: string | undefined): string {
  if (isIP(text) === 0 && !/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(text)) {
    throw new StartError(`${by} expects an IP address or a host name, but got '${text}'.`);
  }
  if (!isLoopback(text) && token === undefined) {
    throw new StartError(`${by} ${text} can be reached by others: set HOLDFAST_TOKEN, or listen on 127.0.0.1.`);
  }
  return text;
}

function readToken(text: string | undefined): string | undefined {
  if (!text) return undefined;
  // It travels in an Authorization header, where a space or a line break would end it. The message must not show it.
  if (!/^[\x21-\x7e]+$/.test(text)) throw new StartError('HOLDFAST_TOKEN expects printable ASCII without spaces.');
  return text;
}

function readUrl(variable: string, text: string | undefined): string | undefined {
  if (!text) return undefined;
  if (!isWebUrl(text)) throw new StartError(`${variable} expects an http(s) URL, but got '${text}'.`);
  return text;
}

/** Reads the options of the local service: a flag wins over its variable, and an empty variable counts as none. */
export function readOptions(args: readonly string[], env: Environment): LocalOptions {
  const byFlag = readFlags(args);
  const help = byFlag.has('help');
  const given = (name: FlagName): Given => {
    const entry = flags.find(({ flag }) => flag === name) as Flag;
    const flagged = byFlag.get(name);
    if (flagged !== undefined) return { text: flagged, by: `--${name}` };
    // Who asks for help gets it, also where a variable is wrong: that may be why they ask.
    return { text: (!help && env[entry.variable]) || entry.fallback, by: entry.variable };
  };
  if (byFlag.has('memory') && byFlag.has('data')) {
    throw new StartError('--memory keeps nothing and --data names where to keep it: give one of the two.');
  }
  const token = help ? undefined : readToken(env.HOLDFAST_TOKEN);
  const eventsUrl = help ? undefined : readUrl('HOLDFAST_EVENTS_URL', env.HOLDFAST_EVENTS_URL);
  const tasksUrl = help ? undefined : readUrl('HOLDFAST_TASKS_URL', env.HOLDFAST_TASKS_URL);
  return {
    help,
    port: readInteger(given('port'), 0, 65_535),
    host: readHost(given('host'), token),
    dataFolder: given('data').text,
    // A folder on the command line is more deliberate than a variable that was set once for the whole shell.
    memory: !byFlag.has('data') && readSwitch(given('memory')),
    table: readMatch(given('table'), /^[a-zA-Z0-9_.-]{3,255}$/, '3 to 255 letters, digits, _, - or .'),
    engine: readEngine(given('engine')),
    region: readMatch(given('region'), /^[a-z]{2,}(-[a-z]+)+-\d+$/, 'a Region such as us-east-1'),
    pollMs: readInteger(given('poll-ms'), pollMsMin, pollMsMax),
    ...(token !== undefined && { token }),
    ...(eventsUrl !== undefined && { eventsUrl }),
    ...(tasksUrl !== undefined && { tasksUrl }),
  };
}

export function usage(): string {
  const rows = flags.map((entry: Flag) => {
    const left = `--${entry.flag}${entry.value ? ` <${entry.value}>` : ''}`;
    return `  ${left.padEnd(18)} ${entry.variable.padEnd(17)} ${entry.fallback.padEnd(10)} ${entry.meaning}`;
  });
  return `Usage: npm start -- [flags]

Starts the lock service on this machine: engine, table, HTTP and WebSocket.

  ${'Flag'.padEnd(18)} ${'or variable'.padEnd(17)} ${'default'.padEnd(10)}
${rows.join('\n')}
  ${'--help, -h'.padEnd(47)} Show this text.

Variables without a flag:
  HOLDFAST_TOKEN       Secret that requests must carry as 'Authorization: Bearer …'.
  HOLDFAST_EVENTS_URL  http(s) URL to which events are posted.
  HOLDFAST_TASKS_URL   Endpoint of Step Functions Local, which answers task tokens.

Engines: auto runs DynamoDB Local if Java 17 or newer is found, else dynoxide, else the built-in engine (memory),
which keeps nothing. For DynamoDB itself give its https URL; credentials then come from the usual AWS chain.

Examples:
  npm start -- --port 0 --memory
  npm start -- --engine https://dynamodb.eu-west-1.amazonaws.com --region eu-west-1 --table my-locks
`;
}
