import type { ErrorCode } from '../client/index.ts';

/**
 * What the program's own exits mean. They follow sysexits.h, so that they stay clear of the small numbers that commands use for
 * themselves, and of the shell's 126 and up.
 */
export const exitCodes = {
  ok: 0,
  /** The question was understood and the answer is no: a fence that does not hold, a record that is not there. */
  no: 1,
  /** EX_USAGE: the command line, or what it asks of the service, is wrong. */
  usage: 64,
  /** EX_DATAERR: what is stored does not fit what the write expected. */
  conflict: 65,
  /** EX_UNAVAILABLE: the service could not be reached. */
  unavailable: 69,
  /** EX_SOFTWARE: something that should not happen. */
  internal: 70,
  /** EX_TEMPFAIL: somebody else has the lock. Later it may be free. */
  refused: 75,
  /** The next number to EX_TEMPFAIL: the lock was held and is lost, so what ran may have run beside another. */
  lost: 76,
  /** EX_NOPERM: the service does not know the caller, or does not let it. */
  forbidden: 77,
  /** As shells have it: the command is there and can't be run. */
  notExecutable: 126,
  /** As shells have it: there is no such command. */
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
  closed: 'internal',
  misconfigured: 'usage',
  unsupported: 'usage',
  'unexpected-answer': 'unavailable',
};

/** A service that is newer than this program may have a code that it does not know. */
export const exitCodeOf = (code: ErrorCode): number => exitCodes[byErrorCode[code] ?? 'internal'];
