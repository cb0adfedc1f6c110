/**
 * The rules of a lock. Pure: no I/O, no clock, no randomness. A store may be faster, but must give the same results.
 *
 *     holders ◄── grant ── queue ◄── acquire
 *        │                   │
 *        └──── release, expire, revoke, give up ────► ended (remembered)
 */

import { after, type EpochMs } from '../time/clock.ts';
import {
  type Acquire,
  type Answer,
  type Change,
  type Decision,
  type Facts,
  frontLengthMaxOf,
  type GiveUp,
  type LockCommand,
  type LostReason,
  type Release,
  type Renew,
  type Revoke,
  type StepAway,
  type Undelivered,
} from './commands.ts';
import { lockLimits } from './limits.ts';
import {
  type Claim,
  type Ended,
  type EndedHow,
  extrasWeight,
  type Holder,
  hasMore,
  holdersWeight,
  isOfAnotherTask,
  isParkedOn,
  isSameNotify,
  type LockState,
  permitsHeld,
  revocationOf,
  type Waiter,
} from './state.ts';
import { isLive, isPresent, mayBeTaken, sessionEnd } from './validity.ts';
import { positionOf, runsLow, waitedMs, wantsMore } from './view.ts';

/** If no change is given and the next state differs, it replaces the one before. */
type Outcome = readonly [next: LockState, answer: Answer, change?: Change];

export function decide(before: LockState, command: LockCommand, facts: Facts): Decision {
  const [next, answer, change = { kind: 'replace' }] = outcomeOf(before, command, facts);
  // The lock never becomes free while somebody waits behind the front. Waiters move up before anything else is decided.
  if (command.kind !== 'renew' && needsMore(next, facts)) return { next: before, answer, change: { kind: 'move-up' } };
  if (next === before) {
    const isElsewhere = change.kind === 'join-behind' || change.kind === 'move-up';
    return { next, answer, change: isElsewhere ? change : { kind: 'none' } };
  }
  // Every write raises the revision, so a compare-and-swap notices every other write.
  return { next: { ...next, rev: before.rev + 1, changedAt: facts.now }, answer, change };
}

function outcomeOf(before: LockState, command: LockCommand, facts: Facts): Outcome {
  switch (command.kind) {
    case 'acquire':
      return acquire(before, command, facts);
    case 'renew':
      return renew(before, command, facts);
    case 'release':
      return release(before, command, facts);
    case 'give-up':
      return giveUp(before, command, facts);
    case 'step-away':
      return stepAway(before, command, facts);
    case 'undelivered':
      return undelivered(before, command, facts);
    case 'revoke':
      return revoke(before, command, facts);
    case 'sweep':
      return sweep(before, facts);
    case 'refill':
      return refill(before, facts);
  }
}

/** Waiters must move up: the front is empty, and every lease of the lock is over or may be taken over. */
const needsMore = (next: LockState, facts: Facts): boolean =>
  hasMore(next) && next.queue.length === 0 && next.holders.every((holder) => mayBeTaken(holder, facts));

function sweep(before: LockState, facts: Facts): Outcome {
  const settled = settle(before, facts);
  // Grants to the front are written first, so a large number of readers is served step by step.
  const isServed = settled.fence !== before.fence;
  if (!isServed && wantsMore(settled, facts)) return [before, { kind: 'done' }, { kind: 'move-up' }];
  return [settled, { kind: 'done' }];
}

/** Waiters that moved up may be granted at once, if permits are free. */
function refill(before: LockState, facts: Facts): Outcome {
  return runsLow(before, facts) ? [before, { kind: 'done' }, { kind: 'move-up' }] : sweep(before, facts);
}

