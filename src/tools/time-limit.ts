import { systemTimers, type Timers } from '../time/timers.ts';

export type Limited<T> = { readonly kind: 'done'; readonly value: T } | { readonly kind: 'late' };

/** Waits for the work, up to a limit. Late work goes on, but its result is dropped. */
export function withinLimit<T>(work: Promise<T>, limitMs: number, timers: Timers = systemTimers): Promise<Limited<T>> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(limitMs, () => resolve({ kind: 'late' }));
    work.then((value) => resolve({ kind: 'done', value }), reject).finally(cancel);
  });
}

/** Like `withinLimit`, but throws if the work is late. */
export async function requireWithin<T>(work: Promise<T>, limitMs: number, timers: Timers = systemTimers): Promise<T> {
  const outcome = await withinLimit(work, limitMs, timers);
  if (outcome.kind === 'late') throw new Error(`No answer within ${limitMs} ms.`);
  return outcome.value;
}
