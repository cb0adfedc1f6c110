import { parseArgs } from 'node:util';
import { type Command, type Flag, flagsOf } from './command.ts';
import { readDurationMs } from './duration.ts';
import { UsageError } from './failure.ts';
import { didYouMean } from './suggestion.ts';

/** A value, and the name of the flag or variable that gave it. Error messages quote that name. */
export interface Setting {
  readonly text: string;
  readonly by: string;
}

/** The flags and operands of one command, checked against its definition. */
export class Given {
  /** The command to run: everything after `--`. */
  readonly command: readonly string[];
  readonly #known: readonly Flag[];
  readonly #flags: ReadonlyMap<string, string>;
  readonly #operands: ReadonlyMap<string, readonly string[]>;

  constructor(
    known: readonly Flag[],
    flags: ReadonlyMap<string, string>,
    operands: ReadonlyMap<string, readonly string[]>,
    command: readonly string[],
  ) {
    this.#known = known;
    this.#flags = flags;
    this.#operands = operands;
    this.command = command;
  }

  has(flag: string): boolean {
    return this.#flags.has(flag);
  }

  text(flag: string): string | undefined {
    return this.#flags.get(flag);
  }

  /** The value of a flag that the command can't do without. */
  needed(flag: string, why: string): string {
    const text = this.text(flag);
    if (text === undefined) throw new UsageError(`--${flag} is missing: ${why}`);
    return text;
  }

  /** Takes the flag, else its variable, else its default. An empty variable counts as unset. */
  setting(name: string, env: NodeJS.ProcessEnv): Setting {
    const { variable, fallback } = this.#known.find((flag) => flag.name === name) as Flag;
    const text = this.text(name);
    if (text !== undefined) return { text, by: `--${name}` };
    const by = variable ?? `--${name}`;
    return { text: (variable !== undefined && env[variable]) || (fallback ?? ''), by };
  }

  durationMs(flag: string, minMs: number, maxMs: number): number | undefined {
    const text = this.text(flag);
    return text === undefined ? undefined : readDurationMs(`--${flag}`, text, minMs, maxMs);
  }

  integer(flag: string, min: number, max: number): number | undefined {
    const text = this.text(flag);
    return text === undefined ? undefined : readInteger(`--${flag}`, text, min, max);
  }

  /** The parser has already refused a command line without a required operand. */
  operand(name: string): string {
    return this.#operands.get(name)?.[0] ?? '';
  }

  operands(name: string): readonly string[] {
    return this.#operands.get(name) ?? [];
  }
}

export function readInteger(what: string, text: string, min: number, max: number): number {
  // Only digits: Number() would also take '1e3', '0x10' and ' '.
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw new UsageError(`${what} expects a whole number from ${min} to ${max}, but got '${text}'.`);
  }
  return value;
}

/** Reads everything after the name of a command. */
export function readArguments(command: Command, args: readonly string[]): Given {
  const split = command.runsCommand ? args.indexOf('--') : -1;
  const own = split < 0 ? args : args.slice(0, split);
  const toRun = split < 0 ? [] : args.slice(split + 1);
  const flags = flagsOf(command);
  const { tokens } = parseArgs({
    args: [...own],
    // Not strict, so that each error is one line in this program's own words.
    strict: false,
    tokens: true,
    allowPositionals: true,
    options: Object.fromEntries(
      flags.map(({ name, short, value }) => [
        name,
        { type: value === undefined ? 'boolean' : 'string', ...(short === undefined ? {} : { short }) },
      ]),
    ),
  });
  const given = new Map<string, string>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    else if (token.kind === 'option') given.set(token.name, readFlag(flags, token));
  }
  if (given.has('help')) return new Given(flags, given, new Map(), toRun);
  const operands = readOperands(command, words);
  if (command.runsCommand && toRun.length === 0) {
    throw new UsageError(`The command to run is missing: put it after --, as in '${command.examples[0]}'.`);
  }
  return new Given(flags, given, operands, toRun);
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

function readFlag(flags: readonly Flag[], { name, rawName, value, inlineValue }: OptionToken): string {
  const flag = flags.find((known) => known.name === name);
  if (flag === undefined) {
    const known = flags.map((each) => `--${each.name}`);
    throw new UsageError(`Unknown flag ${rawName}.${didYouMean(rawName, known)}`);
  }
  if (flag.value === undefined) {
    if (value !== undefined) throw new UsageError(`${rawName} takes no value, but got '${value}'.`);
    return 'true';
  }
  // A flag in the place of the value means that the value was forgotten. With '=', the user does mean it. Other values may
  // begin with dashes too: some leases do.
  const isFlag = !inlineValue && flags.some((known) => value?.split('=')[0] === `--${known.name}`);
  // An empty text is a value too, if the flag says so: an empty prefix means every lock.
  const isMissing = value === undefined || (value === '' && flag.mayBeEmpty !== true);
  if (isMissing || isFlag) throw new UsageError(`${rawName} expects <${flag.value}>.`);
  if (flag.choices !== undefined && !flag.choices.includes(value)) {
    const [last, ...others] = [...flag.choices].reverse();
    const allowed = [...others].reverse().join(', ');
    throw new UsageError(
      `${rawName} expects ${allowed} or ${last}, but got '${value}'.${didYouMean(value, flag.choices)}`,
    );
  }
  return value;
}

function readOperands(command: Command, words: readonly string[]): Map<string, readonly string[]> {
  const given = new Map<string, readonly string[]>();
  const left = [...words];
  for (const { name, optional, many, choices } of command.operands ?? []) {
    const taken = many ? left.splice(0) : left.splice(0, 1);
    const [first] = taken;
    if (first === undefined && !optional) throw new UsageError(`<${name}> is missing, as in '${command.examples[0]}'.`);
    if (first !== undefined && choices !== undefined && !choices.includes(first)) {
      const hint = didYouMean(first, choices);
      throw new UsageError(`<${name}> expects ${choices.join(', ')}, but got '${first}'.${hint}`);
    }
    given.set(name, taken);
  }
  if (left.length > 0) {
    const hint = command.runsCommand ? ' Put the command to run after --.' : '';
    throw new UsageError(`Expected nothing more, but got '${left[0]}'.${hint}`);
  }
  return given;
}