function acquire(before: LockState, command: Acquire, facts: Facts): Outcome {
  // Safe to repeat: the same lease gets the same grant, and its end does not move.
  const own = before.holders.find(isOf(command));
  if (own !== undefined && !isLive(own, facts)) return [before, lostByTime(own)];
  if (isOfAnotherTask(own?.notify, command.notify)) return [before, { kind: 'lease-of-another' }];
  if (own !== undefined) return confirm(before, own);

  // A late duplicate of an acquire must not take the lock again after its lease has ended.
  const ended = before.ended.find(isOf(command));
  if (ended !== undefined) return [before, answerTo(ended)];

  // Nothing is granted under a session that has ended, and no such claim may wait.
  if (sessionEnd(command, facts) !== undefined) return [before, { kind: 'lost', reason: 'session_lost' }];
  const place = before.queue.find(isOf(command));
  if (isOfAnotherTask(place?.notify, command.notify)) return [before, { kind: 'lease-of-another' }];
  const settled = settle(before, facts);
  if (place !== undefined) {
    const granted = settled.holders.find(isOf(command));
    // A task or a callback needs its delivery even if the caller learns of the grant here, so `notify` stays.
    if (granted?.notify?.type === 'websocket') return confirm(settled, granted);
    if (granted !== undefined) return [settled, { kind: 'granted', holder: granted }];
    if (settled.queue.some(isOf(command))) return attend(before, settled, command, facts);
    if (place.deadlineAt <= facts.now) return [settled, { kind: 'wait-timeout', waitedMs: waitedMs(place, facts.now) }];
    // It was absent for too long and lost its place. It joins again, at the end of the queue.
  }
  return acquireNew(before, settled, command, facts);
}

/** The owner learns of its grant by this answer. From now on, `undelivered` must not take the grant back. */
function confirm(before: LockState, own: Holder): Outcome {
  if (own.notify === undefined) return [before, { kind: 'granted', holder: own }];
  const { notify: _, ...holder } = own;
  const holders = before.holders.with(before.holders.indexOf(own), holder);
  return [
    { ...before, holders },
    { kind: 'granted', holder },
  ];
}

function acquireNew(before: LockState, settled: LockState, command: Acquire, facts: Facts): Outcome {
  // A refused caller changes nothing, unless another waiter's grant was already due.
  const unchanged = settled.fence === before.fence ? before : settled;
  const isAwaited = settled.queue.length > 0 || hasMore(settled);
  const idle = !isAwaited && settled.holders.every((holder) => mayBeTaken(holder, facts));
  if (!idle && settled.limit !== command.limit) return [unchanged, { kind: 'limit-mismatch' }];

  // A new caller does not overtake the queue, even if its permits would still fit.
  if (!isAwaited) {
    const open = settled.limit === command.limit ? settled : { ...takeExpired(settled, facts), limit: command.limit };
    const room = makeRoom(open, command, facts);
    if (room !== undefined) {
      const next = grant(room, command, facts);
      return [next, { kind: 'granted', holder: next.holders.at(-1) as Holder }];
    }
  }
  if (command.waitMs === 0) return [unchanged, { kind: 'held' }];
  return enqueue(before, settled, command, facts);
}

function enqueue(before: LockState, settled: LockState, command: Acquire, facts: Facts): Outcome {
  const deadlineAt = after(facts.now, command.waitMs);
  const presentUntil = presenceEnd(command, deadlineAt, facts);
  const waiter: Waiter = { ...claimOf(command), queuedAt: facts.now, deadlineAt, presentUntil };
  const waiting: Answer = { kind: 'waiting', waiter, position: settled.queue.length + 1 };
  // A lease that was absent for too long may still have its old entry, which is dropped before the lease joins again.
  const isNew = !before.queue.some(isOf(command));
  const isSettled = isNew && settled.fence === before.fence;
  const hasPlace = ({ queue }: LockState) => queue.length < frontLengthMaxOf(facts);
  // Nobody joins the front while others wait behind it: a new waiter would overtake them.
  if (!hasMore(settled)) {
    // The waiter is only appended. So arrivals at the same time cause no conflict. Absent waiters are dropped when the front is full.
    if (isSettled && hasPlace(before))
      return [{ ...before, queue: [...before.queue, waiter] }, waiting, { kind: 'arrive', waiter }];
    if (hasPlace(settled)) return [{ ...settled, queue: [...settled.queue, waiter] }, waiting];
  }
  // A grant that is already due is written first. Then the command is decided again.
  if (!isSettled) return [settled, waiting, { kind: 'settle' }];
  return [before, waiting, { kind: 'join-behind', waiter }];
}

