/** Something went wrong that the program knows: it says the message alone, and exits with the code. */
export class Failure extends Error {
  override readonly name: string = 'Failure';
  /** What `--json` calls it. */
  readonly code: string;
  readonly exitCode: number;

  constructor(code: string, exitCode: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.exitCode = exitCode;
  }
}
