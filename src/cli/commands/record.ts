import { text as readAll } from 'node:stream/consumers';
import type { Expected } from '../../client/index.ts';
import type { Given } from '../arguments.ts';
import type { Command, Flags } from '../command.ts';
import { exitCodes } from '../exit-codes.ts';
import { UsageError } from '../failure.ts';

const ifVersion: Flags = { 'if-version <n>': 'Only if the record has this version.' };
const presentAndFence: Flags = {
  'if-present': 'Only if the record exists, in any version.',
  'fence <n>': 'The fence of the lock that guards the record; in a command under holdfast run: "$HOLDFAST_FENCE".',
};

const recordGet: Command = {
  name: 'record get',
  summary: 'Read a record.',
  operands: [{ name: 'key' }],
  flags: { value: 'Print the value alone, as JSON.' },
  details: 'Exits with 1 if there is no such record.',
  examples: ['holdfast record get config', 'holdfast record get config --value | jq .retries'],
  async run({ given, terminal, connection }) {
    const key = given.operand('key');
    const record = await connection().service.record(key).get();
    if (record === undefined) {
      terminal.note(`there is no record ${key}`);
      return exitCodes.no;
    }
    if (given.has('value')) terminal.printJson(record.value);
    else {
      terminal.result(record, () => {
        const floor = record.fence === null ? '' : `  fence floor ${record.fence}`;
        terminal.print(
          `${terminal.styled('bold', key)}  version ${record.version}${floor}  updated ${record.updatedAt}`,
        );
        terminal.print(JSON.stringify(record.value, null, 2));
      });
    }
    return exitCodes.ok;
  },
};

const recordPut: Command = {
  name: 'record put',
  summary: 'Write a record if it is as expected.',
  operands: [{ name: 'key' }, { name: 'json' }],
  flags: { ...ifVersion, 'if-absent': 'Only if the record does not exist.', ...presentAndFence },
  details: 'The value is JSON; - reads it from the standard input.',
  examples: [
    'holdfast record put config \'{"retries":3}\' --if-absent',
    'holdfast record put config \'{"retries":5}\' --if-version 1',
    'holdfast record put wallet:42 - --if-present --fence "$HOLDFAST_FENCE" < wallet.json',
  ],
  async run({ given, terminal, connection }) {
    const key = given.operand('key');
    const expected = readExpected(given);
    const options = { fence: given.integer('fence', 0, Number.MAX_SAFE_INTEGER) };
    const value = await readValue(given.operand('json'));
    const written = await connection().service.record(key).put(value, expected, options);
    terminal.result(written, () => terminal.print(`${key} written, version ${written.version}`));
  },
};

const recordDelete: Command = {
  name: 'record delete',
  summary: 'Delete a record if it is as expected.',
  operands: [{ name: 'key' }],
  flags: { ...ifVersion, ...presentAndFence },
  details: 'If the record is created again, its version and fence floor continue from there.',
  examples: ['holdfast record delete config --if-version 2'],
  async run({ given, terminal, connection }) {
    const key = given.operand('key');
    const expected = readExpected(given) as Exclude<Expected, 'absent'>;
    const options = { fence: given.integer('fence', 0, Number.MAX_SAFE_INTEGER) };
    const written = await connection().service.record(key).delete(expected, options);
    terminal.result(written, () => terminal.print(`${key} deleted`));
  },
};

/** A write without an expectation could overwrite another writer's change. So every write must say what it expects. */
function readExpected(given: Given): Expected {
  const version = given.integer('if-version', 0, Number.MAX_SAFE_INTEGER);
  const said: Expected[] = [
    ...(version === undefined ? [] : [{ version }]),
    ...(given.has('if-absent') ? (['absent'] as const) : []),
    ...(given.has('if-present') ? (['present'] as const) : []),
  ];
  const [expected] = said;
  if (expected === undefined || said.length > 1) {
    throw new UsageError('Say what the write expects to find: one of --if-version, --if-absent and --if-present.');
  }
  return expected;
}

async function readValue(text: string): Promise<unknown> {
  const json = text === '-' ? await readAll(process.stdin) : text;
  try {
    return JSON.parse(json);
  } catch (error) {
    const hint = /^[\w.-]+$/.test(json) ? ` A text needs its quotes: '"${json}"'.` : '';
    throw new UsageError(`The value is not JSON: ${(error as Error).message}.${hint}`);
  }
}

export const recordCommands: readonly Command[] = [recordGet, recordPut, recordDelete];
