/** Requests about the namespace that is shown, and the error of the last one. */
import { redraw } from './draw.ts';
import { namespace } from './route.ts';
import type { AskError } from './server.ts';

/** Why the last request failed. The page still shows what it has. */
export let trouble: AskError | null = null;
/** Why nothing can be shown. */
export let refusal: AskError | null = null;

export function failed(error: AskError): void {
  // The token is missing, or the console was restarted with another one.
  if (error.status === 401) refusal = error;
  trouble = error;
  redraw();
}

export function refused(error: AskError | null): void {
  refusal = error;
  trouble = null;
}

/** Undefined if the request failed, or if the page shows another namespace when the answer comes. */
export async function ask<T>(question: (namespace: string) => Promise<T>): Promise<T | undefined> {
  const asked = namespace;
  try {
    const answer = await question(asked);
    if (asked !== namespace) return undefined;
    trouble = null;
    redraw();
    return answer;
  } catch (error) {
    if (asked === namespace) failed(error as AskError);
    return undefined;
  }
}
