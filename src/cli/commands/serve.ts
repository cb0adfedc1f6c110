import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HttpTransport } from '../../client/http-transport.ts';
import { bearer } from '../../client/index.ts';
import { Console, newConsoleToken } from '../../console/server/console.ts';
import type { LocalOptions } from '../../local/options.ts';
import type { Running } from '../../local/serve.ts';
import type { Log } from '../../tools/log.ts';
import type { Command, Invocation } from '../command.ts';
import { exitCodes } from '../exit-codes.ts';
import { Failure } from '../failure.ts';
import { quietLog } from '../serve-log.ts';
import { readLogHow, readServeOptions, serveFlags } from '../serve-options.ts';

/** Twice a second: a person who stops npm and starts it again does not wait longer than that. */
const parentLookMs = 500;

/** The namespace of the commands that the banner suggests, which the console shows first. */
const namespace = 'demo';

export const serve: Command = {
  name: 'serve',
  summary: 'Run the service on this machine: engine, table, HTTP and WebSocket.',
  flags: serveFlags,
  isOffline: true,
  details: `Each flag can also be set by the variable beside it. These variables have no flag:
  HOLDFAST_TOKEN       Secret that requests must carry as 'Authorization: Bearer …'.
  HOLDFAST_EVENTS_URL  http(s) URL to which events are posted.
  HOLDFAST_TASKS_URL   Endpoint of Step Functions Local, which answers task tokens.
  HOLDFAST_CALLBACKS_URL
                       Endpoint with Lambda's API, which completes callbacks of durable functions.

The engine 'auto' is DynamoDB Local if it is installed and Java 17 or newer is found, else one that only needs Node. Both
keep the folder. For DynamoDB itself give its https URL; the credentials then come from the usual AWS chain.
'npm start --' takes the same flags.`,
  examples: [
    'holdfast serve --port 0 --memory',
    'holdfast serve --engine https://dynamodb.eu-west-1.amazonaws.com --region eu-west-1 --table my-locks',
  ],
  async run(invocation) {
    const options = readServeOptions(invocation.given, invocation.env);
    const stopAsked = askedToStop(invocation.env);
    const { given, env, terminal } = invocation;
    const log = readLogHow(given, env, terminal.isInteractive) === 'quiet' ? quietLog(terminal) : undefined;
    const running = await start(options, log);
    showBanner(running, mountConsole(running, options), options, invocation);
    const failure = await Promise.race([stopAsked, running.failed]);
    await running.stop();
    log?.end();
    if (failure !== undefined) throw new Failure('engine', exitCodes.unavailable, failure);
  },
};

async function start(options: LocalOptions, log: Log | undefined): Promise<Running> {
  // Imported only here, because the service loads an engine. Commands that only take a lock should not wait for that.
  const local = await import('../../local/serve.ts');
  try {
    return await local.serve(options, log);
  } catch (error) {
    if (!(error instanceof local.StartError)) throw error;
    throw new Failure('start', exitCodes.unavailable, error.message, { cause: error });
  }
}

/**
 * Ctrl-C and SIGTERM stop the service cleanly. A second signal ends it at once. The service also stops if the reader of
 * its output is gone. If npm started it, it stops when npm is gone: a SIGTERM to npm ends only npm and its shell.
 */
function askedToStop(env: NodeJS.ProcessEnv): Promise<undefined> {
  return new Promise((resolve) => {
    process.stdout.once('error', () => {
      process.stdout.on('error', () => {});
      resolve(undefined);
    });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(130));
        resolve(undefined);
      });
    }
    if (env.npm_lifecycle_event === undefined) return;
    const parent = process.ppid;
    setInterval(() => process.ppid !== parent && resolve(undefined), parentLookMs).unref();
  });
}

/** Serves the console on the service's own port. Returns its address, which contains the token. */
export function mountConsole(running: Running, options: LocalOptions): string {
  const { url } = running;
  const token = consoleToken(options);
  running.mount(
    new Console({
      // The console calls the service over HTTP like every other caller, so the page shows what callers get.
      transport: new HttpTransport({ url, auth: options.token === undefined ? undefined : bearer(options.token) }),
      serviceUrl: url,
      auth: options.token === undefined ? 'none' : 'bearer',
      token,
      namespace,
      namespaces: () => running.namespaces(),
      behindMs: () => running.behindMs(),
      mayChange: options.consoleMayChange,
    }),
  );
  return `${url}/console?token=${token}`;
}

/**
 * Kept with the data, so that an open page still works after a restart. Anybody who can read this file can read the
 * data too.
 */
function consoleToken({ memory, dataFolder }: LocalOptions): string {
  const token = newConsoleToken();
  if (memory) return token;
  const file = join(dataFolder, 'console-token');
  try {
    const kept = readFileSync(file, 'utf8').trim();
    // A file that was cut short or emptied must not become a token that can be guessed.
    if (kept.length >= token.length) return kept;
  } catch {
    // No token was saved yet.
  }
  mkdirSync(dataFolder, { recursive: true });
  writeFileSync(file, `${token}\n`, { mode: 0o600 });
  return token;
}

function showBanner(
  { url, engine }: Running,
  consoleUrl: string,
  options: LocalOptions,
  { terminal }: Invocation,
): void {
  const { memory, dataFolder, token, region, table } = options;
  const data = memory ? null : engine.name === 'remote' ? engine.endpoint : dataFolder;
  const { name, description, endpoint } = engine;
  terminal.result({ url, console: consoleUrl, engine: { name, endpoint }, data, region, table }, () => {
    const auth = token === undefined ? '' : ` -H "authorization: Bearer $HOLDFAST_TOKEN"`;
    const json = "-H 'content-type: application/json'";
    const lock = `${url}/v1/${namespace}/locks/wallet:42`;
    for (const line of [
      `Holdfast is listening on ${url}`,
      `  engine  ${description}`,
      `          at ${endpoint}, for direct mode: region ${region}, table ${table}`,
      `  data    ${data ?? 'in memory, gone when this stops'}`,
      `  watch   ${url.replace(/^http/, 'ws')}/v1/watch?namespace=${namespace}&prefix=wallet`,
      `  console ${consoleUrl}`,
      'Try:',
      `  curl -s${auth} ${url}/v1/health`,
      `  curl -s${auth} ${json} -d '{"leaseMs":5000}' ${lock}/acquire`,
      `  curl -s${auth} ${lock}`,
    ]) {
      terminal.print(line);
    }
  });
}
