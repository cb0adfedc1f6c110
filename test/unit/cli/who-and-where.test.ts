/** Which service a command calls, and as whom. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readArguments } from '../../../src/cli/arguments.ts';
import type { Command } from '../../../src/cli/command.ts';
import { commands } from '../../../src/cli/commands/index.ts';
import { connect } from '../../../src/cli/connection.ts';

function fileWith(text: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'holdfast-cli-')), 'token');
  writeFileSync(path, text);
  return path;
}

const list = commands.find(({ name }) => name === 'list') as Command;
const connected = (flags: readonly string[], env: NodeJS.ProcessEnv = {}) => connect(readArguments(list, flags), env);

describe('the connection of a command', () => {
  it.each([
    ['its defaults', [], {}, { url: 'http://127.0.0.1:4100', namespace: 'default' }],
    ['its variables', [], { HOLDFAST_NAMESPACE: 'n', HOLDFAST_URL: 'http://h' }, { url: 'http://h', namespace: 'n' }],
    ['empty variables as unset', [], { HOLDFAST_NAMESPACE: '', HOLDFAST_URL: '' }, { namespace: 'default' }],
    ['its flags first', ['-n', 'flag'], { HOLDFAST_NAMESPACE: 'n' }, { namespace: 'flag' }],
    ['the owner of the environment', [], { HOLDFAST_OWNER: 'night shift' }, { owner: 'night shift' }],
  ] as const)('takes %s', (_, flags, env, expected) => {
    expect(connected(flags, env)).toMatchObject(expected);
  });

  it('reads a token from a file, with or without a line break at its end, and never shows it', () => {
    expect(() => connected(['--token-file', fileWith('s3cret\n')])).not.toThrow();
    for (const given of [{ HOLDFAST_TOKEN: 's3cret two' }, { HOLDFAST_TOKEN: 's3cret\n' }]) {
      expect(() => connected([], given)).toThrow(
        /^HOLDFAST_TOKEN expects a token of printable ASCII without spaces\.$/,
      );
    }
  });

  it('takes one way to say who the caller is', () => {
    expect(() => connected(['--sigv4', '--token-file', fileWith('x')])).toThrow('give only one');
  });
});
