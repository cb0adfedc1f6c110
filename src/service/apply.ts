import type { Answer, Decision, Facts, LockCommand } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import { positionOf } from '../lock/position.ts';
import type { Holder, LockState } from '../lock/state.ts';
import type { LockKey, Written } from '../store/lock-store.ts';
import { StoreError } from '../store/store-error.ts';
import { pauseFor } from '../time/timers.ts';
import { backoffMs } from '../tools/backoff.ts';
import { announce, factsAbout, type LockContext } from './context.ts';

/** Rounds of trying: on a lock written 500 times a second, ten lose to others with a chance far below one in a thousand. */
const roundsMax = 10;
/** A refusal carries the state in force, so a second and a third decision cost no read; after that, others are given a moment. */
const writesPerRound = 3;

export interface Applied {
  readonly answer: Answer;
  readonly state: LockState;
  readonly facts: Facts;
}

/**
 * Carries out a command: the common case in one write; otherwise what `decide` makes of the state that refused it, by
 * compare-and-swap, tried again with jitter where others wrote in between.
 */
export async function apply(context: LockContext, key: LockKey, command: LockCommand): Promise<Applied> {
  let perhapsMine = false;
  for (let round = 0; round < roundsMax; round++) {
    const facts: Facts = { now: context.clock.now(), graceMs: context.graceMs };
    const joined = round === 0 ? await joinQueue(context, key, command, facts) : undefined;
    let written = joined ?? (await context.store.attempt(key, command, facts));
    for (let tries = 1; !written.applied && tries <= writesPerRound; tries++) {
      perhapsMine ||= written.perhapsMine;
      const before = written.state;
      const known = await factsAbout(context, key, before);
      const decision = decide(before, command, known);
      const answer = perhapsMine ? asFirstAnswer(decision.answer) : decision.answer;
      if (decision.next === before) return { answer, state: before, facts: known };
      // What commutes is tried twice, since the first refusal may only tell where the queue ends; a swap goes through in any case.
      const alone = tries < writesPerRound ? writeAlone(context, key, command, before, decision) : undefined;
      written = await (alone ?? context.store.swap(key, decision.next));
      if (written.applied) return announced(context, key, { answer, state: written.state, facts: known });
    }
    if (written.applied)
      return announced(context, key, {
        answer: directAnswer(command, written.state, facts),
        state: written.state,
        facts,
      });
    perhapsMine ||= written.perhapsMine;
    await pauseFor(context.timers, backoffMs(round, 4, 250, context.random));
  }
  throw new StoreError('conflict', `Others kept writing to this lock for ${roundsMax * writesPerRound} tries.`);
}

function announced(context: LockContext, key: LockKey, applied: Applied): Applied {
  announce(context, key, applied.state);
  return applied;
}

/**
 * Where others are known to wait, who comes to wait too is appended, and who asks again is kept, without being refused first: a refused write is billed like
 * any other. What is known may be out of date; these writes are refused where the turn may have come, and then the rules are asked as ever.
 */
function joinQueue(
  context: LockContext,
  key: LockKey,
  command: LockCommand,
  facts: Facts,
): Promise<Written> | undefined {
  if (command.kind !== 'acquire' || command.waitMs === 0 || command.sessionId !== undefined) return undefined;
  const known = context.room.known(key);
  if (known === undefined || known.queue.length === 0) return undefined;
  // Whether a session lives would have to be read, which is no less than being refused.
  if ([...known.holders, ...known.queue].some(({ sessionId }) => sessionId !== undefined)) return undefined;
  const decision = decide(known, command, facts);
  return decision.answer.kind === 'waiting' ? writeAlone(context, key, command, known, decision) : undefined;
}

/**
 * Where a waiter only arrives, says that it is there, or leaves from behind another, that alone is written: such writes commute, so a
 * crowd doesn't fight over the revision. Undefined for all else, which replaces the state that was decided on.
 */
function writeAlone(
  { store }: LockContext,
  key: LockKey,
  command: LockCommand,
  before: LockState,
  { answer, next }: Decision,
): Promise<Written> | undefined {
  if (!('leaseId' in command) || next.fence !== before.fence || next.holders !== before.holders) return undefined;
  const { leaseId } = command;
  const index = before.queue.findIndex((waiter) => waiter.leaseId === leaseId);
  const [was, is] = [before.queue[index], next.queue.find((waiter) => waiter.leaseId === leaseId)];
  const grownBy = next.queue.length - before.queue.length;

  if (was === undefined) {
    const arrives = command.kind === 'acquire' && answer.kind === 'waiting' && grownBy === 1;
    return arrives ? store.enqueue(key, answer.waiter, command.limit) : undefined;
  }
  if (is === undefined) {
    const isRemembered = next.ended !== before.ended;
    const leavesAlone = index > 0 && grownBy === -1 && (!isRemembered || next.ended[0]?.how === 'released');
    return leavesAlone ? store.leave(key, index, was, isRemembered, next.changedAt) : undefined;
  }
  const keepsPlace = grownBy === 0 && is.queuedAt === was.queuedAt && is.deadlineAt === was.deadlineAt;
  return keepsPlace ? store.attend(key, index, is, next.changedAt) : undefined;
}

/** What a command answers whose common case was written: only success, or a place in the queue, can be. */
function directAnswer(command: LockCommand, state: LockState, facts: Facts): Answer {
  switch (command.kind) {
    case 'acquire': {
      const waiter = state.queue.find(({ leaseId }) => leaseId === command.leaseId);
      const position = positionOf(state, command.leaseId, facts);
      return waiter === undefined || position === undefined
        ? { kind: 'granted', holder: holderOf(command, state) }
        : { kind: 'waiting', waiter, position };
    }
    case 'renew':
      return { kind: 'granted', holder: holderOf(command, state) };
    case 'release':
      return { kind: 'released', reason: 'ok' };
    default:
      return { kind: 'done' };
  }
}

const holderOf = (command: { readonly leaseId: string }, { holders }: LockState): Holder =>
  holders.find(({ leaseId }) => leaseId === command.leaseId) as Holder;

/**
 * The request was sent more than once, and the state already shows its effect. Only the owner knows the lease, so this is its own
 * first try, whose response was lost: it gets the answer that the first try would have got.
 */
function asFirstAnswer(answer: Answer): Answer {
  return answer.kind === 'released' && answer.reason === 'already_released'
    ? { kind: 'released', reason: 'ok' }
    : answer;
}
