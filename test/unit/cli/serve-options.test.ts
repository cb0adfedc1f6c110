import { describe, expect, it } from 'vitest';
import { readArguments } from '../../../src/cli/arguments.ts';
import { serve } from '../../../src/cli/commands/serve.ts';
import { UsageError } from '../../../src/cli/failure.ts';
import { helpOf } from '../../../src/cli/help.ts';
import { readServeOptions } from '../../../src/cli/serve-options.ts';
import { isLoopback } from '../../../src/local/options.ts';

const readOptions = (args: string[], env: NodeJS.ProcessEnv) => readServeOptions(readArguments(serve, args), env);

function refusal(args: string[], env: NodeJS.ProcessEnv = {}): string {
  try {
    readOptions(args, env);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    const { message } = error as UsageError;
    expect(message).not.toContain('\n');
    return message;
  }
  throw new Error(`expected a refusal of ${JSON.stringify({ args, env })}`);
}

describe('the options of serve', () => {
  it('starts on loopback with a folder and no token when nothing is given', () => {
    expect(readOptions([], {})).toEqual({
      port: 4100,
      host: '127.0.0.1',
      dataFolder: '.holdfast',
      memory: false,
      table: 'holdfast',
      engine: 'auto',
      region: 'us-east-1',
      pollMs: 20_000,
      consoleMayChange: false,
    });
  });

  it('reads every flag', () => {
    const args =
      '--port 0 --host ::1 --data /d --table abc --engine dynoxide --region eu-west-1 --poll-ms=100 --allow-revoke';
    expect(readOptions(args.split(' '), {})).toEqual({
      port: 0,
      host: '::1',
      dataFolder: '/d',
      memory: false,
      table: 'abc',
      engine: 'dynoxide',
      region: 'eu-west-1',
      pollMs: 100,
      consoleMayChange: true,
    });
  });

  it('reads every variable', () => {
    const env = {
      HOLDFAST_PORT: '65535',
      HOLDFAST_HOST: '0.0.0.0',
      HOLDFAST_DATA: '/d',
      HOLDFAST_MEMORY: '1',
      HOLDFAST_TABLE: 'abc',
      HOLDFAST_ENGINE: 'https://dynamodb.us-gov-west-1.amazonaws.com',
      HOLDFAST_REGION: 'us-gov-west-1',
      HOLDFAST_POLL_MS: '29000',
      HOLDFAST_ALLOW_REVOKE: '1',
      HOLDFAST_TOKEN: 's3cret',
      HOLDFAST_EVENTS_URL: 'http://127.0.0.1:9/events',
    };
    expect(readOptions([], env)).toEqual({
      port: 65_535,
      host: '0.0.0.0',
      dataFolder: '/d',
      memory: true,
      table: 'abc',
      engine: 'https://dynamodb.us-gov-west-1.amazonaws.com',
      region: 'us-gov-west-1',
      pollMs: 29_000,
      consoleMayChange: true,
      token: 's3cret',
      eventsUrl: 'http://127.0.0.1:9/events',
    });
  });

  it('lets a flag win over its variable, and the last of two flags over the first', () => {
    expect(readOptions(['--port', '1', '--port', '2'], { HOLDFAST_PORT: '3' }).port).toBe(2);
  });

  it('lets a folder on the command line win over memory in the environment', () => {
    expect(readOptions(['--data', '/d'], { HOLDFAST_MEMORY: 'true' })).toMatchObject({
      memory: false,
      dataFolder: '/d',
    });
    expect(readOptions(['--memory'], { HOLDFAST_DATA: '/d' }).memory).toBe(true);
    expect(refusal(['--memory', '--data', '/d'])).toContain('give one of the two');
  });

  it('takes an empty variable for one that is not set', () => {
    expect(readOptions([], { HOLDFAST_PORT: '', HOLDFAST_TOKEN: '', HOLDFAST_EVENTS_URL: '' })).toEqual(
      readOptions([], {}),
    );
  });

  it.each(['-1', '65536', '80a', '1e3', '0x10', ' ', '1.5'])('refuses the port %j', (port) => {
    expect(refusal([`--port=${port}`])).toBe(`--port expects a whole number from 0 to 65535, but got '${port}'.`);
  });

  it('names the variable when the variable is wrong', () => {
    expect(refusal([], { HOLDFAST_POLL_MS: '29001' })).toBe(
      "HOLDFAST_POLL_MS expects a whole number from 100 to 29000, but got '29001'.",
    );
    expect(refusal(['--poll-ms', '99'])).toContain('--poll-ms expects');
    expect(refusal([], { HOLDFAST_MEMORY: 'yes' })).toContain(
      "HOLDFAST_MEMORY expects 1, true, 0 or false, but got 'yes'",
    );
    expect(refusal([], { HOLDFAST_EVENTS_URL: 'ftp://x' })).toContain(
      'HOLDFAST_EVENTS_URL expects a URL that begins with http:',
    );
  });

  it('refuses flags that it does not know', () => {
    expect(refusal(['--prot', '1'])).toBe("Unknown flag --prot. Did you mean '--port'?");
    expect(refusal(['--token', 'abc'])).toContain('Unknown flag --token');
    expect(refusal(['serve'])).toContain("but got 'serve'");
    expect(refusal(['--port'])).toBe('--port expects <n>.');
    expect(refusal(['--data='])).toBe('--data expects <folder>.');
    expect(refusal(['--memory=yes'])).toContain('--memory takes no value');
    expect(refusal(['--engine', 'postgres'])).toContain(
      'expects auto, dynamodb-local, dynoxide, memory or an http(s) URL',
    );
    expect(refusal(['--engine', 'ftp://host'])).toContain('but got');
    expect(refusal(['--table', 'ab'])).toContain('3 to 255');
    expect(refusal(['--region', 'Ireland'])).toContain('such as us-east-1');
    expect(refusal(['--host', 'a b'])).toContain('an IP address or a host name');
  });

  it.each(['0.0.0.0', '::', '192.168.1.5', 'example.com', '127.example.com'])('refuses %s without a token', (host) => {
    expect(refusal(['--host', host])).toContain('set HOLDFAST_TOKEN');
    expect(readOptions(['--host', host], { HOLDFAST_TOKEN: 'abc' }).host).toBe(host);
  });

  it('refuses a token that no header can carry, without repeating it', () => {
    const message = refusal([], { HOLDFAST_TOKEN: 'two words' });
    expect(message).toContain('HOLDFAST_TOKEN expects');
    expect(message).not.toContain('words');
  });
});

