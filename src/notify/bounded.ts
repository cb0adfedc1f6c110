import type { Timers } from '../time/timers.ts';

/** Does the work for every item, at most so many at a time, in order. Where some fail, the others are done all the same, and the first error is thrown at the end. */
export async function eachBounded<T>(
  items: readonly T[],
  atOnceMax: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const errors: unknown[] = [];
  const waiting = items.values();
  const lane = async () => {
    // One iterator serves all lanes: each takes the next item as soon as it is free.
    for (const item of waiting) await work(item).catch((error: unknown) => errors.push(error));
  };
  await Promise.all(Array.from({ length: Math.min(atOnceMax, items.length) }, lane));
  if (errors.length > 0) throw errors[0];
}

/** The work's outcome, or an error where it takes longer than the limit. The work itself goes on, unwatched. */
export function within<T>(timers: Timers, limitMs: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(limitMs, () => reject(new Error(`No answer within ${limitMs} ms.`)));
    work.then(resolve, reject).finally(cancel);
  });
}

/** What may be logged of an error: no request, which may carry a lease or a token. */
export const describe = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}` : String(error);
