import { vi } from 'vitest';

/**
 * Repeats a check until it passes. The half minute is for a busy machine only: what a test says about time, it says by itself, by comparing with
 * what would happen without the thing under test.
 */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });
