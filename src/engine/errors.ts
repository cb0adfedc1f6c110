/** An error that DynamoDB answers: a name that its clients know, a message, and further fields. */
export class EngineError extends Error {
  readonly more: Readonly<Record<string, unknown>>;

  constructor(name: string, message: string, more: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.name = name;
    this.more = more;
  }
}

export const invalid = (message: string): EngineError => new EngineError('ValidationException', message);

/** A refused write is an answer and not a fault. It needs no stack, which would take longer than all the rest. */
export function refusal(name: string, message: string, more: Readonly<Record<string, unknown>>): EngineError {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return new EngineError(name, message, more);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
