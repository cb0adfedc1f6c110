import type { ErrorCode } from '../client/index.ts';

/**
 * The program's own exit codes. They follow sysexits.h, so that they differ from the small numbers that commands use
 * and from the shell's codes, which begin at 126.
 */
export const exitCodes = {
  ok: 0,
  /** The question was understood and the answer is no: a fence is not valid, or a record does not exist. */
  no: 1,
  /** EX_USAGE: the command line is wrong, or the service refuses what it asks for. */
  usage: 64,
  /** EX_DATAERR: the stored value is not what the write expected. */
  conflict: 65,
  /** EX_UNAVAILABLE: the service could not be reached. */
  unavailable: 69,
  /** EX_SOFTWARE: an error that should never happen. */
  internal: 70,
  /** EX_TEMPFAIL: somebody else has the lock. It may be free later. */
  refused: 75,
  /**
   * The number after EX_TEMPFAIL: the lock was held and then lost, so the command may have run beside another holder's.
   */
  lost: 76,
  /** EX_NOPERM: the service does not know the caller, or does not allow the request. */
  forbidden: 77,
  /** The same number as in shells: the command exists, but can't be run. */
  notExecutable: 126,
  /** The same number as in shells: there is no such command. */
  notFound: 127,
} as const;

type ExitName = keyof typeof exitCodes;

const byErrorCode: Readonly<Record<ErrorCode, ExitName>> = {
  'invalid-request': 'usage',
  unauthorized: 'forbidden',
  forbidden: 'forbidden',
  'not-found': 'no',
  'method-not-allowed': 'internal',
  'lock-held': 'refused',
  'wait-timeout': 'refused',
  'lease-lost': 'lost',
  'limit-mismatch': 'conflict',
  deadlock: 'refused',
  'stale-fence': 'conflict',
  'session-lost': 'lost',
  'version-mismatch': 'conflict',
  'too-large': 'usage',
  'unsupported-media-type': 'internal',
  'precondition-required': 'conflict',
  'queue-full': 'refused',
  throttled: 'refused',
  internal: 'unavailable',
  unavailable: 'unavailable',
  'too-many-retries': 'conflict',
  'once-failed': 'no',
  'payload-mismatch': 'conflict',
  closed: 'internal',
  misconfigured: 'usage',
  unsupported: 'usage',
  'unexpected-answer': 'unavailable',
};

/** A newer service may send a code that this program does not know. */
export const exitCodeOf = (code: ErrorCode): number => exitCodes[byErrorCode[code] ?? 'internal'];

/**
 * A line for `eval` that ends the script with the code, with or without `set -e`. An interactive shell only gets the
 * code as `$?`, so that the terminal stays open.
 */
export const exitLine = (exitCode: number): string => `case $- in *i*) (exit ${exitCode});; *) exit ${exitCode};; esac`;
