import type { Acquire, Place } from '../lock/commands.ts';
import { lockLimits } from '../lock/limits.ts';
import { demandOf, type LockKey, type LockMode, type Notify } from '../lock/state.ts';
import { isLive } from '../lock/validity.ts';
import { positionOf } from '../lock/view.ts';
import { readAndLearn } from '../queue/context.ts';
import { positionBehind } from '../queue/pages.ts';
import { leaseNameOf } from '../table/digest.ts';
import { after, epochMs } from '../time/clock.ts';
import { defined } from '../tools/collections.ts';
import { type Answered, apply, readWait, sweepForWaiters } from './apply.ts';
import { factsAbout, factsForLook, type LockContext, peekAndLearn } from './context.ts';
import type { SessionFacts } from './session-lives.ts';
import { applyUnderSession, readWaitUnderSession } from './under-session.ts';
import type { LockAccess, OpenWait } from './waits.ts';

export interface AcquireRequest {
  readonly leaseId: string;
  readonly owner: string;
  /** True if the caller named no owner. Then a claim under a session has the session's owner. */
  readonly isOwnerDefault?: boolean | undefined;
  /** Missing under a session. Then the lease ends with the session. */
  readonly leaseMs?: number | undefined;
  readonly waitMs: number;
  /** How long this request may be kept open. If missing, the setting of the deployment. */
  readonly pollMs?: number | undefined;
  readonly limit?: number | undefined;
  readonly permits?: number | undefined;
  readonly mode?: LockMode | undefined;
  readonly sessionId?: string | undefined;
  readonly lockDelayMs?: number | undefined;
  readonly tier?: 'correctness' | 'efficiency' | undefined;
  readonly notify?: Notify | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** The place from the last answer, or `new` if the lease was never sent before. */
  readonly place?: Place | undefined;
}

export interface Acquired extends Answered {
  /** For a waiter: the estimated time until its grant, by the rate of grants while it waited. */
  readonly etaMs: number | null;
}

/** Takes a lock: at once, after a wait with an open request, or parked. `gone` fires if the caller's connection broke. */
export async function acquire(
  context: LockContext,
  key: LockKey,
  request: AcquireRequest,
  gone?: AbortSignal,
): Promise<Acquired> {
  const known = await sessionToName(context, key, request);
  const command = commandOf(context, key, request);
  if (request.waitMs > 0 && request.notify === undefined)
    return longPoll(context, key, command, { pollMs: pollMsOf(context, request), known, gone });
  const ask = () => begin(context, key, command, known);
  const applied =
    request.tier === 'efficiency' && request.waitMs === 0
      ? await context.refusals.answer(key, command, ask)
      : await ask();
  return { ...applied, etaMs: null };
}

/**
 * The answer to a parked waiter that asks again, if its request changes nothing. Nothing is written. Undefined in every other
 * case: then `acquire` answers.
 */
export async function askAgain(
  context: LockContext,
  key: LockKey,
  request: AcquireRequest,
): Promise<Acquired | undefined> {
  // A new lease does not wait yet.
  if (request.place === 'new') return undefined;
  // A waiter that has its place keeps its owner.
  const command = commandOf(context, key, request);
  const { sessionId } = command;
  const waits =
    sessionId === undefined
      ? await readWait(context, key, command)
      : await readWaitUnderSession(context, key, { ...command, sessionId });
  return waits && { ...waits, etaMs: null };
}

const pollMsOf = (context: LockContext, { pollMs }: AcquireRequest): number => pollMs ?? context.pollMs;

/**
 * Reads the session before the lock is tried, if its owner must be shown and is not known yet. Usually both are asked at
 * the same time.
 */
async function sessionToName(
  { sessions, clock }: LockContext,
  { namespace }: LockKey,
  { isOwnerDefault, sessionId }: AcquireRequest,
): Promise<SessionFacts | undefined> {
  if (isOwnerDefault !== true || sessionId === undefined) return undefined;
  if (sessions.ownerOf({ namespace, sessionId }) !== undefined) return undefined;
  return sessions.of(namespace, [sessionId], clock.now());
}

/** The owner that others see. */
export function ownerOf(
  { sessions }: LockContext,
  namespace: string,
  { owner, isOwnerDefault, sessionId }: Pick<AcquireRequest, 'owner' | 'isOwnerDefault' | 'sessionId'>,
): string {
  if (isOwnerDefault !== true || sessionId === undefined) return owner;
  return sessions.ownerOf({ namespace, sessionId }) ?? owner;
}

function commandOf(context: LockContext, { namespace }: LockKey, request: AcquireRequest): Acquire {
  const { leaseId, waitMs, sessionId, lockDelayMs, mode, metadata, notify, place } = request;
  return {
    kind: 'acquire',
    leaseId: leaseNameOf(leaseId),
    owner: ownerOf(context, namespace, request),
    ...demandOf(request),
    leaseMs: sessionId === undefined ? (request.leaseMs ?? lockLimits.leaseMsDefault) : null,
    waitMs,
    attendMs: notify === undefined ? pollMsOf(context, request) + lockLimits.waiterAbsenceMs : null,
    ...defined({ sessionId, lockDelayMs, mode, metadata, place, notify: notify && withSecret(notify, leaseId) }),
  };
}

