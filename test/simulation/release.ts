/**
 * A newer release of the service, which writes another layout of locks and pages. It is this release, with a port that shows each item
 * in the layout that this release knows, and writes it in the next one. An older release must not touch such an item.
 */
import { layoutKnown, lockWords } from '../../src/queue/lock-item.ts';
import type { Item } from '../../src/table/attributes.ts';
import type { StoredItem } from '../../src/table/json.ts';
import type { DynamoDBRecord } from 'aws-lambda';
import type { TablePort } from '../../src/table/port.ts';

export type Release = 'this' | 'newer';

const { layout: layoutName } = lockWords;
const newerLayout = layoutKnown + 1;

/** True if only a newer release may write this item. */
export const isOfNewerLayout = (item: object | undefined): boolean =>
  Number((item as StoredItem | undefined)?.[layoutName]?.['N' as never]) > layoutKnown;

export const inKnownLayout = (item: Item): Item =>
  item[layoutName] === newerLayout ? { ...item, [layoutName]: layoutKnown } : item;

/** The layout where an item, a condition or an update names it, at any depth of a request or an answer. */
function withLayout(part: unknown, from: number, to: number): unknown {
  if (Array.isArray(part)) return part.map((one) => withLayout(one, from, to));
  if (typeof part !== 'object' || part === null) return part;
  return Object.fromEntries(
    Object.entries(part).map(([name, value]) => {
      const isLayout = (name === layoutName || name === ':layout') && (value as { N?: string }).N === String(from);
      return [name, isLayout ? { N: String(to) } : withLayout(value, from, to)];
    }),
  );
}

const asNewer = <T>(request: T): T => withLayout(request, layoutKnown, newerLayout) as T;
const asKnown = <T>(answer: T): T => withLayout(answer, newerLayout, layoutKnown) as T;

export const ofRelease = (release: Release, table: TablePort): TablePort =>
  release === 'this'
    ? table
    : {
        call: (operation, request) =>
          table.call(operation, asNewer(request)).then(asKnown, (error: Error) => {
            const { Item: item, CancellationReasons: reasons } = error as { Item?: unknown; CancellationReasons?: unknown };
            throw Object.assign(error, {
              ...(item === undefined ? {} : { Item: asKnown(item) }),
              ...(reasons === undefined ? {} : { CancellationReasons: asKnown(reasons) }),
            });
          }),
      };

/** Stream records as a release reads them. */
export const recordsFor = (release: Release, records: readonly DynamoDBRecord[]): readonly DynamoDBRecord[] =>
  release === 'this' ? records : records.map(asKnown);
