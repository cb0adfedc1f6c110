/**
 * The part of an error that may be logged: its name and message, or its code if it has no message. An SDK error also
 * has the request, and a request may contain a lease or a token.
 */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return `${error.name}: ${error.message || (error as { code?: string }).code}`;
}

/** The innermost cause, because `fetch` and the stores wrap the error that explains the failure. */
export const rootCauseOf = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? rootCauseOf(error.cause) : error;

/** The reason of a failure, for use inside a sentence. */
export const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message || ((error as { code?: string }).code ?? error.name) : String(error);
