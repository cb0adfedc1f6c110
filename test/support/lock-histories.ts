/** A mutex and a record as sequential objects. Histories are checked against these specifications. */
import { lockLimits } from '../../src/lock/limits.ts';
import { recordLimits } from '../../src/record/limits.ts';
import type { Ahead, Operation, Specification } from './linearizability.ts';

export type LockInput =
  | { readonly kind: 'acquire'; readonly leaseId: string; readonly leaseMs: number }
  /** If no time is given, it renews for the time of the original lease. */
  | { readonly kind: 'renew'; readonly leaseId: string; readonly leaseMs?: number | undefined }
  | { readonly kind: 'release'; readonly leaseId: string };

export type LockOutput =
  | { readonly kind: 'granted'; readonly fence: number }
  /** Refused, timed out, or lost: it changed nothing. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'lost' }
  | { readonly kind: 'released'; readonly first: boolean };

export interface MutexState {
  readonly fence: number;
  readonly holder?: {
    readonly leaseId: string;
    /** Undefined if no answer has shown it yet, because the answer to the grant was lost. */
    readonly fence: number | undefined;
    readonly leaseMs: number;
    /** Before this instant, nobody else can have treated the lease as expired. */
    readonly endsFrom: number;
  };
  /** Every lease that has ended, in the order of their names. */
  readonly ended: readonly string[];
  /** The last operation can't have happened before this instant, because a lease had to expire first. */
  readonly at: number;
}

export type LockOperation = Operation<LockInput, LockOutput>;

/**
 * Whether the lock may have forgotten by an instant that a lease has ended. It remembers its eight latest endings, and a history does not
 * show all of them: a waiter that leaves the front is among them, and so is a lease of which every answer was lost.
 */
export type IsForgotten = (leaseId: string, by: number) => boolean;

/**
 * The same, from the history alone. A lease may be forgotten once eight others can have ended after it: each that was asked for by then, and of
 * which something was still under way when this one was first asked for. What was never answered may be under way for ever.
 */
export function forgettableIn(history: readonly LockOperation[]): IsForgotten {
  const spans = new Map<string, { from: number; until: number }>();
  for (const { input, calledAt, answer } of history) {
    const { from, until } = spans.get(input.leaseId) ?? { from: calledAt, until: calledAt };
    const returnedAt = answer?.returnedAt ?? Number.POSITIVE_INFINITY;
    spans.set(input.leaseId, { from: Math.min(from, calledAt), until: Math.max(until, returnedAt) });
  }
  return (leaseId, by) => {
    const since = spans.get(leaseId)?.from ?? Number.NEGATIVE_INFINITY;
    const others = [...spans].filter(([other, { from, until }]) => other !== leaseId && from <= by && until >= since);
    return others.length >= lockLimits.endedRemembered;
  };
}

/**
 * A mutex with leases. Time matters only in one way: a lease that could have expired before another operation returned
 * may be gone. `skewMs` is the largest difference between the clocks of service and observer.
 */
export const mutexSpecification = (
  skewMs: number,
  isForgotten: IsForgotten = () => false,
): Specification<MutexState, LockInput, LockOutput> => ({
  initial: { fence: 0, ended: [], at: 0 },
  keyOf: ({ fence, holder, ended, at }) =>
    `${at} ${fence} ${holder?.leaseId} ${holder?.fence} ${holder?.leaseMs} ${holder?.endsFrom} ${ended.join()}`,
  groupOf: ({ input }) => input.leaseId,
  reduce,
  // After every answer about its lease is explained, a lost acquire explains nothing: the next caller takes over
  // without it.
  mayExplain: ({ holder }, { input: { kind, leaseId } }, { isAwaited }) =>
    isAwaited(leaseId) || (kind !== 'acquire' && holder?.leaseId === leaseId),
  rankOf: ({ fence }) => fence,
  rankMaxOf: ({ answer }) => (answer?.output.kind === 'granted' ? answer.output.fence : Number.POSITIVE_INFINITY),
  step: (state, operation) => {
    const { input, answer, calledAt } = operation;
    if (answer !== undefined && answer.returnedAt < state.at) return [];
    switch (input.kind) {
      case 'acquire': {
        const latest = answer?.returnedAt ?? Number.POSITIVE_INFINITY;
        const endsFrom = calledAt + input.leaseMs - skewMs;
        return acquire(state, { ...input, endsFrom }, latest, answer?.output, isForgotten);
      }
      case 'renew': {
        const leaseMs = input.leaseMs ?? state.holder?.leaseMs ?? 0;
        return renew(state, { ...input, leaseMs, endsFrom: calledAt + leaseMs - skewMs }, answer?.output);
      }
      case 'release':
        return release(state, input.leaseId, answer?.output);
    }
  },
});

