/**
 * A sorted list. Finding a member is a binary search. Inserting moves the rest, which is fast enough for a table in
 * memory and for thousands of timers.
 */
export class SortedList<T> {
  readonly #members: T[] = [];
  readonly #compare: (one: T, other: T) => number;

  constructor(compare: (one: T, other: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#members.length;
  }

  get first(): T | undefined {
    return this.#members[0];
  }

  /** Inserts a member in order. Replaces a member that compares equal. */
  put(member: T): void {
    const at = this.#firstNotBefore(member);
    const isThere = at < this.#members.length && this.#compare(this.#members[at] as T, member) === 0;
    if (isThere) this.#members[at] = member;
    else if (at === this.#members.length) this.#members.push(member);
    else this.#members.splice(at, 0, member);
  }

  remove(member: T): void {
    const at = this.#firstNotBefore(member);
    if (at === this.#members.length || this.#compare(this.#members[at] as T, member) !== 0) return;
    // Timers are removed from the front. `shift` does not move the others.
    if (at === 0) this.#members.shift();
    else this.#members.splice(at, 1);
  }

  [Symbol.iterator](): ArrayIterator<T> {
    return this.#members[Symbol.iterator]();
  }

  #firstNotBefore(member: T): number {
    let [low, high] = [0, this.#members.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(this.#members[middle] as T, member) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
