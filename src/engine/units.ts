/**
 * The units that DynamoDB charges: write units per kilobyte and read units per four kilobytes, of the larger item.
 * Index entries count too.
 */
import type { Table } from './table.ts';
import { type Item, itemBytes, sameItem } from './values.ts';

export interface Units {
  readonly read: number;
  readonly write: number;
  /** Write units of each index that the write touched. */
  readonly indexes: Readonly<Record<string, number>>;
}

const kilobytes = (item: Item | undefined): number => (item === undefined ? 0 : Math.ceil(itemBytes(item) / 1024));

/** A write that is refused or changes nothing costs as much as a successful one, and at least one unit. */
export function writeUnits(table: Table, before: Item | undefined, after: Item | undefined): Units {
  const indexes: Record<string, number> = {};
  for (const [name, index] of table.indexes) {
    const [was, is] = [index.entryOf(before), index.entryOf(after)];
    if (was === undefined && is === undefined) continue;
    if (was !== undefined && is !== undefined && sameItem(was, is)) continue;
    const isMoved = was !== undefined && is !== undefined && !sameItem(index.keysOf(was), index.keysOf(is));
    indexes[name] = isMoved ? kilobytes(was) + kilobytes(is) : Math.max(kilobytes(was), kilobytes(is));
  }
  return { read: 0, write: Math.max(1, kilobytes(before), kilobytes(after)), indexes };
}

/** For all items of one read: a query is charged for the sum of its items. */
export function readUnits(items: readonly (Item | undefined)[], isConsistent: boolean): Units {
  const bytes = items.reduce((sum, item) => sum + (item === undefined ? 0 : itemBytes(item)), 0);
  const whole = Math.max(1, Math.ceil(bytes / 4096));
  return { read: isConsistent ? whole : whole / 2, write: 0, indexes: {} };
}

export const totalOf = ({ read, write, indexes }: Units): number =>
  read + write + Object.values(indexes).reduce((sum, units) => sum + units, 0);

export const doubled = ({ read, write, indexes }: Units): Units => ({
  read: read * 2,
  write: write * 2,
  indexes: Object.fromEntries(Object.entries(indexes).map(([name, units]) => [name, units * 2])),
});
