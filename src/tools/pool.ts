/**
 * Does the work for every item, in their order, at most so many at a time. An item that fails does not keep the others
 * from being done; the first error is thrown at the end. The items may be read as they come, and reading stops while
 * as many as allowed are under way.
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