/** Drops an instant that is before everything still to come, and the name of a lease that nothing will ask about. */
function reduce({ fence, holder, ended, at }: MutexState, { firstReturn, mayHappen }: Ahead): MutexState {
  const unlessPast = (instant: number) => (instant <= firstReturn ? 0 : instant);
  const reduced = { fence, at: unlessPast(at), ended: ended.filter(mayHappen) };
  if (holder === undefined) return reduced;
  const endsFrom = unlessPast(holder.endsFrom);
  if (mayHappen(holder.leaseId)) return { ...reduced, holder: { ...holder, endsFrom } };
  return { ...reduced, holder: { leaseId: '', leaseMs: 0, fence: undefined, endsFrom } };
}

interface Lease {
  readonly leaseId: string;
  readonly leaseMs: number;
  readonly endsFrom: number;
}

/**
 * A history without operations that can neither break nor explain anything. A refused operation changed nothing. Most
 * lost renewals could only make a lease longer. A lost operation on a lease that no answer ever showed may as well not
 * have happened. The rest is linearizable if and only if the whole is, and much faster to check.
 */
export function relevantOf(history: readonly LockOperation[]): LockOperation[] {
  const tells = ({ answer }: LockOperation) => answer?.output.kind === 'granted' || answer?.output.kind === 'released';
  const shown = new Set(history.filter(tells).map(({ input }) => input.leaseId));
  const longestMs = longestLeases(history);
  // A renewal ends a lease earlier only if it names a time, and another request named a longer one.
  const mayShorten = ({ input }: LockOperation) =>
    input.kind === 'renew' && input.leaseMs !== undefined && input.leaseMs < (longestMs.get(input.leaseId) ?? 0);
  return history.filter(
    (operation) =>
      tells(operation) ||
      (operation.answer === undefined &&
        shown.has(operation.input.leaseId) &&
        (operation.input.kind !== 'renew' || mayShorten(operation))),
  );
}

/** The longest time that any request named for each lease. */
function longestLeases(history: readonly LockOperation[]): Map<string, number> {
  const longestMs = new Map<string, number>();
  for (const { input } of history) {
    if (input.kind === 'release') continue;
    longestMs.set(input.leaseId, Math.max(longestMs.get(input.leaseId) ?? 0, input.leaseMs ?? 0));
  }
  return longestMs;
}

const remember = (ended: readonly string[], leaseId: string): readonly string[] =>
  ended.includes(leaseId) ? ended : [...ended, leaseId].sort();

function acquire(
  state: MutexState,
  { leaseId, leaseMs, endsFrom }: Lease,
  latest: number,
  output: LockOutput | undefined,
  isForgotten: IsForgotten,
): readonly MutexState[] {
  if (output !== undefined && output.kind !== 'granted') return [state];
  const { holder } = state;
  if (holder?.leaseId === leaseId) {
    if (output === undefined) return [];
    // The first answer with the fence fixes it. Every later answer must have the same one.
    if (holder.fence !== undefined) return holder.fence === output.fence ? [state] : [];
    return output.fence > state.fence
      ? [{ ...state, fence: output.fence, holder: { ...holder, fence: output.fence } }]
      : [];
  }
  if (holder !== undefined && latest < holder.endsFrom) return [];
  if (state.ended.includes(leaseId) && !isForgotten(leaseId, latest)) return [];
  const ended = holder === undefined ? state.ended : remember(state.ended, holder.leaseId);
  const at = Math.max(state.at, holder?.endsFrom ?? 0);
  if (output === undefined) return [{ ...state, at, ended, holder: { leaseId, leaseMs, fence: undefined, endsFrom } }];
  if (output.fence <= state.fence) return [];
  return [{ at, fence: output.fence, ended, holder: { leaseId, leaseMs, fence: output.fence, endsFrom } }];
}

function renew(
  state: MutexState,
  { leaseId, leaseMs, endsFrom }: Lease,
  output: LockOutput | undefined,
): readonly MutexState[] {
  const { holder } = state;
  if (output !== undefined && output.kind !== 'granted') return [state];
  if (holder?.leaseId !== leaseId) return [];
  if (output !== undefined && holder.fence !== undefined && output.fence !== holder.fence) return [];
  const fence = holder.fence ?? output?.fence;
  if (fence !== undefined && holder.fence === undefined && fence <= state.fence) return [];
  return [{ ...state, fence: Math.max(state.fence, fence ?? 0), holder: { leaseId, leaseMs, fence, endsFrom } }];
}

