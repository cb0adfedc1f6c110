/**
 * Does the work for every item, in order, with a limited number at a time. If an item fails, the others are still done,
 * and the first error is thrown at the end. The items may come from a generator. Reading stops while the maximum number
 * is in progress.
 */
export async function forEachAtMost<T>(
  items: Iterable<T> | AsyncIterable<T>,
  atOnceMax: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const errors: unknown[] = [];
  const underWay = new Set<Promise<void>>();
  for await (const item of items) {
    const one = work(item)
      .catch((error: unknown) => void errors.push(error))
      .finally(() => underWay.delete(one));
    underWay.add(one);
    if (underWay.size >= atOnceMax) await Promise.race(underWay);
  }
  await Promise.all(underWay);
  if (errors.length > 0) throw errors[0];
}
