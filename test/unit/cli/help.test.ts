import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Given } from '../../../src/cli/arguments.ts';
import { readArguments } from '../../../src/cli/arguments.ts';
import { flagsOf, listOf } from '../../../src/cli/command.ts';
import { commands } from '../../../src/cli/commands/index.ts';
import { exitCodeOf, exitCodes } from '../../../src/cli/exit-codes.ts';
import { helpOf, helpOfProgram } from '../../../src/cli/help.ts';
import { Signals } from '../../../src/cli/signals.ts';
import { Terminal } from '../../../src/cli/terminal.ts';
import { problemTypes } from '../../../src/contract/problems.ts';

const document = readFileSync(new URL('../../../docs/cli.md', import.meta.url), 'utf8');

describe('help', () => {
  it('names every command, and every flag of each', () => {
    for (const command of commands) {
      expect(helpOfProgram()).toContain(`  ${command.name} `);
      for (const { name } of flagsOf(command)) expect(helpOf(command)).toContain(`--${name}`);
    }
  });

  it('fits into a terminal of 130 columns', () => {
    const lines = [helpOfProgram(), ...commands.map(helpOf)].flatMap((text) => text.split('\n'));
    expect(lines.filter(({ length }) => length > 130)).toEqual([]);
  });

  it.each(commands.map((command) => [command.name, command] as const))(
    'gives examples of %s that are valid',
    (name, command) => {
      expect(command.examples.length).toBeGreaterThan(0);
      for (const example of command.examples) {
        // Only the words between `holdfast` and the next operator of the shell.
        const line = /holdfast ([^|<>;]*)/.exec(example.replace(/\)"?$/, ''))?.[1] ?? '';
        const words = (line.match(/'[^']*'|"[^"]*"|\S+/g) ?? []).map((word) => word.replace(/^(['"])(.*)\1$/, '$2'));
        expect(words.join(' ')).toMatch(new RegExp(`^${name}\\b`));
        expect(() => readArguments(command, words.slice(name.split(' ').length)), example).not.toThrow();
      }
    },
  );
});

describe('docs/cli.md', () => {
  it('describes every command and every flag', () => {
    for (const { name, flags = {} } of commands) {
      expect(document).toContain(`holdfast ${name}`);
      for (const flag of listOf(flags)) expect(document, `${name} --${flag.name}`).toContain(`--${flag.name}`);
    }
  });

  it('describes every exit code', () => {
    for (const code of Object.values(exitCodes)) expect(document).toMatch(new RegExp(`\\| ${code} \\|`));
  });
});

describe('exitCodeOf', () => {
  it('has an answer for every code of the service that is neither success nor a shell code', () => {
    for (const code of Object.keys(problemTypes) as (keyof typeof problemTypes)[]) {
      const exitCode = exitCodeOf(code);
      expect(exitCode === exitCodes.no || (exitCode >= 64 && exitCode < 80), code).toBe(true);
    }
  });

  it.each([
    ['lock-held', 75],
    ['wait-timeout', 75],
    ['queue-full', 75],
    ['throttled', 75],
    ['deadlock', 75],
    ['lease-lost', 76],
    ['session-lost', 76],
    ['stale-fence', 65],
    ['version-mismatch', 65],
    ['limit-mismatch', 65],
    ['not-found', 1],
    ['unauthorized', 77],
    ['forbidden', 77],
    ['invalid-request', 64],
    ['unavailable', 69],
  ] as const)('has an exit code for %s: %i', (code, exitCode) => {
    expect(exitCodeOf(code)).toBe(exitCode);
  });

  it('takes a code that it does not know for an internal one', () => {
    expect(exitCodeOf('from-the-future' as never)).toBe(exitCodes.internal);
  });
});

describe('completion', () => {
  async function scriptFor(shell: string): Promise<string> {
    const completion = commands.find(({ name }) => name === 'completion');
    let printed = '';
    const stdout = {
      write: (text: string) => {
        printed += text;
      },
    } as unknown as NodeJS.WriteStream;
    const terminal = new Terminal({ json: false, color: false, env: {} }, { stdout, stderr: stdout });
    const given = { operand: () => shell } as unknown as Given;
    await completion?.run({
      given,
      terminal,
      env: {},
      signals: new Signals(),
      connection: () => {
        throw new Error('not needed');
      },
    });
    return printed;
  }

  const installed = (shell: string) => spawnSync(shell, ['--version']).error === undefined;

  for (const shell of ['bash', 'zsh', 'fish']) {
    it.skipIf(!installed(shell))(`is a script that ${shell} parses`, async () => {
      const { status, stderr } = spawnSync(shell, ['-n'], { input: await scriptFor(shell), encoding: 'utf8' });
      expect(stderr).toBe('');
      expect(status).toBe(0);
    });

    it(`knows every command and flag for ${shell}`, async () => {
      const script = await scriptFor(shell);
      for (const { name, flags = {} } of commands) {
        for (const word of name.split(' ')) expect(script).toContain(word);
        for (const flag of listOf(flags))
          expect(script).toContain(shell === 'fish' ? `-l ${flag.name}` : `--${flag.name}`);
      }
    });
  }

  it.skipIf(!installed('bash'))('completes commands, their second words, flags and choices in bash', async () => {
    const script = await scriptFor('bash');
    const complete = (...words: string[]): string[] => {
      const asked = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _holdfast; echo "\${COMPREPLY[@]}"`;
      return spawnSync('bash', ['-c', `${script}\n${asked}`], { encoding: 'utf8' })
        .stdout.trim()
        .split(' ');
    };
    expect(complete('holdfast', 're')).toEqual(['renew', 'release', 'revoke', 'record']);
    expect(complete('holdfast', 'record', '')).toEqual(['get', 'put', 'delete']);
    expect(complete('holdfast', 'record', 'put', '--if')).toEqual(['--if-version', '--if-absent', '--if-present']);
    expect(complete('holdfast', 'run', 'job', '--wa')).toEqual(['--wait']);
    expect(complete('holdfast', 'list', '--state', 'h')).toEqual(['held']);
    expect(complete('holdfast', 'completion', 'z')).toEqual(['zsh']);
  });
});
