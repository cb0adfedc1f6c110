import { describe, expect, it } from 'vitest';
import { readArguments } from '../../../src/cli/arguments.ts';
import { commands } from '../../../src/cli/commands/index.ts';
import { readLockOptions } from '../../../src/cli/commands/lease-flags.ts';
import { UsageError } from '../../../src/cli/failure.ts';
import { didYouMean, editDistance } from '../../../src/cli/suggestion.ts';

const read = (name: string, ...args: string[]) => {
  const command = commands.find((each) => each.name === name);
  if (command === undefined) throw new Error(`there is no ${name}`);
  return readArguments(command, args);
};

describe('readArguments', () => {
  it('reads flags on either side of the operand, and leaves the command after -- alone', () => {
    const given = read('run', '--wait=5s', 'job', '--lease', '1m', '--', 'grep', '--help', '--', 'x');
    expect(given.operand('lock')).toBe('job');
    expect(given.command).toEqual(['grep', '--help', '--', 'x']);
    expect(readLockOptions(given)).toMatchObject({ waitMs: 5_000, leaseMs: 60_000 });
    expect(given.has('help')).toBe(false);
  });

  it('takes a value that begins with dashes if it is no flag, because some leases do', () => {
    for (const leaseId of ['-abcdefghijklmnopq', '--bcdefghijklmnopq', '--------------------'])
      expect(read('renew', 'job', '--lease-id', leaseId, '--json').text('lease-id')).toBe(leaseId);
  });

  it('takes all remaining words if several are wanted', () => {
    expect(read('multi acquire', 'a', '--wait', '1s', 'b', 'c').operands('locks')).toEqual(['a', 'b', 'c']);
  });

  it.each([
    [['run'], '<lock> is missing'],
    [['run', 'job', 'echo'], 'Put the command to run after --.'],
    [['run', 'job'], 'The command to run is missing'],
    [['run', 'job', '--wiat', '5s', '--', 'x'], "Unknown flag --wiat. Did you mean '--wait'?"],
    [['run', 'job', '-x', '--', 'x'], 'Unknown flag -x.'],
    [['run', 'job', '--wait', '--', 'x'], '--wait expects <duration>.'],
    [['run', 'job', '--wait', '--shared', '--', 'x'], '--wait expects <duration>.'],
    [['run', 'job', '--shared=yes', '--', 'x'], "--shared takes no value, but got 'yes'."],
    [['run', 'job', '--tier', 'efficient', '--', 'x'], "correctness or efficiency, but got 'efficient'"],
    [['inspect', 'a', 'b'], "Expected nothing more, but got 'b'."],
    [['completion', 'tcsh'], '<shell> expects bash, zsh, fish'],
  ])('refuses %j', ([name = '', ...args], message) => {
    expect(() => read(name, ...args)).toThrow(UsageError);
    expect(() => read(name, ...args)).toThrow(message);
  });

  it.each([
    [['--wait', '16m'], '--wait expects from 0ms to 15m'],
    [['--lease', '10ms'], '--lease expects from 1s to 1d'],
    [['--limit', '0'], '--limit expects a whole number from 1 to 1000'],
    [['--limit', '1e2'], '--limit expects a whole number'],
    [['--limit', '2', '--permits', '3'], '--permits expects a whole number from 1 to 2'],
    [['--shared', '--limit', '2'], 'give one kind'],
    [['--meta', 'x'], "--meta expects key=value, but got 'x'"],
  ])('refuses a value that the service would refuse: %j', (flags, message) => {
    expect(() => readLockOptions(read('acquire', 'job', ...flags))).toThrow(message);
  });
});

describe('didYouMean', () => {
  it('suggests a close word, and nothing if no word is close', () => {
    expect(didYouMean('inpsect', ['inspect', 'list'])).toBe(" Did you mean 'inspect'?");
    expect(didYouMean('--js', ['--json', '--url'])).toBe(" Did you mean '--json'?");
    expect(didYouMean('frobnicate', ['inspect', 'list'])).toBe('');
  });

  it('counts single edits, a swap as one', () => {
    expect(editDistance('kitten', 'sitting')).toBe(3);
    expect(editDistance('rnu', 'run')).toBe(1);
    expect(editDistance('', 'abc')).toBe(3);
  });
});