/** A waiter that asks again keeps its place and its deadline, and counts as present again. It may change how it waits. */
function attend(before: LockState, settled: LockState, command: Acquire, facts: Facts): Outcome {
  const state = settled.fence === before.fence ? before : settled;
  const index = state.queue.findIndex(isOf(command));
  const place = state.queue[index] as Waiter;
  const { notify: earlier, ...rest } = place;
  const { notify } = command;
  const presentUntil = presenceEnd(command, place.deadlineAt, facts);
  const waiter: Waiter = { ...rest, ...(notify === undefined ? {} : { notify }), presentUntil };
  const waiting: Answer = { kind: 'waiting', waiter, position: positionOf(settled, command.leaseId, facts) as number };
  const isAlike = state === before && isSameNotify(earlier, notify);
  // A parked waiter is present until its deadline. If it asks again and waits in the same way, nothing changes.
  if (isAlike && place.presentUntil === presentUntil) return [before, waiting];
  return [
    { ...state, queue: state.queue.with(index, waiter) },
    waiting,
    // `attend` writes only until when a waiter is present. If the waiter now waits in another way, the state is replaced.
    isAlike ? { kind: 'attend', index, waiter } : { kind: 'replace' },
  ];
}

function renew(before: LockState, command: Renew, facts: Facts): Outcome {
  const index = before.holders.findIndex(isOf(command));
  const own = before.holders[index];
  // Only a live holder may renew. A lease that has ended or expired stays so, even if nobody has taken the lock since.
  if (own === undefined) return [before, lost(before, command)];
  if (!isLive(own, facts)) return [before, lostByTime(own)];
  // This lease ends with its session. It has no end of its own to extend.
  if (own.leaseMs === null) return [before, { kind: 'granted', holder: own }];
  const leaseMs = command.leaseMs ?? own.leaseMs;
  const holder: Holder = { ...own, leaseMs, expiresAt: after(facts.now, leaseMs) };
  return [
    { ...before, holders: before.holders.with(index, holder) },
    { kind: 'granted', holder },
  ];
}

function release(before: LockState, command: Release, facts: Facts): Outcome {
  const own = before.holders.find(isOf(command));
  if (own !== undefined) {
    if (own.leaseMs === null && !isLive(own, facts)) return [before, lostByTime(own)];
    // If the lease expired but nobody has taken the lock yet, its holder may still release it, and learns that it was late.
    const late = isLive(own, facts) ? {} : { isExpired: true };
    return [serve(endHolder(before, own, { how: 'released' }), facts), { kind: 'released', reason: 'ok', ...late }];
  }
  const waiter = before.queue.find(isOf(command));
  if (waiter !== undefined) {
    const left = remember(without(before, command), { leaseId: command.leaseId, how: 'released' });
    const served = serve(left, facts);
    return [served, { kind: 'released', reason: 'cancelled' }, leaving(before, waiter, served === left, true)];
  }
  const how = before.ended.find(isOf(command))?.how;
  if (how === 'released' || how === 'deadlock') return [before, { kind: 'released', reason: 'already_released' }];
  return [before, lost(before, command)];
}

function giveUp(before: LockState, command: GiveUp, facts: Facts): Outcome {
  const granted = before.holders.find(isOf(command));
  if (granted !== undefined) {
    return [before, isLive(granted, facts) ? { kind: 'granted', holder: granted } : lostByTime(granted)];
  }
  const ended = before.ended.find(isOf(command));
  if (ended !== undefined) return [before, answerTo(ended)];
  const waiter = before.queue.find(isOf(command));
  if (waiter === undefined) return [before, { kind: 'wait-timeout', waitedMs: waitedMs(command, facts.now) }];
  const left = without(before, command);
  if (command.deadlock === undefined) {
    const served = serve(left, facts);
    const answer: Answer = { kind: 'wait-timeout', waitedMs: waitedMs(waiter, facts.now) };
    return [served, answer, leaving(before, waiter, served === left, false)];
  }
  // The lock remembers the reason. So the waiter learns of it, even if another process found the deadlock.
  const ending: Ended = { leaseId: command.leaseId, how: 'deadlock', reason: command.deadlock };
  return [serve(remember(left, ending), facts), answerTo(ending)];
}

