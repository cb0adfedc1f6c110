/**
 * The service can't start, for a reason that its user can fix. The message is one line: what was expected, what came
 * and what to do. The command line prints it without a stack trace, which would hide it.
 */
export class StartError extends Error {
  override readonly name = 'StartError';
}
