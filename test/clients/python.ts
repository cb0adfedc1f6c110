/** The Python of this machine. Users of the repository may have none: then suites that need it are skipped, loudly. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const pythonFolder = fileURLToPath(new URL('../../clients/python', import.meta.url));

/** What a program needs to import the client from this repository. */
export const pythonEnv = {
  PYTHONPATH: `${pythonFolder}/src`,
  // Nothing is written beside the sources.
  PYTHONDONTWRITEBYTECODE: '1',
};

const succeeds = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;

export const hasPython = succeeds('python3', '-c', 'import sys; sys.exit(sys.version_info < (3, 10))');
export const hasPackage = (name: string): boolean => hasPython && succeeds('python3', '-c', `import ${name}`);

/** A suite that is skipped must not look like one that passed. */
export const warnSkipped = (what: string, install: string): void =>
  console.warn(`\n*** SKIPPED: ${what} Install it: ${install}\n`);
