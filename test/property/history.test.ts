import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { HistoryEntry, HistoryEvent } from '../../src/store/history.ts';
import { endedHold, grantPlaceOf, laterGrantsMax, placeOf } from '../../src/store/history-rules.ts';
import { epochMs } from '../../src/time/clock.ts';
import { memoryStores } from '../support/memory-table.ts';

const key = { namespace: 'property', name: 'history' };
const now = epochMs(1_800_000_000_000);

interface Hold {
  /** How many grants were made during it. */
  readonly laterGrants: number;
  readonly state: 'ended' | 'lasts' | 'ended while it was read';
  /** Whether an earlier release wrote its grant by itself. */
  readonly isGrantWritten: boolean;
}

const holds = fc.array(
  fc.record<Hold>({
    laterGrants: fc.oneof(fc.constant(0), fc.nat(25)),
    state: fc.constantFrom('ended', 'lasts', 'ended while it was read'),
    isGrantWritten: fc.boolean(),
  }),
  { minLength: 1, maxLength: 40 },
);

describe('a listing of the history', () => {
  it('tells of each grant and of each end once and in order, whatever the size of its pages', async () => {
    await fc.assert(
      fc.asyncProperty(holds, fc.integer({ min: 1, max: 9 }), async (all, limit) => {
        const { history } = memoryStores({ clock: { now: () => now } });
        const standing: HistoryEvent[] = [];
        const expected: { place: string; name: string }[] = [];
        for (const [index, { laterGrants, state, isGrantWritten }] of all.entries()) {
          const fence = index + 1;
          const grant: HistoryEvent = { at: now - 1, type: 'granted', fence, owner: 'me', waitedMs: 0 };
          expected.push({ place: grantPlaceOf(fence), name: `granted ${fence}` });
          if (state !== 'ended') standing.push(grant);
          if (state === 'lasts') continue;
          const place = placeOf({ fence: fence + laterGrants, rev: 1_000 + index }, 0);
          const event: HistoryEvent = { at: now, type: 'released', fence, owner: 'me', heldMs: 1 };
          const ending: HistoryEntry = { key, place, event };
          expected.push({ place, name: `released ${fence}` });
          await history.append(endedHold(ending, grant, laterGrants));
          // A listing knows of a grant by itself as long as the item of its hold tells of the grant too.
          const isDoubled = isGrantWritten && state === 'ended' && laterGrants <= laterGrantsMax;
          const besides = `${grantPlaceOf(fence).slice(0, -1)}1`;
          if (isDoubled) await history.append([{ key, place: besides, event: grant }]);
        }
        const listed: string[] = [];
        let before: string | undefined;
        do {
          const page = await history.page(key, { limit, before, standing });
          expect(page.events.length).toBeLessThanOrEqual(limit);
          listed.push(...page.events.map(({ type, fence }) => `${type} ${fence}`));
          before = page.before;
          // A listing that never ends is a failure, and not a test that hangs.
          expect(listed.length).toBeLessThanOrEqual(expected.length);
          expect(page.events.length === 0 && before !== undefined).toBe(false);
        } while (before !== undefined);
        const inOrder = expected.toSorted((one, other) => (one.place < other.place ? 1 : -1)).map(({ name }) => name);
        expect(listed).toEqual(inOrder);
      }),
      { numRuns: 300 },
    );
  });
});
