import { lockLimits } from './limits.ts';
import { type LockState, permitsHeld } from './state.ts';

/**
 * Says what is wrong with the state of a lock, or undefined if nothing is. These rules hold for every state, whichever
 * release wrote it. The store checks them after each read and before each write, the simulation at each write. The text
 * names no lease, because it is logged.
 */
export function brokenInvariant(state: LockState): string | undefined {
  const { holders, queue, ended, fence, limit, behind } = state;
  const held = permitsHeld(state);
  if (held > limit) return `${held} permits are held of ${limit}`;
  if ([...holders, ...queue].some(({ permits }) => permits < 1)) return 'a claim has less than one permit';
  const fences = [0, ...holders.map((holder) => holder.fence)];
  if (fences.some((one, index) => index > 0 && one <= (fences[index - 1] ?? 0)))
    return 'the fences of its holders do not ascend';
  if ((fences.at(-1) ?? 0) > fence) return 'a holder has a fence above the highest granted';
  if (hasRepeats([...holders, ...queue])) return 'a lease is in two places';
  if (behind !== undefined && behind.first > behind.last + 1) return 'its queue ends before it begins';
  if (ended.length > lockLimits.endedRemembered) return `it remembers ${ended.length} endings`;
  return undefined;
}

const hasRepeats = (claims: readonly { readonly leaseId: string }[]): boolean =>
  new Set(claims.map(({ leaseId }) => leaseId)).size < claims.length;
