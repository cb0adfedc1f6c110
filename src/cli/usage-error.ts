/** The command line is wrong. The message is for whoever typed it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
