/**
 * How a history is kept and listed, the same for every store. A hold is one item, written when it ends. The item has the end and the grant.
 * While a hold lasts, its grant comes from the lock itself. `docs/decisions/010-one-history-item-per-hold.md` says why.
 */
import type { LockEvent } from '../lock/events.ts';
import type { LockState } from '../lock/state.ts';
import type { HistoryEntry, HistoryEvent, HistoryPage } from './history.ts';

export const isShown = (event: LockEvent): event is HistoryEvent => event.type !== 'renewed';

/** Fences never fall and each write raises the revision. So places sort in the order of the events, even if clocks differ. */
export const placeOf = ({ fence, rev }: Pick<LockState, 'fence' | 'rev'>, index: number): string =>
  `${String(fence).padStart(16, '0')}.${String(rev).padStart(16, '0')}.${String(index).padStart(4, '0')}`;

/** A grant makes its fence, so it comes before everything else that happens under that fence. */
export const grantPlaceOf = (fence: number): string => placeOf({ fence, rev: 0 }, 0);

/**
 * The place of an event of one write. Endings come under the fence before the write, because they made space for the grants. Waiters that
 * joined come after the grants.
 */
export function placeIn(before: LockState, after: LockState, { type, fence }: HistoryEvent, index: number): string {
  if (type === 'granted') return grantPlaceOf(fence);
  return placeOf({ fence: type === 'queued' ? after.fence : before.fence, rev: after.rev }, index);
}

/**
 * If more grants than these were made during a hold, the hold is two items. If a page of a listing ends between the end of a hold and its
 * grant, the cursor names the hold. With sixteen, the cursor of a busy semaphore is still shorter than a kilobyte.
 */
export const laterGrantsMax = 16;

/** The items for a hold that ended. */
export function endedHold(ending: HistoryEntry, grant: HistoryEvent, laterGrants: number): HistoryEntry[] {
  if (laterGrants <= laterGrantsMax) return [{ ...ending, grant }];
  return [ending, { key: ending.key, place: grantPlaceOf(grant.fence), event: grant }];
}

type Found = Omit<HistoryEntry, 'key'>;

interface Listing {
  readonly limit: number;
  /** If given, only events before this place are listed. */
  readonly before?: string | undefined;
  /** Newest first, and at most as many as the limit. */
  readonly found: readonly Found[];
  /** Holds whose end is on an earlier page of the listing, and whose grant is not. */
  readonly open: readonly Found[];
  /** The grants of the current holders. */
  readonly standing: readonly HistoryEvent[];
  readonly keptSince: number;
}

interface Line {
  readonly place: string;
  readonly event: HistoryEvent;
  /** The place of the hold's item, if this grant comes from it. */
  readonly hold?: string;
}

/** One page of a listing, newest first. */
export function listed({ limit, before, found, open, standing, keptSince }: Listing): HistoryPage {
  const lines: Line[] = [
    ...found,
    ...[...open, ...found].flatMap(({ place, grant }) =>
      grant === undefined ? [] : [{ place: grantPlaceOf(grant.fence), event: grant, hold: place }],
    ),
    ...standing.map((event) => ({ place: grantPlaceOf(event.fence), event })),
  ];
  const inOrder = onceEach(
    lines
      .filter(({ place, event }) => event.at > keptSince && (before === undefined || place < before))
      .sort((one, other) => (one.place < other.place ? 1 : one.place > other.place ? -1 : 0)),
  );
  // After the last item that was found there may be others. They come before the grants after it.
  const isFull = found.length >= limit;
  const lastFound = found.at(-1)?.place ?? '';
  const known = isFull ? inOrder.filter(({ place }) => place >= lastFound) : inOrder;
  const page = known.slice(0, limit);
  const last = page.at(-1)?.place;
  const events = page.map(({ event }) => event);
  if (last === undefined || (!isFull && known.length <= limit)) return { events };
  const stillOpen = inOrder.flatMap(({ place, hold }) =>
    hold !== undefined && place < last && last <= hold ? [hold] : [],
  );
  return { events, before: [last, ...stillOpen].join(separator) };
}

/**
 * A grant may be found twice: in the lock and in the item of a hold that has just ended, or in the item of an earlier release, which wrote
 * grants separately.
 */
function onceEach(lines: readonly Line[]): Line[] {
  const granted = new Set<number>();
  return lines.filter(({ event: { type, fence } }) => {
    if (type !== 'granted') return true;
    const isNew = !granted.has(fence);
    granted.add(fence);
    return isNew;
  });
}

const separator = '~';
const place = /\d{16}\.\d{16}\.\d{4}/.source;

/** Where a listing goes on: a place, and the places of the holds that are open there. */
export const cursorPattern = new RegExp(`^${place}(${separator}${place}){0,${laterGrantsMax + 1}}$`);

export function readPlaces(cursor: string | undefined): { before?: string; open: readonly string[] } {
  const [before, ...open] = cursor?.split(separator) ?? [];
  return before === undefined ? { open } : { before, open };
}
