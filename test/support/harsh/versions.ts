import type { WireItem } from './item-size.ts';

interface Version {
  readonly from: number;
  /** Undefined: there was no item. */
  readonly item: WireItem | undefined;
}

/** Longer than any read lags behind here. */
const keptMs = 30_000;

/** What each item was at each instant of the last while, so that a read can be answered as it was then. */
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

  /** The first that is said of an item is taken to have been so for ever. */
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

  /** As it was then; an item that nobody wrote through here is as it is now. */
  at(itemId: string, instant: number, now: WireItem | undefined): WireItem | undefined {
    const version = this.#versions.get(itemId)?.findLast(({ from }) => from <= instant);
    return version === undefined ? now : version.item;
  }

  /** Everything that there was then, of one table. */
  *all(prefix: string, instant: number): Generator<WireItem> {
    for (const itemId of this.#versions.keys()) {
      const item = itemId.startsWith(prefix) ? this.at(itemId, instant, undefined) : undefined;
      if (item !== undefined) yield item;
    }
  }
}
