import { randomUUID } from 'node:crypto';
import type { Field } from '../field.ts';
import { median, rateOf } from '../measure.ts';
import type { MemoryRow } from '../results.ts';
import { cycleOf } from './cycle.ts';

const clients = 16;
const slices = 12;
/** A heap first grows to its working size. Only growth after that counts. */
const warmSlices = 4;

/** The memory of the service under load, and whether it grows. */
export async function benchMemory({ contestants, service }: Field, budgetMs: number): Promise<MemoryRow | null> {
  const http = contestants.find(({ id }) => id === 'holdfast-http');
  if (http === undefined) return null;
  const resident: number[] = [];
  let cycles = 0;
  for (let slice = 0; slice < slices; slice++) {
    // New names each time, so that a leak per name would be visible.
    const names = Array.from({ length: clients }, () => randomUUID());
    const { count } = await rateOf(clients, budgetMs / slices, (client) => cycleOf(http, names[client] as string));
    cycles += count;
    resident.push(await service.residentBytes());
  }
  const warm = resident.slice(warmSlices);
  const half = warm.length / 2;
  return { cycles, growth: median(warm.slice(half)) / median(warm.slice(0, half)) };
}
