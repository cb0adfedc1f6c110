import type { Acquire, Answer, Facts, Renew } from '../lock/commands.ts';
import { lockLimits } from '../lock/limits.ts';
import { demandOf, type Holder, type LockState } from '../lock/state.ts';
import { waitedMs } from '../lock/view.ts';
import { canonicalOrder, planAll, type Refusal, type Wait, waitOf } from '../multi/plan.ts';
import { withPages } from '../queue/finding.ts';
import { leaseNameOf } from '../table/digest.ts';
import { StoreError } from '../table/store-error.ts';
import { pauseFor } from '../time/timers.ts';
import { backoffMs } from '../tools/backoff.ts';
import { defined } from '../tools/collections.ts';
import { type Acquired, type AcquireRequest, acquire, ownerOf } from './acquire.ts';
import { type Answered, apply, handedOverIn } from './apply.ts';
import { factsAmong, type LockContext } from './context.ts';

export interface MultiEntry extends Pick<AcquireRequest, 'limit' | 'permits' | 'mode'> {
  readonly name: string;
}

export interface MultiAcquire
  extends Pick<AcquireRequest, 'leaseId' | 'owner' | 'isOwnerDefault' | 'leaseMs' | 'waitMs' | 'sessionId'> {
  readonly entries: readonly MultiEntry[];
}

export type MultiOutcome =
  /** The holders in the order of the request. */
  | { readonly kind: 'granted'; readonly holders: readonly Holder[]; readonly facts: Facts; readonly waitedMs: number }
  | { readonly kind: 'waiting'; readonly name: string; readonly waiting: Acquired; readonly waitRemainingMs: number }
  | {
      readonly kind: 'refused';
      readonly refusals: readonly Refusal[];
      readonly facts: Facts;
      readonly waitedMs: number;
    }
  | { readonly kind: 'session-lost' };

/** With fifty busy locks, others may write in between at every try. So the tries have a limit. */
const triesMax = 10;
/** The locks that are already taken are held at least this long at a time: twice the time that a waiter may be absent. */
const gatherMsMin = 2 * lockLimits.waiterAbsenceMs;

/**
 * Takes several locks. Without a wait, in one step, all or none. With a wait, one after the other in canonical order, and
 * if that fails, all are released.
 */
export async function acquireAll(
  context: LockContext,
  namespace: string,
  request: MultiAcquire,
  gone?: AbortSignal,
): Promise<MultiOutcome> {
  const startedAt = context.clock.now();
  const tried = await tryAll(context, namespace, request);
  if (tried.kind !== 'refused' || request.waitMs === 0 || tried.refusals.some(({ answer }) => !isGatheredOn(answer))) {
    return tried;
  }
  const since = tried.wait?.since ?? startedAt;
  const deadlineAt = tried.wait?.deadlineAt ?? since + request.waitMs;
  return gather(context, namespace, request, { since, deadlineAt, pollEndsAt: startedAt + context.pollMs, gone });
}

/**
 * Whether the locks are asked one after the other. Also if the wait ended between two requests: then the lock itself says so once more, in one
 * step with its end, and what had been gathered is given back.
 */
const isGatheredOn = ({ kind }: Answer): boolean =>
  kind === 'held' || kind === 'waiting' || kind === 'wait-timeout' || kind === 'deadlock';

type Tried = Exclude<MultiOutcome, { kind: 'waiting' }> & { readonly wait?: Wait | undefined };

/** One batch read and one transaction. The transaction succeeds only if the locks have not changed since the read. */
async function tryAll(context: LockContext, namespace: string, request: MultiAcquire): Promise<Tried> {
  const { entries, sessionId, leaseId } = request;
  const commands = entries.map(
    (entry): Acquire => ({ kind: 'acquire', ...claimOf(request, entry), waitMs: 0, attendMs: null }),
  );
  if (sessionId !== undefined) await noteParts(context, namespace, sessionId, commands, entries);
  const outcome = await swapTogether(
    context,
    namespace,
    namesOf(request),
    // By now the session was read, so its owner is known.
    (index) => ({ ...(commands[index] as Acquire), owner: ownerOf(context, namespace, request) }),
    sessionId,
  );
  if (outcome === 'session-lost') return { kind: 'session-lost' };
  const states = await Promise.all(
    entries.map(({ name }, index) => withPages(context, { namespace, name }, outcome.states[index] as LockState)),
  );
  const wait = waitOf(states, leaseNameOf(leaseId));
  return {
    ...outcomeOf(outcome, wait === undefined ? 0 : waitedMs({ queuedAt: wait.since }, outcome.facts.now)),
    wait,
  };
}

