/**
 * How a history is kept and listed, the same for every store. A hold is one item, written when it ends: the item tells of the end and
 * of the grant. The grant of a hold that still lasts is told by the lock itself. `docs/decisions/010-one-history-item-per-hold.md`
 * says why.
 */
import { grantOf, type LockEvent } from '../lock/events.ts';
import type { Holder, LockState } from '../lock/state.ts';
import type { HistoryEntry, HistoryEvent, HistoryPage, HistoryType } from './history-store.ts';

export type ShownEvent = LockEvent & { readonly type: HistoryType };

export const isShown = (event: LockEvent): event is ShownEvent => event.type !== 'renewed';

/** Two hosts may have written the two ends of a span. Their clocks may differ by more than the span. */
const span = (ms: number): number => Math.max(0, ms);

export function shown({ at, type, fence, owner, heldMs, waitedMs, reason }: ShownEvent): HistoryEvent {
  return {
    at,
    type,
    fence,
    owner,
    ...(heldMs === undefined ? {} : { heldMs: span(heldMs) }),
    ...(waitedMs === undefined ? {} : { waitedMs: span(waitedMs) }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/** The grant that a holder's hold began with. It is the same whenever it is derived: nothing of it changes while the hold lasts. */
export const grantEventOf = (holder: Holder): HistoryEvent => shown(grantOf(holder) as ShownEvent);

/** Fences never fall and each write raises the revision. So places sort as things happened, whatever the clocks said. */
export const placeOf = ({ fence, rev }: Pick<LockState, 'fence' | 'rev'>, index: number): string =>
  `${String(fence).padStart(16, '0')}.${String(rev).padStart(16, '0')}.${String(index).padStart(4, '0')}`;

/** A grant makes its fence, so it comes before everything else that happens under that fence. */
export const grantPlaceOf = (fence: number): string => placeOf({ fence, rev: 0 }, 0);

/**
 * The place of what happened in one write. What ended in it did so under the fence before, and made room for the grants. Whoever joined
 * the queue did so behind them.
 */
export function placeIn(before: LockState, after: LockState, { type, fence }: ShownEvent, index: number): string {
  if (type === 'granted') return grantPlaceOf(fence);
  return placeOf({ fence: type === 'queued' ? after.fence : before.fence, rev: after.rev }, index);
}

/**
 * A hold during which more grants than these were made is two items. A listing that stops between the end of a hold and its grant names
 * the hold in its cursor. With sixteen, the cursor of a busy semaphore is still shorter than a kilobyte.
 */
export const laterGrantsMax = 16;

/** What is written of a hold that ended. */
export function endedHold(ending: HistoryEntry, grant: HistoryEvent, laterGrants: number): HistoryEntry[] {
  if (laterGrants <= laterGrantsMax) return [{ ...ending, grant }];
  return [ending, { key: ending.key, place: grantPlaceOf(grant.fence), event: grant }];
}

type Found = Omit<HistoryEntry, 'key'>;

interface Listing {
  readonly limit: number;
  /** Only what is older than this place, if given. */
  readonly before?: string | undefined;
  /** Newest first, and as many as the limit where there are more. */
  readonly found: readonly Found[];
  /** Holds whose end is on an earlier page of the listing, and whose grant is not. */
  readonly open: readonly Found[];
  /** The grants of those that hold the lock. */
  readonly standing: readonly HistoryEvent[];
  readonly keptSince: number;
}

interface Line {
  readonly place: string;
  readonly event: HistoryEvent;
  /** The place of the hold's item, if this is the grant that it tells of. */
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
  // Behind the last item that was found there may be others, which come before the grants behind it.
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
 * A grant may be told twice: by the lock and by the item of a hold that has just ended, or by an earlier release, which wrote grants by
 * themselves.
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
