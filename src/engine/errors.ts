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