function stepAway(before: LockState, command: StepAway, facts: Facts): Outcome {
  const index = before.queue.findIndex(isOf(command));
  const place = before.queue[index];
  const presentUntil = after(facts.now, lockLimits.waiterAbsenceMs);
  const { connectionId } = command;
  // If a poll broke, but its waiter is parked by now, the waiter stays present.
  const isMeant = connectionId === undefined ? place?.notify === undefined : isParkedOn(place, connectionId);
  if (!isMeant) return [before, { kind: 'done' }];
  if (place === undefined || place.presentUntil <= presentUntil) return [before, { kind: 'done' }];
  const waiter = { ...place, presentUntil };
  return [{ ...before, queue: before.queue.with(index, waiter) }, { kind: 'done' }, { kind: 'attend', index, waiter }];
}

/**
 * The delivery of a grant failed for good. If the owner asked again or renewed, it knows of the grant, and nothing
 * changes. A client that lost its WebSocket connection may open another one, so its grant is kept for as long as a
 * waiter may be absent, or as long as its session lives. Other owners can't come back, so the next waiter is served.
 */
function undelivered(before: LockState, { leaseId, fence }: Undelivered, facts: Facts): Outcome {
  const index = before.holders.findIndex((holder) => holder.leaseId === leaseId && holder.fence === fence);
  const own = before.holders[index];
  const grantedUntil = own === undefined || own.leaseMs === null ? null : after(own.acquiredAt, own.leaseMs);
  if (own?.notify === undefined || own.expiresAt !== grantedUntil) return [before, { kind: 'done' }];
  if (own.notify.type !== 'websocket')
    return [serve(endHolder(before, own, { how: 'released' }), facts), { kind: 'done' }];
  const expiresAt = after(facts.now, lockLimits.waiterAbsenceMs);
  if (own.expiresAt === null || own.expiresAt <= expiresAt) return [before, { kind: 'done' }];
  return [{ ...before, holders: before.holders.with(index, { ...own, expiresAt }) }, { kind: 'done' }];
}

/** If the waiter was not the first, and nobody is granted because it left, then only its own entry is removed. */
function leaving(before: LockState, waiter: Waiter, isAll: boolean, isRemembered: boolean): Change {
  const index = before.queue.indexOf(waiter);
  if (!isAll || index === 0) return { kind: 'replace' };
  return { kind: 'leave', index, waiter, isRemembered };
}

function revoke(before: LockState, command: Revoke, facts: Facts): Outcome {
  const holder = before.holders.find(({ fence }) => fence === command.fence);
  if (holder !== undefined) {
    const ended = endHolder(before, holder, {
      how: 'revoked',
      fence: holder.fence,
      ...revocationOf(command),
    });
    return [serve(ended, facts), { kind: 'revoked' }];
  }
  // Safe to repeat: a fence that was revoked is revoked. Only an ending by revocation has a fence.
  const revoked = before.ended.some(({ fence }) => fence === command.fence);
  return [before, revoked ? { kind: 'revoked' } : { kind: 'lost', reason: 'not_owner' }];
}

/** Drops every absent waiter, then serves the queue. Even if many waiters die together, none of them is granted. */
function settle(state: LockState, facts: Facts): LockState {
  const queue = state.queue.filter((waiter) => isPresent(waiter, facts));
  return serve(queue.length === state.queue.length ? state : { ...state, queue }, facts);
}

/**
 * Grants to the first waiter, again and again, as long as its permits fit. The order is strict: readers that came later
 * can't keep a writer waiting for ever. If the first waiter is absent, it is dropped and not granted.
 */
function serve(state: LockState, facts: Facts): LockState {
  let served = state;
  for (let head = served.queue[0]; head !== undefined; head = served.queue[0]) {
    if (makeRoom(served, { ...head, permits: 1 }, facts) === undefined) return served;
    if (!isPresent(head, facts)) {
      served = { ...served, queue: served.queue.slice(1) };
      continue;
    }
    const room = makeRoom(served, head, facts);
    if (room === undefined) return served;
    served = grant({ ...room, queue: room.queue.slice(1) }, head, facts, head.queuedAt);
  }
  return served;
}

