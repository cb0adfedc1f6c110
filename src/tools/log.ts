/** A message and its fields, if there are any. Powertools' logger fits. */
type Write = (message: string, ...fields: Record<string, unknown>[]) => void;

/** Where a process logs. */
export interface Log {
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
}
