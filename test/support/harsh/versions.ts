import type { WireItem } from './item-size.ts';

interface Version {
  readonly from: number;
  /** Undefined if there was no item. */
  readonly item: WireItem | undefined;
}

/** Longer than any read lags here. */
const keptMs = 30_000;

/** The recent versions of each item, so that a read can be answered as of an earlier instant. */
export class Versions {
  readonly #now: () => number;
  readonly #versions = new Map<string, Version[]>();

  constructor(now: () => number) {
    this.#now = now;
  }

  knows(itemId: string): boolean {
    return this.#versions.has(itemId);
  }

  latest(itemId: string): WireItem | undefined {
    return this.#versions.get(itemId)?.at(-1)?.item;
  }

  /** The first version that we learn of an item counts as its version since the beginning. */
  remember(itemId: string, item: WireItem | undefined): void {
    const versions = this.#versions.get(itemId);
    if (versions === undefined) {
      this.#versions.set(itemId, [{ from: Number.NEGATIVE_INFINITY, item }]);
      return;
    }
    const oldest = versions.findLastIndex(({ from }) => from <= this.#now() - keptMs);
    versions.splice(0, Math.max(0, oldest));
    versions.push({ from: this.#now(), item });
  }

  /** The item at that instant. An item that was not written through here is as it is now. */
  at(itemId: string, instant: number, now: WireItem | undefined): WireItem | undefined {
    const version = this.#versions.get(itemId)?.findLast(({ from }) => from <= instant);
    return version === undefined ? now : version.item;
  }

  /** All items of one table at that instant. */
  *all(prefix: string, instant: number): Generator<WireItem> {
    for (const itemId of this.#versions.keys()) {
      const item = itemId.startsWith(prefix) ? this.at(itemId, instant, undefined) : undefined;
      if (item !== undefined) yield item;
    }
  }
}
