import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dynamoDbLocalCommand, findJava } from '../../../src/local/engine/dynamodb-local.ts';
import { dynoxideCommand } from '../../../src/local/engine/dynoxide.ts';
import { startEngine } from '../../../src/local/engine.ts';
import { refusingDynamoDB } from '../../support/refusing-dynamodb.ts';

/** A folder with a program called java that lists these modules. */
function javaHome(...modules: string[]): string {
  const home = mkdtempSync(join(tmpdir(), 'holdfast-java-'));
  mkdirSync(join(home, 'bin'));
  const java = join(home, 'bin', 'java');
  writeFileSync(java, `#!/bin/sh\n${modules.map((name) => `echo ${name}`).join('\n')}\n`);
  chmodSync(java, 0o755);
  return home;
}

describe('findJava', () => {
  it.each([
    ['a runtime of version 17', ['java.base@17.0.9'], { major: 17, runsSource: false }],
    ['a JDK', ['java.base@21', 'jdk.compiler@21'], { major: 21, runsSource: true }],
    ['one that is too old', ['java.base@16.0.2'], undefined],
    ['a program that is no Java', ['hello'], undefined],
  ])('finds %s', async (_, modules, expected) => {
    const found = await findJava({ JAVA_HOME: javaHome(...modules), PATH: '' });
    expect(found).toEqual(expected && { ...expected, file: expect.stringContaining('bin/java') });
  });

  it('takes the one on the path if that of JAVA_HOME is too old', async () => {
    const newer = join(javaHome('java.base@17'), 'bin');
    // The script itself needs a shell.
    const env = { JAVA_HOME: javaHome('java.base@11'), PATH: `${newer}:/bin:/usr/bin` };
    expect(await findJava(env)).toMatchObject({ file: 'java', major: 17 });
  });
});

describe('the command of an engine', () => {
  const storage = { port: 4101, folder: '/data/of/this/service' };
  const java = (runsSource: boolean) => ({ file: 'java', major: 17, runsSource });

  // By these two, a service finds an engine that outlived its service and its guardian.
  it.each([
    ['DynamoDB Local on a JDK', dynamoDbLocalCommand(java(true), '/lib/DynamoDBLocal.jar', storage)],
    ['DynamoDB Local on a plain runtime', dynamoDbLocalCommand(java(false), '/lib/DynamoDBLocal.jar', storage)],
    ['dynoxide', dynoxideCommand('/bin/dynoxide', storage)],
  ])('names the engine and its folder: %s', (_, { file, args, mark }) => {
    const line = [file, ...args].join(' ');
    expect(line).toContain(mark);
    expect(line).toContain(storage.folder);
  });
});

describe('an endpoint that is named', () => {
  it('is used although the caller may not list its tables: it was DynamoDB that refused', async () => {
    const engine = await refusingDynamoDB('AccessDeniedException');
    expect(await startEngine({ engine, region: 'us-east-1', memory: true })).toMatchObject({ name: 'remote' });
  });

  it('is refused if it answers anything else', async () => {
    const engine = await refusingDynamoDB('UnrecognizedClientException');
    await expect(startEngine({ engine, region: 'us-east-1', memory: true })).rejects.toThrow('Expected DynamoDB at');
  });
});
