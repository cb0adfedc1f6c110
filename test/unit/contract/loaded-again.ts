import { vi } from 'vitest';
import type * as contract from '../../../src/contract/operations.ts';

/**
 * The contract, from modules that are loaded again. Most of it is made while its modules load, so mutation testing can
 * plant faults there only if that happens within a test.
 */
export async function loadContract(): Promise<typeof contract> {
  vi.resetModules();
  return import('../../../src/contract/operations.ts');
}