/** The only function that grants. The permits must fit, and the fence is higher than every earlier one. */
function grant(state: LockState, claim: Claim, facts: Facts, queuedAt?: EpochMs): LockState {
  // The first fence of a lock comes from the clock, because the item of an idle lock may have been deleted. DynamoDB
  // takes at most 1,000 writes a second to an item. So a fence that rises by one per grant stays below the clock's
  // milliseconds, and the next fence from the clock is higher than all before.
  const fence = (state.fence === 0 ? facts.now : state.fence) + 1;
  const holder: Holder = {
    ...claimOf(claim),
    fence,
    acquiredAt: facts.now,
    expiresAt: claim.leaseMs === null ? null : after(facts.now, claim.leaseMs),
    ...(queuedAt === undefined ? {} : { queuedAt }),
  };
  return { ...state, fence, holders: [...state.holders, holder] };
}

/** The state in which the permits fit. Expired leases are taken over only if needed. Undefined if the permits don't fit. */
function makeRoom(state: LockState, claim: Claim, facts: Facts): LockState | undefined {
  const fits = (candidate: LockState) =>
    permitsHeld(candidate) + claim.permits <= candidate.limit && bytesFit(candidate, claim);
  if (fits(state)) return state;
  const taken = takeExpired(state, facts);
  return fits(taken) ? taken : undefined;
}

/** Holders must always fit into the item, so fewer of them hold at the same time if their claims are large. One alone always fits. */
const bytesFit = (state: LockState, claim: Claim): boolean =>
  state.holders.length === 0 || holdersWeight(state) + extrasWeight(claim) <= lockLimits.holdersBytesMax;

function takeExpired(state: LockState, facts: Facts): LockState {
  return state.holders
    .filter((holder) => mayBeTaken(holder, facts))
    .reduce(
      (rest, holder) => endHolder(rest, holder, { how: holder.leaseMs === null ? 'session-lost' : 'expired' }),
      state,
    );
}

function endHolder(state: LockState, holder: Holder, ended: Omit<Ended, 'leaseId'>): LockState {
  const holders = state.holders.filter((other) => other !== holder);
  return remember({ ...state, holders }, { leaseId: holder.leaseId, ...ended });
}

const remember = (state: LockState, ended: Ended): LockState => ({
  ...state,
  ended: [ended, ...state.ended].slice(0, lockLimits.endedRemembered),
});

const without = (state: LockState, { leaseId }: { leaseId: string }): LockState => ({
  ...state,
  queue: state.queue.filter((waiter) => waiter.leaseId !== leaseId),
});

const presenceEnd = (command: Acquire, deadlineAt: EpochMs, facts: Facts): EpochMs =>
  command.attendMs === null ? deadlineAt : (Math.min(deadlineAt, facts.now + command.attendMs) as EpochMs);

const isOf =
  ({ leaseId }: { readonly leaseId: string }) =>
  (entry: { readonly leaseId: string }): boolean =>
    entry.leaseId === leaseId;

const lostReasons: Record<EndedHow, LostReason> = {
  released: 'released',
  expired: 'expired',
  revoked: 'revoked',
  'session-lost': 'session_lost',
  deadlock: 'released',
};

const answerTo = (ended: Ended): Answer =>
  ended.how === 'deadlock' ? { kind: 'deadlock', cycle: ended.reason ?? '[]' } : lostBy(ended);

const lostByTime = (holder: Holder): Answer => ({
  kind: 'lost',
  reason: holder.leaseMs === null ? 'session_lost' : 'expired',
});

function lost(state: LockState, command: { readonly leaseId: string }): Answer {
  const ended = state.ended.find(isOf(command));
  return ended === undefined ? { kind: 'lost', reason: 'not_owner' } : lostBy(ended);
}

const lostBy = (ended: Ended): Answer => ({
  kind: 'lost',
  reason: lostReasons[ended.how],
  ...(ended.how === 'revoked' ? { revocation: revocationOf(ended) } : {}),
});

function claimOf(claim: Claim): Claim {
  const { leaseId, owner, permits, leaseMs, sessionId, lockDelayMs, mode, metadata, notify } = claim;
  return {
    leaseId,
    owner,
    permits,
    leaseMs,
    ...(sessionId === undefined ? {} : { sessionId }),
    ...((lockDelayMs ?? 0) === 0 ? {} : { lockDelayMs }),
    ...(mode === undefined ? {} : { mode }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(notify === undefined ? {} : { notify }),
  };
}
