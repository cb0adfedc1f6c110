import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

/** One protected resource, fresh and empty, behind some guard. */
export interface GuardedResource {
  write(fence: number, value: string): Promise<{ kind: string; floor?: number }>;
  read(): Promise<{ value: string | null; floor: number | null }>;
}

/** Fences as the service issues them: epoch milliseconds. So no test passes only because numbers are small. */
const epoch = 1_800_000_000_000;
const fenceA = epoch + 33;
const fenceB = epoch + 34;

/**
 * The one suite that every guard passes. Holder A gets a fence and pauses. Its lease ends. Holder B gets the next fence
 * and writes. Then A goes on and writes late.
 */
export function describePauseStory(
  name: string,
  fresh: () => Promise<GuardedResource>,
  options: { runs: number },
): void {
  describe(`${name}: the pause story`, () => {
    it('accepts the first write, when nothing is stored yet', async () => {
      const resource = await fresh();
      expect(await resource.write(fenceA, 'by A')).toMatchObject({ kind: 'written' });
      expect(await resource.read()).toEqual({ value: 'by A', floor: fenceA });
    });

    it("refuses the late write of a holder that paused, names the floor, and keeps the successor's value", async () => {
      const resource = await fresh();
      await resource.write(fenceA, 'by A');
      expect(await resource.write(fenceB, 'by B')).toMatchObject({ kind: 'written' });
      expect(await resource.write(fenceA, 'late by A')).toMatchObject({ kind: 'stale', fence: fenceA, floor: fenceB });
      expect(await resource.read()).toEqual({ value: 'by B', floor: fenceB });
    });

    it('refuses the late write of a holder that never wrote before', async () => {
      const resource = await fresh();
      await resource.write(fenceB, 'by B');
      expect(await resource.write(fenceA, 'late by A')).toMatchObject({ kind: 'stale', floor: fenceB });
      expect(await resource.read()).toEqual({ value: 'by B', floor: fenceB });
    });

    it('accepts many writes under one fence, also a repeated one that changes nothing', async () => {
      const resource = await fresh();
      for (const value of ['one', 'two', 'two', 'two']) {
        expect(await resource.write(fenceA, value)).toMatchObject({ kind: 'written' });
      }
      expect(await resource.read()).toEqual({ value: 'two', floor: fenceA });
    });

    it('distinguishes two fences next to each other at the top of the exact integers', async () => {
      const resource = await fresh();
      const top = Number.MAX_SAFE_INTEGER;
      await resource.write(top, 'by the last');
      expect(await resource.write(top - 1, 'by the one before')).toMatchObject({ kind: 'stale', floor: top });
      expect(await resource.read()).toEqual({ value: 'by the last', floor: top });
    });

    it('ends, after writers in any order at once, with the highest fence and its value', async () => {
      const fences = fc.uniqueArray(fc.integer({ min: 1, max: 12 }), { minLength: 2, maxLength: 6 });
      await fc.assert(
        fc.asyncProperty(fences, async (offsets) => {
          const resource = await fresh();
          const outcomes = await Promise.all(
            offsets.map(async (offset) => ({
              fence: epoch + offset,
              ...(await resource.write(epoch + offset, `by ${epoch + offset}`)),
            })),
          );
          const highest = epoch + Math.max(...offsets);
          expect(await resource.read()).toEqual({ value: `by ${highest}`, floor: highest });
          for (const { kind, fence, floor } of outcomes) {
            if (fence === highest) expect(kind).toBe('written');
            if (kind === 'stale') expect(floor).toBeGreaterThan(fence);
          }
        }),
        { numRuns: options.runs },
      );
    });
  });
}

/** A suite that is skipped because its engine is not installed must not look like one that passed. */
export function describeWithEngine(
  engine: string,
  path: string | null,
  install: string,
  suite: (path: string) => void,
): void {
  if (path !== null) {
    describe(engine, () => suite(path));
    return;
  }
  console.warn(`\n*** SKIPPED: the guard for ${engine} is not proved in this run. Install it: ${install}\n`);
  describe.skip(engine, () => {
    it(`needs the real engine: ${install}`, () => {});
  });
}
