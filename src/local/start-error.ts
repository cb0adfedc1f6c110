/**
 * The service can't start, for a reason that its user can mend. The message is one line that says what was
 * expected, what came and what to do; the command line prints it alone, since a stack trace would hide it.
 */
export class StartError extends Error {
  override readonly name = 'StartError';
}
