import type { Given } from './arguments.ts';
import type { Connection } from './connection.ts';
import type { Terminal } from './terminal.ts';

/** A flag of a command. The parser, the help and the completion all read it. */
export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** The placeholder of its value in the help; a flag without one is a switch. */
  readonly value?: string;
  /** Where only these values are allowed. */
  readonly choices?: readonly string[];
  /** Gives the value if the flag does not. */
  readonly variable?: string;
  /** The value if neither the flag nor the variable gives one. */
  readonly fallback?: string;
  readonly meaning: string;
}

export interface Operand {
  readonly name: string;
  readonly optional?: boolean;
  /** Takes all that is left; only the last one may. */
  readonly many?: boolean;
  readonly choices?: readonly string[];
}

/** What a command gets to work with. */
export interface Invocation {
  readonly given: Given;
  readonly env: NodeJS.ProcessEnv;
  readonly terminal: Terminal;
  /** Read from flags and variables when it is first asked for: not every command has a service to speak to. */
  readonly connection: () => Connection;
}

export interface Command {
  /** One word, or two such as `record get`. */
  readonly name: string;
  readonly summary: string;
  readonly operands: readonly Operand[];
  readonly flags: readonly Flag[];
  /** Whether a command to run follows after `--`. */
  readonly runsCommand?: boolean;
  /** Whether it calls a service. If so, it takes the flags that name the service and the caller. */
  readonly connects: boolean;
  /** What the help says besides the summary. */
  readonly details?: string;
  readonly examples: readonly string[];
  /** Resolves with the exit code. */
  run(invocation: Invocation): Promise<number>;
}

/** Taken by every command. */
export const commonFlags: readonly Flag[] = [
  { name: 'json', meaning: 'Print JSON for scripts: one document, or one per line where events keep coming.' },
  { name: 'no-color', meaning: 'Print no colours; NO_COLOR does the same.' },
  { name: 'help', short: 'h', meaning: 'Show the help of this command.' },
];

/** Taken by every command that speaks to a service. */
export const connectionFlags: readonly Flag[] = [
  { name: 'url', value: 'url', meaning: 'Where the service is; HOLDFAST_URL, else http://127.0.0.1:4100.' },
  { name: 'namespace', short: 'n', value: 'name', meaning: "The namespace; HOLDFAST_NAMESPACE, else 'default'." },
  // No flag takes the token itself, since any user of the machine can list command lines.
  { name: 'token-file', value: 'path', meaning: 'File with the bearer token; else it is taken from HOLDFAST_TOKEN.' },
  { name: 'sigv4', meaning: 'Sign requests for IAM with the AWS keys of the environment.' },
  { name: 'region', value: 'region', meaning: 'AWS Region to sign for, where the URL does not tell it.' },
];

/** All that a command takes, its own flags first. */
export const flagsOf = ({ flags, connects }: Pick<Command, 'flags' | 'connects'>): readonly Flag[] => [
  ...flags,
  ...(connects ? connectionFlags : []),
  ...commonFlags,
];
