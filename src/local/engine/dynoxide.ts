import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { EngineCommand, EngineStorage } from './guarded.ts';

/** The binary for this platform, if npm installed its optional package. */
export function findDynoxide(): string | undefined {
  try {
    const name = `@dynoxide/${process.platform}-${process.arch}/package.json`;
    const binary = join(dirname(createRequire(import.meta.url).resolve(name)), 'dynoxide');
    accessSync(binary, constants.X_OK);
    return binary;
  } catch {
    return undefined;
  }
}

export function dynoxideCommand(binary: string, { port, folder }: EngineStorage): EngineCommand {
  return {
    file: binary,
    args: [
      'serve',
      '--host',
      '127.0.0.1',
      '--port',
      String(port),
      ...(folder === undefined ? [] : ['--db-path', join(folder, 'dynoxide.db')]),
    ],
    mark: binary,
  };
}