const outcomeOf = (
  { plan, facts }: Together,
  passedMs: number,
): Extract<MultiOutcome, { kind: 'granted' | 'refused' }> =>
  plan.kind === 'granted'
    ? { kind: 'granted', holders: plan.holders, facts, waitedMs: passedMs }
    : { ...plan, facts, waitedMs: passedMs };

const namesOf = ({ entries }: MultiAcquire): string[] => entries.map(({ name }) => name);

interface Together {
  readonly plan: ReturnType<typeof planAll>;
  readonly states: readonly LockState[];
  readonly facts: Facts;
}

/** Reads, plans and writes all locks together, and tries again if others wrote in between. */
async function swapTogether(
  context: LockContext,
  namespace: string,
  names: readonly string[],
  commandFor: (index: number) => Acquire | Renew,
  sessionId?: string,
): Promise<Together | 'session-lost'> {
  const keys = names.map((name) => ({ namespace, name }));
  for (let attempt = 0; attempt < triesMax; attempt++) {
    const states = await context.store.readMany(keys);
    const facts = await factsAmong(context, namespace, states, sessionId);
    if (sessionId !== undefined && facts.sessions?.get(sessionId)?.alive === false) return 'session-lost';
    const parts = states.map((state, index) => ({ name: names[index] as string, state, command: commandFor(index) }));
    const plan = planAll(parts, facts);
    if (plan.kind === 'refused' || plan.swaps.length === 0) return { plan, states, facts };
    const swaps = plan.swaps.map(({ name, next, renewal }) => ({
      key: { namespace, name },
      next,
      // After one refusal, whole states are swapped, which works in every case.
      ...(renewal === undefined || attempt > 0 ? {} : { renewal: { ...renewal, facts } }),
    }));
    if (await context.store.writeAll(swaps)) {
      const before = (name: string) => states[names.indexOf(name)] as LockState;
      for (const { key, next, renewal } of swaps) {
        if (renewal !== undefined) continue;
        context.cache.learn(key, next);
        const granted = handedOverIn(next, before(key.name));
        context.grants.tell(
          key,
          granted.filter(({ leaseId }) => !plan.holders.some((holder) => holder.leaseId === leaseId)),
        );
      }
      return { plan, states, facts };
    }
    await pauseFor(context.timers, backoffMs(attempt, 5, 250, context.random));
  }
  throw new StoreError('conflict', `Others kept writing to these locks for ${triesMax} tries.`);
}

async function noteParts(
  context: LockContext,
  namespace: string,
  sessionId: string,
  commands: readonly Acquire[],
  entries: readonly MultiEntry[],
): Promise<void> {
  const parts = entries.filter((_, index) => (commands[index] as Acquire).permits < (commands[index] as Acquire).limit);
  await Promise.all(
    parts.map(({ name }) => context.sessionStore.notePart({ namespace, sessionId }, name, context.clock.now())),
  );
}

function claimOf({ leaseId, owner, leaseMs, sessionId }: MultiAcquire, entry: MultiEntry) {
  return {
    leaseId: leaseNameOf(leaseId),
    owner,
    ...demandOf(entry),
    leaseMs: sessionId === undefined ? (leaseMs ?? lockLimits.leaseMsDefault) : null,
    ...defined({ sessionId, mode: entry.mode }),
  };
}

interface Gathering {
  readonly since: number;
  readonly deadlineAt: number;
  readonly pollEndsAt: number;
  readonly gone: AbortSignal | undefined;
}

