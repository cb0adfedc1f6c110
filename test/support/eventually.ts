import { vi } from 'vitest';

/**
 * Repeats a check until it passes. The two minutes are only for a busy machine. A test that is about time compares with
 * what would happen without the feature.
 */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(check, { timeout: 120_000, interval: 20 });
