/**
 * The flag `--if-held`: what a command does if somebody else has the lock. It is like flock's `-E` and `-n` for cron.
 */
import { isHoldfastError } from '../client/index.ts';
import type { Given } from './arguments.ts';
import type { Flags } from './command.ts';
import { exitCodes } from './exit-codes.ts';
import { UsageError } from './failure.ts';

export const ifHeld: Flags = {
  'if-held <how>': `If the lock is held: skip exits quietly with 0, fail with ${exitCodes.refused} (default), a number with that code.`,
};

const heldCodes: readonly string[] = ['lock-held', 'wait-timeout', 'queue-full'];

/** The exit code for a lock that is held. Undefined if a held lock is an ordinary failure. */
export function readIfHeld(given: Given): number | undefined {
  const text = given.text('if-held') ?? 'fail';
  if (text === 'fail') return undefined;
  if (text === 'skip') return exitCodes.ok;
  const code = /^\d{1,3}$/.test(text) ? Number(text) : Number.NaN;
  if (code >= 0 && code <= 255) return code;
  throw new UsageError(`--if-held expects skip, fail or an exit code from 0 to 255, but got '${text}'.`);
}

/** Runs the work. If the lock is held, returns the code that the user asked for. */
export async function unlessHeld<T>(exitCode: number | undefined, work: () => Promise<T>): Promise<T | number> {
  try {
    return await work();
  } catch (error) {
    if (exitCode === undefined || !isHoldfastError(error) || !heldCodes.includes(error.code)) throw error;
    return exitCode;
  }
}
