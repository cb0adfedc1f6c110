import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { eventually } from './eventually.ts';

const hasProc = existsSync('/proc/self/stat');

/** One letter: the state of a process. Throws if there is no such process. */
function stateOf(pid: number): string {
  // To read a file is much cheaper than to start `ps`, and tests ask often.
  if (!hasProc) return execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).charAt(0);
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name of the program comes before, in brackets, and may contain anything.
  return stat.charAt(stat.lastIndexOf(')') + 2);
}

/** The state is Z if a process has ended but was not yet reaped. Such a process can't do anything any more. */
export function isRunning(pid: number): boolean {
  try {
    return stateOf(pid) !== 'Z';
  } catch {
    return false;
  }
}

export const waitUntilGone = (...pids: number[]): Promise<void> =>
  eventually(() => expect(pids.filter(isRunning)).toEqual([]));
