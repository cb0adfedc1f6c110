export type Limited<T> = { readonly kind: 'done'; readonly value: T } | { readonly kind: 'late' };

/** Waits for the work, but not for ever. Late work goes on unwatched, like a Lambda whose gateway has given up. */
export function withinLimit<T>(work: Promise<T>, limitMs: number): Promise<Limited<T>> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve({ kind: 'late' }), limitMs);
    work.then(
      (value) => {
        clearTimeout(timer);
        resolve({ kind: 'done', value });
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