describe('isLoopback', () => {
  it('holds for the addresses that only this machine reaches', () => {
    expect(['127.0.0.1', '127.1.2.3', '::1', 'localhost'].filter(isLoopback)).toHaveLength(4);
    expect(['0.0.0.0', '::', '10.0.0.1', '127.example.com', ''].filter(isLoopback)).toEqual([]);
  });
});

describe('the URLs of a developer', () => {
  it('come from their own variables, and must be web addresses', () => {
    const urls = ['events', 'tasks', 'callbacks'].map((name) => [name, `http://${name}.localhost:1`] as const);
    const env = Object.fromEntries(urls.map(([name, url]) => [`HOLDFAST_${name.toUpperCase()}_URL`, url]));
    expect(readOptions([], env)).toMatchObject(Object.fromEntries(urls.map(([name, url]) => [`${name}Url`, url])));
    for (const variable of Object.keys(env)) {
      expect(() => readOptions([], { [variable]: 'localhost:1' })).toThrow(
        `${variable} expects a URL that begins with http:`,
      );
    }
  });
});

describe('the help of serve', () => {
  it('names every flag with its variable and default', () => {
    const help = helpOf(serve);
    for (const row of [
      /^Usage: holdfast serve \[flags\]$/m,
      /--port <n> .* HOLDFAST_PORT, else 4100\./,
      /--host <address> .* HOLDFAST_HOST, else 127\.0\.0\.1\./,
      /--data <folder> .* HOLDFAST_DATA, else \.holdfast\./,
      /--memory .* HOLDFAST_MEMORY, else off\./,
      /--table <name> .* HOLDFAST_TABLE, else holdfast\./,
      /--engine <engine> .* HOLDFAST_ENGINE, else auto\./,
      /--region <region> .* HOLDFAST_REGION, else us-east-1\./,
      /--poll-ms <n> .* HOLDFAST_POLL_MS, else 20000\./,
      /HOLDFAST_TOKEN /,
      /HOLDFAST_EVENTS_URL /,
      /HOLDFAST_TASKS_URL /,
    ]) {
      expect(help).toMatch(row);
    }
  });
});
