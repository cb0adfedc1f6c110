/**
 * What may be logged of an error: its name and message, or its code where it has no message. An SDK error also carries the
 * request, and a request may carry a lease or a token.
 */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return `${error.name}: ${error.message || (error as { code?: string }).code}`;
}

/** Why something failed, for a sentence that says what it was. */
export const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message || ((error as { code?: string }).code ?? error.name) : String(error);