/** The delivery of a grant carries the owner's leaseId, unless it goes to a bus. */
const withSecret = (notify: Notify, leaseId: string): Notify =>
  notify.type === 'event' ? notify : { ...notify, leaseId };

async function longPoll(
  context: LockContext,
  key: LockKey,
  command: Acquire,
  { pollMs, known, gone }: { pollMs: number; known: SessionFacts | undefined; gone: AbortSignal | undefined },
): Promise<Acquired> {
  const pollEndsAt = after(context.clock.now(), pollMs);
  const openWait = context.waits.begin(accessTo(context, key));
  try {
    const applied = await begin(context, key, command, known);
    const began = { fence: applied.state.fence, at: context.clock.now() };
    const polled = await poll(context, key, command, { openWait, applied, pollEndsAt, gone });
    await forgetWait(context, key, command, applied, polled);
    return { ...polled, etaMs: etaOf(polled, began) };
  } finally {
    openWait.end();
  }
}

/**
 * The first step of any acquire. Under a session, it also checks that the session is open and that the wait is no deadlock.
 * `known` is the session, if it was just read.
 */
async function begin(context: LockContext, key: LockKey, command: Acquire, known?: SessionFacts): Promise<Answered> {
  const { sessionId } = command;
  return sessionId === undefined
    ? apply(context, key, command)
    : applyUnderSession(context, key, { ...command, sessionId }, known);
}

interface Poll {
  readonly openWait: OpenWait;
  readonly applied: Answered;
  readonly pollEndsAt: number;
  readonly gone: AbortSignal | undefined;
}

async function poll(
  context: LockContext,
  key: LockKey,
  command: Acquire,
  { openWait, pollEndsAt, gone, ...begun }: Poll,
): Promise<Answered> {
  const { leaseId } = command;
  let applied = begun.applied;
  while (applied.answer.kind === 'waiting') {
    const { waiter, place: page, position: earlier } = applied.answer;
    const place = page === undefined ? {} : { place: page };
    const until = epochMs(Math.min(pollEndsAt, waiter.deadlineAt));
    const state = await openWait.wait({ leaseId, known: applied.state, page, until, gone });
    if (gone?.aborted) return apply(context, key, { kind: 'step-away', leaseId, ...place });

    const facts = await factsAbout(context, key, state);
    const holder = state.holders.find((candidate) => candidate.leaseId === leaseId);
    if (holder !== undefined && isLive(holder, facts)) return { answer: { kind: 'granted', holder }, state, facts };
    const session = command.sessionId === undefined ? undefined : facts.sessions?.get(command.sessionId);
    if (session?.alive === false) return { answer: { kind: 'lost', reason: 'session_lost' }, state, facts };
    const inFront = positionOf(state, leaseId, facts);
    // In a page only an upper bound is known. A waiter never moves back, so the smallest one counts.
    const behind = positionBehind(state, page, context.sizes);
    const position = inFront ?? (behind === undefined ? undefined : Math.min(behind, earlier));
    if (position === undefined && facts.now < waiter.deadlineAt) {
      // The lease neither waits nor holds. The rules know how it ended, or put it into the queue again.
      applied = await begin(context, key, { ...command, ...place });
      if (facts.now >= pollEndsAt) return applied;
      continue;
    }
    // Another writer may have removed the waiter at its deadline. Its wait is over all the same.
    if (position === undefined || waiter.deadlineAt <= pollEndsAt) {
      return apply(context, key, { kind: 'give-up', leaseId, queuedAt: waiter.queuedAt, ...place });
    }
    const isBehind = inFront === undefined && page !== undefined;
    return { answer: { kind: 'waiting', waiter, position, ...(isBehind ? place : {}) }, state, facts };
  }
  return applied;
}

/** A session that no longer waits must not look as if it waits. If its note stays, that does no harm, because the lock's own queue decides. */
async function forgetWait(
  context: LockContext,
  key: LockKey,
  command: Acquire,
  begun: Answered,
  polled: Answered,
): Promise<void> {
  if (command.sessionId === undefined || begun.answer.kind !== 'waiting' || polled.answer.kind === 'waiting') return;
  const { sessionId, leaseId } = command;
  await context.sessionStore.forgetWait({ namespace: key.namespace, sessionId }, { lock: key.name, leaseId });
}

const accessTo = (context: LockContext, key: LockKey): LockAccess => ({
  key,
  read: () => readAndLearn(context, key),
  peek: (endsWait) => peekAndLearn(context, key, endsWait),
  sweep: async () => (await sweepForWaiters(context, key)).state,
  facts: (state) => factsForLook(context, key, state),
});

function etaOf(
  { answer, state, facts }: Answered,
  began: { readonly fence: number; readonly at: number },
): number | null {
  const grants = state.fence - began.fence;
  if (answer.kind !== 'waiting' || grants <= 0) return null;
  return Math.round((answer.position * (facts.now - began.at)) / grants);
}