/** Takes one lock after the other, in canonical order, and joins the queue of each. The locks that it already has are renewed. */
async function gather(
  context: LockContext,
  namespace: string,
  request: MultiAcquire,
  gathering: Gathering,
): Promise<MultiOutcome> {
  const { since, deadlineAt, pollEndsAt, gone } = gathering;
  const leaseMs =
    request.sessionId === undefined ? Math.max(request.leaseMs ?? lockLimits.leaseMsDefault, gatherMsMin) : undefined;
  const held: string[] = [];
  const keeping = keepHeld(context, namespace, request, held, leaseMs);
  try {
    for (const entry of canonicalOrder(request.entries)) {
      const { clock } = context;
      const waitMs = Math.max(1, Math.round(deadlineAt - clock.now()));
      const pollMs = Math.max(1, pollEndsAt - clock.now());
      const { leaseId, owner, isOwnerDefault, sessionId } = request;
      const asked = { ...entry, leaseId, owner, isOwnerDefault, sessionId, leaseMs, waitMs };
      const acquired = await acquire({ ...context, pollMs }, { namespace, name: entry.name }, asked, gone);
      const waitRemainingMs = Math.max(0, deadlineAt - clock.now());
      if (acquired.answer.kind === 'waiting')
        return { kind: 'waiting', name: entry.name, waiting: acquired, waitRemainingMs };
      if (gone?.aborted) return refusal(entry.name, acquired, since);
      if (acquired.answer.kind !== 'granted')
        return await giveBack(context, namespace, request, refusal(entry.name, acquired, since));
      held.push(entry.name);
    }
  } finally {
    // A store that fails ends this request, but not the lease: another copy of the request may have been granted. A repeat of the
    // request goes on from here. Without a repeat, the locks that were taken expire.
    await keeping.stop();
  }
  return settleGathered(context, namespace, request, since);
}

/** All locks are held. Now the requested lease begins, for all of them at once. */
async function settleGathered(
  context: LockContext,
  namespace: string,
  request: MultiAcquire,
  since: number,
): Promise<MultiOutcome> {
  const { leaseId, leaseMs = lockLimits.leaseMsDefault, sessionId } = request;
  const settled =
    sessionId === undefined
      ? await renewAll(context, namespace, { leaseId, names: namesOf(request), leaseMs })
      : await tryAll(context, namespace, request);
  if (settled.kind === 'refused') return giveBack(context, namespace, request, settled);
  return settled.kind === 'granted'
    ? { ...settled, waitedMs: waitedMs({ queuedAt: since }, context.clock.now()) }
    : settled;
}

type Refused = Extract<MultiOutcome, { kind: 'refused' }>;

const refusal = (name: string, { answer, state, facts }: Answered, since: number): Refused => ({
  kind: 'refused',
  refusals: [{ name, answer, state }],
  facts,
  waitedMs: waitedMs({ queuedAt: since }, facts.now),
});

async function giveBack(
  context: LockContext,
  namespace: string,
  request: MultiAcquire,
  outcome: Refused,
): Promise<MultiOutcome> {
  await releaseAll(context, namespace, request.leaseId, namesOf(request));
  const lostSession = outcome.refusals.some(({ answer }) => answer.kind === 'lost' && answer.reason === 'session_lost');
  return lostSession ? { kind: 'session-lost' } : outcome;
}

/**
 * While the request waits for the other locks, this renews those that it already has, at a third of their lease. Under a
 * session it is not needed.
 */
function keepHeld(
  context: LockContext,
  namespace: string,
  { leaseId }: MultiAcquire,
  held: readonly string[],
  leaseMs: number | undefined,
) {
  if (leaseMs === undefined) return { stop: () => Promise.resolve() };
  let cancel = () => {};
  let renewing: Promise<unknown> = Promise.resolve();
  const renewOn = () => {
    cancel = context.timers.after(leaseMs / 3, () => {
      // If a renewal fails, the last step finds that the lease is lost, and releases everything.
      renewing = Promise.allSettled(
        held.map((name) =>
          apply(context, { namespace, name }, { kind: 'renew', leaseId: leaseNameOf(leaseId), leaseMs }),
        ),
      );
      renewOn();
    });
  };
  renewOn();
  return {
    stop: async () => {
      cancel();
      await renewing;
    },
  };
}

/** Either every lease is extended, or none. */
export async function renewAll(
  context: LockContext,
  namespace: string,
  { leaseId, names, leaseMs }: { leaseId: string; names: readonly string[]; leaseMs?: number | undefined },
): Promise<Extract<MultiOutcome, { kind: 'granted' | 'refused' }>> {
  const command: Renew = { kind: 'renew', leaseId: leaseNameOf(leaseId), ...defined({ leaseMs }) };
  const outcome = await swapTogether(context, namespace, names, () => command);
  if (outcome === 'session-lost') throw new Error('No session was named.');
  return outcomeOf(outcome, 0);
}

/** Each lock is released separately, even if others fail. */
export async function releaseAll(
  context: LockContext,
  namespace: string,
  leaseId: string,
  names: readonly string[],
): Promise<readonly { readonly name: string; readonly answer: Answer }[]> {
  return Promise.all(
    names.map(async (name) => ({
      name,
      answer: (await apply(context, { namespace, name }, { kind: 'release', leaseId: leaseNameOf(leaseId) })).answer,
    })),
  );
}
