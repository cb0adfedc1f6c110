/** Several locks in one step. Pure: it says what to write so that all are granted, or which holders prevent it. */
import type { Acquire, Answer, Facts, Renew } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import type { Holder, LockState } from '../lock/state.ts';

export const multiLimits = {
  /**
   * A transaction takes 100 items. Half of that leaves space for other items. A caller that needs more locks needs
   * another design.
   */
  locksMax: 50,
} as const;

export interface Part<Command> {
  readonly name: string;
  readonly state: LockState;
  readonly command: Command;
}

export interface Swap {
  readonly name: string;
  readonly next: LockState;
  /** Set only if this is a plain renewal of a lease that has its own end. */
  readonly renewal?: { readonly command: Renew };
}

export interface Refusal {
  readonly name: string;
  readonly answer: Answer;
  readonly state: LockState;
}

export type Plan =
  /** These writes, all of them or none, make every part true. The list is empty if everything is already true. */
  | { readonly kind: 'granted'; readonly swaps: readonly Swap[]; readonly holders: readonly Holder[] }
  | { readonly kind: 'refused'; readonly refusals: readonly Refusal[] };

/** All or nothing: either every part is granted, or nothing is written. Each lock keeps its own fence. */
export function planAll(parts: readonly Part<Acquire | Renew>[], facts: Facts): Plan {
  const swaps: Swap[] = [];
  const holders: Holder[] = [];
  const refusals: Refusal[] = [];
  let changes = false;
  for (const { name, state, command } of parts) {
    const { next, answer } = decide(state, command, facts);
    if (answer.kind !== 'granted') {
      refusals.push({ name, answer, state });
      continue;
    }
    holders.push(answer.holder);
    changes = changes || next !== state;
    // A lock that is already held is written too: it must still be held when the others are granted.
    // A write to only one lease can't check sessions, or a later write by a faster clock.
    const isRenewal =
      command.kind === 'renew' &&
      state.changedAt <= facts.now &&
      state.holders.every(({ leaseMs }) => leaseMs !== null);
    swaps.push({
      name,
      next: next === state ? { ...state, rev: state.rev + 1, changedAt: facts.now } : next,
      ...(isRenewal ? { renewal: { command } } : {}),
    });
  }
  if (refusals.length > 0) return { kind: 'refused', refusals };
  return { kind: 'granted', swaps: changes ? swaps : [], holders };
}

/** All callers take locks in this order, so that waiters for several locks can't wait in a circle. No name occurs twice. */
export const canonicalOrder = <T extends { readonly name: string }>(entries: readonly T[]): T[] =>
  [...entries].sort((one, other) => (one.name < other.name ? -1 : 1));

export interface Wait {
  /** When the lease first asked for these locks. `waitedMs` counts from here, over all requests. */
  readonly since: number;
  /** When the wait ends. Null if the lease is in no queue. Then only the next request says how long it waits. */
  readonly deadlineAt: number | null;
}

/**
 * The wait of a lease for these locks, as far as the locks remember it. As on a single lock, the deadline is stored
 * with the place in the queue.
 */
export function waitOf(states: readonly LockState[], leaseId: string): Wait | undefined {
  const waiters = states.flatMap(({ queue }) => queue.filter((waiter) => waiter.leaseId === leaseId));
  const holders = states.flatMap((state) => state.holders.filter((holder) => holder.leaseId === leaseId));
  const instants = [
    ...holders.map(({ queuedAt, acquiredAt }) => queuedAt ?? acquiredAt),
    ...waiters.map(({ queuedAt }) => queuedAt),
  ];
  if (instants.length === 0) return undefined;
  const deadlines = waiters.map(({ deadlineAt }) => deadlineAt);
  return { since: Math.min(...instants), deadlineAt: deadlines.length === 0 ? null : Math.min(...deadlines) };
}
