import type { Answer, Decision, Facts, LockCommand } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import type { Holder, LockState } from '../lock/state.ts';
import { positionOf } from '../lock/waiting.ts';
import type { LockKey, Written } from '../store/lock-store.ts';
import { StoreError } from '../store/store-error.ts';
import { pauseFor } from '../time/timers.ts';
import { backoffMs } from '../tools/backoff.ts';
import { factsAbout, type LockContext } from './context.ts';

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
    context.memory.learn(key, written.state);
    for (let tries = 1; !written.applied && tries <= writesPerRound; tries++) {
      perhapsMine ||= written.perhapsMine;
      const before = written.state;
      const known = await factsAbout(context, key, before);
      const decision = decide(before, command, known);
      const answer = perhapsMine ? asFirstAnswer(decision.answer) : decision.answer;
      if (decision.next === before) return { answer, state: before, facts: known };
      // What commutes is tried twice, since the first refusal may only tell where the queue ends; a swap goes through in any case.
      written = await (tries < writesPerRound
        ? write(context, key, command, decision)
        : context.store.swap(key, decision.next));
      context.memory.learn(key, written.state);
      if (written.applied) return { answer, state: written.state, facts: known };
    }
    if (written.applied) {
      return { answer: directAnswer(command, written.state, facts), state: written.state, facts };
    }
    perhapsMine ||= written.perhapsMine;
    await pauseFor(context.timers, backoffMs(round, 4, 250, context.random));
  }
  throw new StoreError('conflict', `Others kept writing to this lock for ${roundsMax * writesPerRound} tries.`);
}

/**
 * If others are known to wait, a waiter is appended, or kept if it asks again, without being refused first: a refused write is billed like
 * any other. What is known may be out of date. These writes are refused if the turn may have come, and then the rules are asked as always.
 */
function joinQueue(
  context: LockContext,
  key: LockKey,
  command: LockCommand,
  facts: Facts,
): Promise<Written> | undefined {
  if (command.kind !== 'acquire' || command.waitMs === 0 || command.sessionId !== undefined) return undefined;
  const known = context.memory.seen(key)?.state;
  if (known === undefined || known.queue.length === 0) return undefined;
  // Whether a session lives would have to be read, which costs as much as being refused.
  if ([...known.holders, ...known.queue].some(({ sessionId }) => sessionId !== undefined)) return undefined;
  const decision = decide(known, command, facts);
  const isJoin = decision.change.kind === 'arrive' || decision.change.kind === 'attend';
  return isJoin ? write(context, key, command, decision) : undefined;
}

/** Writes what a decision changes: alone where that commutes with what others do, so that a crowd doesn't fight over the revision. */
function write(
  { store }: LockContext,
  key: LockKey,
  command: LockCommand,
  { change, next }: Decision,
): Promise<Written> {
  switch (change.kind) {
    case 'arrive':
      return command.kind === 'acquire' ? store.enqueue(key, change.waiter, command.limit) : store.swap(key, next);
    case 'attend':
      return store.attend(key, change.index, change.waiter, next.changedAt);
    case 'leave':
      return store.leave(key, change.index, change.waiter, change.isRemembered, next.changedAt);
    default:
      return store.swap(key, next);
  }
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
