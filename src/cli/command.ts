import type { Given } from './arguments.ts';
import type { Connection } from './connection.ts';
import type { Terminal } from './terminal.ts';

/** A flag of a command. The parser, the help and the completion all read it. */
export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** The placeholder of its value in the help. A flag without a placeholder is a switch. */
  readonly value?: string;
  /** The only values that are allowed. Any value is allowed if this is missing. */
  readonly choices?: readonly string[];
  /** The environment variable that gives the value if the flag does not. */
  readonly variable?: string;
  /** The value if neither the flag nor the variable gives one. */
  readonly fallback?: string;
  readonly meaning: string;
}

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
  /** Read from flags and variables at the first call, because some commands need no service. */
  readonly connection: () => Connection;
}

export interface Command {
  /** One word, or two such as `record get`. */
  readonly name: string;
  readonly summary: string;
  readonly operands: readonly Operand[];
  readonly flags: readonly Flag[];
  /** True if a command to run follows after `--`. */
  readonly runsCommand?: boolean;
  /** True if the command calls a service. It then also takes the flags that name the service and the caller. */
  readonly connects: boolean;
  /** Text of the help after the summary. */
  readonly details?: string;
  readonly examples: readonly string[];
  /** Resolves with the exit code. */
  run(invocation: Invocation): Promise<number>;
}

/** Every command takes these. */
export const commonFlags: readonly Flag[] = [
  { name: 'json', meaning: 'Print JSON for scripts: one document, or one per line for a stream of events.' },
  { name: 'no-color', meaning: 'Print without colors; NO_COLOR does the same.' },
  { name: 'help', short: 'h', meaning: 'Show the help of this command.' },
];

/** A person waits for an answer. Five seconds are enough for a service that restarts, and do not look like a hang. */
export const timeoutFlag: Flag = {
  name: 'timeout',
  value: 'duration',
  variable: 'HOLDFAST_TIMEOUT',
  fallback: '5s',
  meaning: 'How long to try to get an answer, besides waiting in a queue.',
};

/** Every command that calls a service takes these. */
export const connectionFlags: readonly Flag[] = [
  { name: 'url', value: 'url', meaning: 'URL of the service; HOLDFAST_URL, else http://127.0.0.1:4100.' },
  { name: 'namespace', short: 'n', value: 'name', meaning: "The namespace; HOLDFAST_NAMESPACE, else 'default'." },
  // No flag takes the token itself, since any user of the machine can list command lines.
  { name: 'token-file', value: 'path', meaning: 'File with the bearer token; HOLDFAST_TOKEN if not given.' },
  { name: 'sigv4', meaning: 'Sign requests for IAM with the AWS keys of the environment.' },
  { name: 'region', value: 'region', meaning: 'AWS Region to sign for, if the URL does not name it.' },
  timeoutFlag,
];

/** All flags of a command, with its own flags first. */
export const flagsOf = ({ flags, connects }: Pick<Command, 'flags' | 'connects'>): readonly Flag[] => [
  ...flags,
  ...(connects ? connectionFlags : []),
  ...commonFlags,
];
