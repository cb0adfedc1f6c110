/** An expected failure: the program prints the message without a stack, and exits with the code. */
export class Failure extends Error {
  override readonly name: string = 'Failure';
  /** The error code in the output of `--json`. */
  readonly code: string;
  readonly exitCode: number;

  constructor(code: string, exitCode: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.exitCode = exitCode;
  }
}

/** The command line is wrong. The message is for the person who typed it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
