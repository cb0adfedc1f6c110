import { type Command, commonFlags, connectionFlags, type Flag, listOf } from './command.ts';
import { commands } from './commands/index.ts';
import { exitCodes } from './exit-codes.ts';

const flagRow = ({ name, short, value }: Flag): string =>
  `--${name}${value === undefined ? '' : ` <${value}>`}${short === undefined ? '' : `, -${short}`}`;

function flagList(title: string, flags: readonly Flag[]): string[] {
  if (flags.length === 0) return [];
  const width = Math.max(...flags.map((flag) => flagRow(flag).length));
  return ['', `${title}:`, ...flags.map((flag) => `  ${flagRow(flag).padEnd(width)}  ${meaningOf(flag)}`)];
}

function meaningOf({ meaning, variable, fallback }: Flag): string {
  if (variable === undefined) return meaning;
  return `${meaning} ${variable}, else ${fallback}.`;
}

const operandsOf = ({ operands = [], runsCommand }: Command): string =>
  [
    ...operands.map(({ name, optional, many }) => {
      const shown = `<${name}>${many ? '…' : ''}`;
      return optional ? `[${shown}]` : shown;
    }),
    ...(runsCommand ? ['[flags] -- <command> [arguments]'] : ['[flags]']),
  ].join(' ');

export function helpOf(command: Command): string {
  return `${[
    `Usage: holdfast ${command.name} ${operandsOf(command)}`,
    '',
    command.summary,
    ...(command.details === undefined ? [] : ['', command.details]),
    ...flagList('Flags', listOf(command.flags ?? {})),
    ...(command.isOffline ? [] : flagList('Which service', connectionFlags)),
    ...flagList('Common', commonFlags),
    '',
    'Examples:',
    ...command.examples.map((example) => `  ${example}`),
  ].join('\n')}\n`;
}

/** The commands whose names begin with this word, such as those of `record`. */
export function helpOfGroup(group: string): string {
  const members = commands.filter(({ name }) => name.startsWith(`${group} `));
  return `Usage: holdfast ${group} <command>\n\n${summaries(members)}\n\n'holdfast ${group} <command> --help' explains one command.\n`;
}

const summaries = (listed: readonly Pick<Command, 'name' | 'summary'>[]): string =>
  listed.map(({ name, summary }) => `  ${name.padEnd(17)}  ${summary}`).join('\n');

export function helpOfProgram(): string {
  return `Usage: holdfast <command> [flags]

Locks with fences, from the command line.

${summaries(commands)}

Which service: --url or HOLDFAST_URL, --namespace or HOLDFAST_NAMESPACE, --token-file or HOLDFAST_TOKEN, --sigv4 for IAM.
Durations are written as 30s, 5m, 1h30m or 1500ms; a plain number means milliseconds.

Exit codes: ${exitCodes.ok} success, ${exitCodes.no} the answer is no, ${exitCodes.usage} usage, ${exitCodes.conflict} conflict, ${exitCodes.unavailable} unavailable, ${exitCodes.refused} refused, ${exitCodes.lost} lost,
${exitCodes.forbidden} not allowed. 'run', 'once' and 'elect' exit with the code of their command.

'holdfast <command> --help' explains one command, with examples.
`;
}
