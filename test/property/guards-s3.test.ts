import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { putFenced, type S3Objects } from '../../src/guards/s3.ts';

/**
 * Objects as in S3: an ETag is a digest of the body without the metadata, and conditions are checked in the step that
 * writes.
 */
function memoryObjects() {
  let object: { etag: string; body: string; metadata: Readonly<Record<string, string>> } | null = null;
  const floors: number[] = [];
  const objects: S3Objects = {
    head: async () => object,
    async put(_key, body, { metadata, ...condition }) {
      const holds = 'ifMatch' in condition ? object?.etag === condition.ifMatch : object === null;
      if (!holds) return 'conflict';
      object = { etag: createHash('md5').update(body).digest('hex'), body: String(body), metadata };
      floors.push(Number(metadata.fence));
      return { etag: object.etag };
    },
  };
  return { objects, floors, stored: () => object };
}

describe('putFenced under every order of requests', () => {
  it('never lowers the floor, and ends with the value of the highest fence', async () => {
    // Two values only, so that writers often restore bytes that a paused writer has seen.
    const writers = fc.array(fc.record({ fence: fc.integer({ min: 1, max: 5 }), value: fc.constantFrom('x', 'y') }), {
      minLength: 2,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), writers, async (scheduler, writes) => {
        const { objects, floors, stored } = memoryObjects();
        // Each request of each writer waits for the scheduler, which chooses the order.
        const scheduled: S3Objects = {
          head: scheduler.scheduleFunction(objects.head),
          put: scheduler.scheduleFunction(objects.put),
        };
        const options = { attemptsMax: 50, sleep: async () => {} };
        const outcomes = Promise.all(writes.map((write) => putFenced(scheduled, { key: 'k', ...write }, options)));
        await scheduler.waitFor(outcomes);

        expect(floors).toEqual(floors.toSorted((a, b) => a - b));
        const highest = Math.max(...writes.map(({ fence }) => fence));
        expect(stored()?.metadata.fence).toBe(String(highest));
        expect(JSON.parse(stored()?.body ?? '').fence).toBe(highest);
        for (const [i, outcome] of (await outcomes).entries()) {
          if (writes[i]?.fence === highest) expect(outcome.kind).toBe('written');
          if (outcome.kind === 'stale') expect(outcome.floor).toBeGreaterThan(outcome.fence);
        }
      }),
      { numRuns: 300 },
    );
  });
});
