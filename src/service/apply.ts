import type { Answer, Decision, Facts, LockCommand } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import type { Holder, LockState } from '../lock/state.ts';
import { jitteredMs } from '../store/jitter.ts';
import type { LockKey, Written } from '../store/lock-store.ts';
import { StoreError } from '../store/store-error.ts';
import { pauseFor } from '../time/timers.ts';
import { announce, factsAbout, type LockContext } from './context.ts';

/** Rounds of trying: on a lock written 500 times a second, ten lose to others with a chance far below one in a thousand. */
const roundsMax = 10;
/** A refusal carries the state in force, so a second decision costs no read; after that, others are given a moment. */
const swapsPerRound = 2;

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
    let written = await context.store.attempt(key, command, facts);
    for (let swaps = 0; !written.applied && swaps < swapsPerRound; swaps++) {
      perhapsMine ||= written.perhapsMine;
      const before = written.state;
      const known = await factsAbout(context, key, before);
      const decision = decide(before, command, known);
      const answer = perhapsMine ? asFirstAnswer(decision.answer) : decision.answer;
      if (decision.next === before) return { answer, state: before, facts: known };
      written = await write(context, key, command, before, decision);
      if (written.applied) return announced(context, key, { answer, state: written.state, facts: known });
    }
    if (written.applied)
      return announced(context, key, { answer: directAnswer(command, written.state), state: written.state, facts });
    perhapsMine ||= written.perhapsMine;
    await pauseFor(context.timers, jitteredMs(round, 4, 250, context.random));
  }
  throw new StoreError('conflict', `Others kept writing to this lock for ${roundsMax * swapsPerRound} tries.`);
}

function announced(context: LockContext, key: LockKey, applied: Applied): Applied {
  announce(context, key, applied.state);
  return applied;
}

/**
 * Writes what was decided. Where a waiter only arrives, or only says that it is there, that alone is written: such writes commute, so
 * a crowd doesn't fight over the revision. All else replaces the state that was decided on.
 */
function write(
  context: LockContext,
  key: LockKey,
  command: LockCommand,
  before: LockState,
  { answer, next }: Decision,
): Promise<Written> {
  if (command.kind === 'acquire' && answer.kind === 'waiting' && next.fence === before.fence) {
    const { waiter } = answer;
    const index = before.queue.findIndex(({ leaseId }) => leaseId === command.leaseId);
    const keepsPlace =
      before.queue[index]?.queuedAt === waiter.queuedAt && before.queue[index].deadlineAt === waiter.deadlineAt;
    if (keepsPlace) return context.store.attend(key, index, waiter, next.changedAt);
    if (index < 0 && next.queue.length === before.queue.length + 1)
      return context.store.enqueue(key, waiter, command.limit);
  }
  return context.store.swap(key, next);
}

/** What a command answers whose common case was written: only success can be. */
function directAnswer(command: LockCommand, state: LockState): Answer {
  switch (command.kind) {
    case 'acquire':
    case 'renew':
      return { kind: 'granted', holder: state.holders.find(({ leaseId }) => leaseId === command.leaseId) as Holder };
    case 'release':
      return { kind: 'released', reason: 'ok' };
    default:
      return { kind: 'done' };
  }
}

/**
 * The request was sent more than once, and the state already shows its effect. Only the owner knows the lease, so this is its own
 * first try, whose response was lost: it gets the answer that the first try would have got.
 */
function asFirstAnswer(answer: Answer): Answer {
  return answer.kind === 'released' && answer.reason === 'already_released'
    ? { kind: 'released', reason: 'ok' }
    : answer;
}
