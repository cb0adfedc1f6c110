import { lockLimits } from './limits.ts';
import { type LockState, permitsHeld } from './state.ts';

/**
 * What is true of every state of a lock, whichever release wrote it. Answers with what is wrong, or undefined if nothing is. The store asks after each
 * read and before each write, and the simulation at each write. The answer names no lease: it goes into logs.
 */
export function brokenInvariant(state: LockState): string | undefined {
  const { holders, queue, ended, fence, limit, pages } = state;
  const held = permitsHeld(state);
  if (held > limit) return `${held} permits are held of ${limit}`;
  if ([...holders, ...queue].some(({ permits }) => permits < 1)) return 'a claim is for less than one permit';
  const fences = [0, ...holders.map((holder) => holder.fence)];
  if (fences.some((one, index) => index > 0 && one <= (fences[index - 1] ?? 0)))
    return 'the fences of its holders do not ascend';
  if ((fences.at(-1) ?? 0) > fence) return 'a holder has a fence above the highest granted';
  if (hasRepeats([...holders, ...queue])) return 'a lease stands in two places';
  if (pages !== undefined && pages.first > pages.last + 1) return 'its pages end before they begin';
  if (ended.length > lockLimits.endedRemembered) return `it remembers ${ended.length} endings`;
  return undefined;
}

const hasRepeats = (claims: readonly { readonly leaseId: string }[]): boolean =>
  new Set(claims.map(({ leaseId }) => leaseId)).size < claims.length;
