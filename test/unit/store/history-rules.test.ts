import { describe, expect, it } from 'vitest';
import type { LockEvent } from '../../../src/lock/events.ts';
import { unusedLock } from '../../../src/lock/state.ts';
import type { HistoryEvent } from '../../../src/store/history.ts';
import {
  cursorPattern,
  endedHold,
  grantPlaceOf,
  isShown,
  laterGrantsMax,
  listed,
  placeIn,
  placeOf,
  readPlaces,
} from '../../../src/store/history-rules.ts';
import { epochMs } from '../../../src/time/clock.ts';

const keptSince = 1_000;
const at = epochMs(2_000);
const tooOld = epochMs(keptSince);

const granted = (fence: number, grantedAt = at): HistoryEvent => ({
  at: grantedAt,
  type: 'granted',
  fence,
  owner: 'me',
  waitedMs: 0,
});
const released = (fence: number, releasedAt = at): HistoryEvent => ({
  at: releasedAt,
  type: 'released',
  fence,
  owner: 'me',
  heldMs: 1,
});
/** The item of a hold that ended when the lock had this fence. */
const hold = (fence: number, endedUnder: number, { endedAt = at, grantedAt = at } = {}) => ({
  place: placeOf({ fence: endedUnder, rev: 100 + fence }, 0),
  event: released(fence, endedAt),
  grant: granted(fence, grantedAt),
});
const nothing = { found: [], open: [], standing: [], keptSince };

describe('the place of an event', () => {
  it('sorts by fence, then by revision, then by its index in the write', () => {
    const inOrder = [
      placeOf({ fence: 9, rev: 11 }, 0),
      placeOf({ fence: 10, rev: 9 }, 2),
      placeOf({ fence: 10, rev: 9 }, 10),
      placeOf({ fence: 10, rev: 10 }, 0),
    ];
    expect(inOrder.toSorted()).toEqual(inOrder);
    expect(new Set(inOrder.map(({ length }) => length)).size).toBe(1);
  });

  it('is after what ended and before who queued, for the grants of one write', () => {
    const before = { ...unusedLock, fence: 4, rev: 8 };
    const after = { ...unusedLock, fence: 5, rev: 9 };
    const queued: HistoryEvent = { at, type: 'queued', fence: 5, owner: 'me', position: 1 } as HistoryEvent;
    const places = [released(4), granted(5), queued].map((event, index) => placeIn(before, after, event, index));
    expect(places).toEqual([placeOf({ fence: 4, rev: 9 }, 0), grantPlaceOf(5), placeOf({ fence: 5, rev: 9 }, 2)]);
    expect(places.toSorted()).toEqual(places);
  });

  it('is not needed for a renewal, which is not shown', () => {
    const renewed = { at, type: 'renewed', fence: 4, owner: 'me' } as LockEvent;
    expect([renewed, granted(4), released(4)].map(isShown)).toEqual([false, true, true]);
  });
});

describe('a hold that ended', () => {
  const ending = {
    key: { namespace: 'test', name: 'lock' },
    place: placeOf({ fence: 30, rev: 31 }, 0),
    event: released(1),
  };

  it('is one item with its grant, or two if many grants came in between', () => {
    expect(endedHold(ending, granted(1), laterGrantsMax)).toEqual([{ ...ending, grant: granted(1) }]);
    expect(endedHold(ending, granted(1), laterGrantsMax + 1)).toEqual([
      ending,
      { key: ending.key, place: grantPlaceOf(1), event: granted(1) },
    ]);
  });
});

describe('a page of a listing', () => {
  it('says that there is no other if it shows everything, even if it is full', () => {
    const found = [hold(1, 1)];
    expect(listed({ ...nothing, limit: 3, found })).toEqual({ events: [released(1), granted(1)] });
    expect(listed({ ...nothing, limit: 2, found })).toEqual({ events: [released(1), granted(1)] });
    expect(listed({ ...nothing, limit: 2 })).toEqual({ events: [] });
  });

  it('names the holds that are open at its end, and only those', () => {
    // The holds 2 and 3 overlap: both ended after the grant of 3.
    const found = [hold(4, 4), hold(2, 3), hold(3, 3)].sort((one, other) => (one.place < other.place ? 1 : -1));
    const [, third, second] = found;
    const page = listed({ ...nothing, limit: 4, found, standing: [granted(5)] });
    expect(page.events).toEqual([granted(5), released(4), granted(4), released(3)]);
    expect(readPlaces(page.before)).toEqual({ before: third?.place, open: [third?.place] });
    const next = listed({
      ...nothing,
      limit: 2,
      before: third?.place,
      found: [second as never],
      open: [third as never],
    });
    expect(next.events).toEqual([released(2), granted(3)]);
    expect(readPlaces(next.before)).toEqual({ before: grantPlaceOf(3), open: [second?.place] });
  });

  it('shows nothing that was before an event which it has not read', () => {
    // Two hosts disagree about the time, so an older place may have a younger event.
    const old = { endedAt: tooOld, grantedAt: tooOld };
    const found = [hold(10, 10, old), hold(9, 9, old), hold(3, 8)];
    const page = listed({ ...nothing, limit: 3, found });
    expect(page.events).toEqual([released(3)]);
    expect(readPlaces(page.before)).toEqual({ before: found[2]?.place, open: [found[2]?.place] });
  });

  it('names a hold that ended while it was read, because the lock will not tell of its grant again', () => {
    const found = [hold(1, 1)];
    const page = listed({ ...nothing, limit: 1, found, standing: [granted(1)] });
    expect(page.events).toEqual([released(1)]);
    expect(readPlaces(page.before)).toEqual({ before: found[0]?.place, open: [found[0]?.place] });
  });

  it('is the last one if all that it found is too old', () => {
    const found = [hold(9, 9, { endedAt: tooOld, grantedAt: tooOld })];
    expect(listed({ ...nothing, limit: 1, found })).toEqual({ events: [] });
  });
});

describe('the cursor of a listing', () => {
  const place = placeOf({ fence: 7, rev: 8 }, 9);
  const withOpen = (count: number) => Array.from({ length: count + 1 }, () => place).join('~');

  it.each([0, 1, laterGrantsMax + 1])('may name %i open holds', (count) => {
    expect(withOpen(count)).toMatch(cursorPattern);
    expect(readPlaces(withOpen(count))).toEqual({ before: place, open: Array.from({ length: count }, () => place) });
  });

  it.each([
    '',
    withOpen(laterGrantsMax + 2),
    `${place}~`,
    ` ${place}`,
    place.slice(1),
    place.slice(0, -1),
    place.replace('.0', '.'),
    place.replaceAll('0', 'x'),
  ])('is not %j', (text) => {
    expect(text).not.toMatch(cursorPattern);
  });

  it('is not needed for the first page', () => {
    expect(readPlaces(undefined)).toStrictEqual({ open: [] });
  });
});