function release(state: MutexState, leaseId: string, output: LockOutput | undefined): readonly MutexState[] {
  const { holder, ended, fence, at } = state;
  const holds = holder?.leaseId === leaseId;
  const free: MutexState = { at, fence, ended: remember(ended, leaseId) };
  if (output === undefined) return holds ? [free] : [];
  // If a release took effect and was repeated within one request, the answer is the one to the first try, and the lease
  // is already over.
  if (output.kind === 'released' && output.first) return holds ? [free] : ended.includes(leaseId) ? [state] : [];
  // If the answer says that the lease is over, it must not be valid.
  if (output.kind === 'released') return holds ? [] : [state];
  return [state];
}

export type RecordInput =
  | { readonly kind: 'get' }
  | {
      readonly kind: 'put';
      readonly value: string;
      readonly expects: number | 'absent' | 'present';
      readonly fence?: number | undefined;
      readonly writeId: string;
    }
  | {
      readonly kind: 'delete';
      readonly expects: number | 'present';
      readonly fence?: number | undefined;
      readonly writeId: string;
    };

export type RecordOutput =
  | { readonly kind: 'found'; readonly value: string; readonly version: number }
  | { readonly kind: 'none' }
  | { readonly kind: 'written'; readonly version: number }
  | { readonly kind: 'mismatch' }
  | { readonly kind: 'stale' };

export interface RegisterState {
  readonly version: number;
  readonly value: string | null;
  readonly floor: number | null;
  /** The ids of the latest writes, newest first. Empty if nobody can repeat one any more. */
  readonly writeIds: readonly string[];
}

export type RecordOperation = Operation<RecordInput, RecordOutput>;

const readOf = (version: number): string => `read of ${version}`;

/** A compare-and-swap register whose version and floor only rise. */
export const recordSpecification: Specification<RegisterState, RecordInput, RecordOutput> = {
  initial: { version: 0, value: null, floor: null, writeIds: [] },
  keyOf: ({ version, value, floor, writeIds }) => `${version} ${value} ${floor} ${writeIds.join()}`,
  groupOf: ({ input, answer }) => {
    if (input.kind !== 'get') return input.writeId;
    return answer?.output.kind === 'found' ? readOf(answer.output.version) : '';
  },
  // A value that nobody will read may be any value. The id of a write matters only to its repeats.
  reduce: ({ version, value, floor, writeIds }, { isAwaited, mayHappen }) => ({
    version,
    floor,
    value: value === null || isAwaited(readOf(version)) ? value : '',
    writeIds: writeIds.map((id) => (id !== '' && mayHappen(id) ? id : '')),
  }),
  // A write that replaces a version succeeds at that version or never.
  mayExplain: ({ version }, { input }) =>
    input.kind !== 'get' && (typeof input.expects !== 'number' || input.expects >= version),
  rankOf: ({ version }) => version,
  rankMaxOf: ({ answer }) => {
    const output = answer?.output;
    // A write that is repeated late gets the version that it made. Others may have raised the version since.
    return output?.kind === 'found' ? output.version : Number.POSITIVE_INFINITY;
  },
  step: (state, { input, answer }) => {
    const output = answer?.output;
    if (input.kind === 'get') {
      if (output?.kind === 'found')
        return output.version === state.version && output.value === state.value ? [state] : [];
      return output?.kind === 'none' && state.value === null ? [state] : [];
    }
    const age = state.writeIds.indexOf(input.writeId);
    const repeated = age >= 0;
    const stale = state.floor !== null && (input.fence === undefined || input.fence < state.floor);
    const { expects } = input;
    const met =
      expects === 'absent'
        ? state.value === null
        : state.value !== null && (expects === 'present' || expects === state.version);
    if (output?.kind === 'stale') return stale && !repeated ? [state] : [];
    if (output?.kind === 'mismatch') return !stale && !met && !repeated ? [state] : [];
    if (repeated) return output?.kind === 'written' && output.version === state.version - age ? [state] : [];
    const version = state.version + 1;
    if (stale || !met || (output?.kind === 'written' && output.version !== version)) return [];
    const value = input.kind === 'put' ? input.value : null;
    const writeIds = [input.writeId, ...state.writeIds].slice(0, recordLimits.writeIdsRemembered);
    return [{ version, value, floor: input.fence ?? state.floor, writeIds }];
  },
};
