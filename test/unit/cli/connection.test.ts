/** Which service a command calls, as whom, and for how long. */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readArguments } from '../../../src/cli/arguments.ts';
import type { Command } from '../../../src/cli/command.ts';
import { commands } from '../../../src/cli/commands/index.ts';
import { connect } from '../../../src/cli/connection.ts';
import { UsageError } from '../../../src/cli/failure.ts';

const inspect = commands.find(({ name }) => name === 'inspect') as Command;

/** Takes connections and never answers. */
const silent = createServer(() => {});
beforeAll(() => once(silent.listen(0, '127.0.0.1'), 'listening'));
afterAll(() => silent.close());

const serviceOf = (flags: readonly string[], env: NodeJS.ProcessEnv = {}) => {
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  return connect(readArguments(inspect, ['a', ...flags]), { HOLDFAST_URL: url, ...env }).service;
};

/** How long the service was given for its answer, as the failure says. */
async function patienceMs(asked: Promise<unknown>): Promise<number> {
  const { message } = await asked.then(
    () => expect.unreachable(),
    (error: Error) => error,
  );
  return Number(/did not answer within (\d+) ms/.exec(message)?.[1]);
}

describe('--timeout', () => {
  it('is how long a command tries to get an answer, also an acquire that does not wait', async () => {
    const service = serviceOf(['--timeout', '400ms'], { HOLDFAST_TIMEOUT: '1h' });
    for (const ask of [() => service.inspect('a'), () => service.acquireLease('a', {})]) {
      const givenMs = await patienceMs(ask());
      // What the call needed before it was sent does not count.
      expect(givenMs).toBeGreaterThan(200);
      expect(givenMs).toBeLessThanOrEqual(400);
    }
  });

  it('is five seconds by default, and can be set by its variable', async () => {
    const { core } = serviceOf([]) as unknown as { core: { patience: object } };
    expect(core.patience).toEqual({ requestMs: 10_000, retryMs: 5_000, tryMs: 2_500, releaseMs: 5_000 });
    expect(await patienceMs(serviceOf([], { HOLDFAST_TIMEOUT: '100ms' }).inspect('a'))).toBeLessThanOrEqual(100);
  });

  it('is refused if it is no duration, or no time to answer in', () => {
    expect(() => serviceOf(['--timeout', 'soon'])).toThrow(UsageError);
    expect(() => serviceOf([], { HOLDFAST_TIMEOUT: '0' })).toThrow('HOLDFAST_TIMEOUT expects from 100ms to 1h');
  });
});

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
