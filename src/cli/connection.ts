import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { type Patience, patienceDefault } from '../client/core.ts';
import { HttpTransport } from '../client/http-transport.ts';
import { type Auth, bearer, sigv4 } from '../client/index.ts';
import type { Given } from './arguments.ts';
import { readDurationMs } from './duration.ts';
import { UsageError } from './failure.ts';
import { Service } from './service.ts';

/** The default address of the local service. */
export const defaultUrl = 'http://127.0.0.1:4100';

/** Less than a tenth of a second is shorter than many round trips. After an hour nobody waits for an answer any more. */
const timeoutMsRange = [100, 3_600_000] as const;

function readPatience(given: Given, env: NodeJS.ProcessEnv): Patience {
  const { text, by } = given.setting('timeout', env);
  const timeoutMs = readDurationMs(by, text, ...timeoutMsRange);
  return {
    requestMs: Math.max(patienceDefault.requestMs, timeoutMs),
    retryMs: timeoutMs,
    // An acquire may take this long twice after its wait: for its last retry, and for the answer to it.
    tryMs: timeoutMs / 2,
    releaseMs: timeoutMs,
  };
}

/** Never opens. The breaker is for processes with many callers. Here it would hide why the service can't be reached. */
const breaker = { failuresMax: Number.POSITIVE_INFINITY };

/** The service to call, and the caller's identity. */
export interface Connection {
  readonly url: string;
  readonly namespace: string;
  /** The name that others see as the holder or waiter. */
  readonly owner: string;
  readonly transport: HttpTransport;
  readonly service: Service;
}

export function connect(given: Given, env: NodeJS.ProcessEnv): Connection {
  const url = readUrl('--url', given.text('url')) ?? readUrl('HOLDFAST_URL', env.HOLDFAST_URL) ?? defaultUrl;
  const watchUrl = readUrl('HOLDFAST_WATCH_URL', env.HOLDFAST_WATCH_URL, ['ws:', 'wss:']);
  const namespace = given.text('namespace') ?? (env.HOLDFAST_NAMESPACE || 'default');
  const owner = given.text('owner') ?? (env.HOLDFAST_OWNER || defaultOwner());
  const transport = new HttpTransport({ url, watchUrl, auth: readAuth(given, env) });
  const service = new Service({ transport, namespace, owner, patience: readPatience(given, env), breaker });
  return { url, namespace, owner, transport, service };
}

/** It shows colleagues which person to ask and which process to look for. */
function defaultOwner(): string {
  return `${userName()}@${hostname()}:${process.pid}`.slice(-128);
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container, the user id may have no name.
    return String(process.getuid?.() ?? 'user');
  }
}

/** Undefined if there is none. An empty text counts as none. */
export function readUrl(by: string, text: string | undefined, protocols = ['http:', 'https:']): string | undefined {
  if (!text) return undefined;
  if (URL.canParse(text) && protocols.includes(new URL(text).protocol)) return text;
  throw new UsageError(`${by} expects a URL that begins with ${protocols.join('// or ')}//, but got '${text}'.`);
}

function readAuth(given: Given, env: NodeJS.ProcessEnv): Auth | undefined {
  const path = given.text('token-file');
  if (given.has('sigv4')) {
    if (path !== undefined) throw new UsageError('--sigv4 and --token-file both say who the caller is: give only one.');
    return sigv4({ region: given.text('region') });
  }
  const token = readToken(path ?? 'HOLDFAST_TOKEN', path === undefined ? env.HOLDFAST_TOKEN : readTokenFile(path));
  return token === undefined ? undefined : bearer(token);
}

/** Undefined if there is none. The message of an error must not show the token. */
export function readToken(by: string, token: string | undefined): string | undefined {
  if (!token) return undefined;
  // The token is sent in a header, and a space or a line break would end it there.
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new UsageError(`${by} expects a token of printable ASCII without spaces.`);
}

function readTokenFile(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new UsageError(`--token-file can't be read: ${(error as Error).message}`);
  }
}
