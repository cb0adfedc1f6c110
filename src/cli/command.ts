import type { Given } from './arguments.ts';
import type { Connection } from './connection.ts';
import type { Signals } from './signals.ts';
import type { Terminal } from './terminal.ts';

interface FlagFacts {
  readonly meaning: string;
  /** The only values that are allowed. Any value is allowed if this is missing. */
  readonly choices?: readonly string[];
  /** True if an empty text is a value. For every other flag it counts as forgotten. */
  readonly mayBeEmpty?: boolean;
  /** The environment variable that gives the value if the flag does not. */
  readonly variable?: string;
  /** The value if neither the flag nor the variable gives one. */
  readonly fallback?: string;
}

/** Flags by how the help shows them: `wait <duration>`, or `json` for a switch. A text alone is the meaning. */
export type Flags = Readonly<Record<string, string | FlagFacts>>;

/** A flag of a command. The parser, the help and the completion all read it. */
export interface Flag extends FlagFacts {
  readonly name: string;
  readonly short?: string | undefined;
  /** The placeholder of its value in the help. A flag without a placeholder is a switch. */
  readonly value?: string | undefined;
}

export const listOf = (flags: Flags): readonly Flag[] =>
  Object.entries(flags).map(([shown, facts]) => {
    const [, name = '', value, short] = /^([a-z0-9-]+)(?: <(.+)>)?(?:, -(.))?$/.exec(shown) ?? [];
    return { name, value, short, ...(typeof facts === 'string' ? { meaning: facts } : facts) };
  });

export interface Operand {
  readonly name: string;
  readonly optional?: boolean;
  /** Takes all remaining words. Only the last operand may do this. */
  readonly many?: boolean;
  readonly choices?: readonly string[];
}

/** Everything that a command gets when it runs. */
export interface Invocation {
  readonly given: Given;
  readonly env: NodeJS.ProcessEnv;
  readonly terminal: Terminal;
  /** Signals are caught from the first use on. */
  readonly signals: Signals;
  /** Read from flags and variables at the first call, because some commands need no service. */
  readonly connection: () => Connection;
}

export interface Command {
  /** One word, or two such as `record get`. */
  readonly name: string;
  readonly summary: string;
  readonly operands?: readonly Operand[];
  readonly flags?: Flags;
  /** True if a command to run follows after `--`. */
  readonly runsCommand?: boolean;
  /** True if the command calls no service. All other commands also take the flags that name the service and the caller. */
  readonly isOffline?: boolean;
  /** Text of the help after the summary. */
  readonly details?: string;
  readonly examples: readonly string[];
  /** Resolves with the exit code. Undefined means success. */
  run(invocation: Invocation): Promise<number | undefined>;
}

/** Every command takes these. */
export const commonFlags = listOf({
  json: 'Print JSON for scripts: one document, or one per line for a stream of events.',
  'no-color': 'Print without colors; NO_COLOR does the same.',
  'help, -h': 'Show the help of this command.',
});

/** Every command that calls a service takes these. */
export const connectionFlags = listOf({
  'url <url>': 'URL of the service; HOLDFAST_URL, else http://127.0.0.1:4100.',
  'namespace <name>, -n': "The namespace; HOLDFAST_NAMESPACE, else 'default'.",
  // No flag takes the token itself, since any user of the machine can list command lines.
  'token-file <path>': 'File with the bearer token; HOLDFAST_TOKEN if not given.',
  sigv4: 'Sign requests for IAM with the AWS keys of the environment.',
  'region <region>': 'AWS Region to sign for, if the URL does not name it.',
  'timeout <duration>': {
    variable: 'HOLDFAST_TIMEOUT',
    // A person waits. Five seconds are enough for a service that restarts, and do not look like a hang.
    fallback: '5s',
    meaning: 'How long to try to get an answer, besides waiting in a queue.',
  },
});

/** All flags of a command, with its own flags first. */
export const flagsOf = ({ flags = {}, isOffline }: Pick<Command, 'flags' | 'isOffline'>): readonly Flag[] => [
  ...listOf(flags),
  ...(isOffline ? [] : connectionFlags),
  ...commonFlags,
];
