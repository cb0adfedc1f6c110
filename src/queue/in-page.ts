/** Commands for a waiter in a page. Each is one small write to that page, and none to the lock. */
import type { Acquire, Answer, GiveUp, WaiterCommand } from '../lock/commands.ts';
import { lockLimits } from '../lock/limits.ts';
import { isOfAnotherTask, type LockKey, type LockState, type Waiter } from '../lock/state.ts';
import { waitedMs } from '../lock/view.ts';
import { StoreError } from '../table/store-error.ts';
import { after, type EpochMs } from '../time/clock.ts';
import { pauseFor } from '../time/timers.ts';
import { backoffMs } from '../tools/backoff.ts';
import { type QueueContext, readAndLearn } from './context.ts';
import { moveUpThrough } from './moving.ts';
import type { PageWrite } from './page-store.ts';
import { type Attendance, attendIn, isInPages, type Page, positionInPage } from './pages.ts';

/** A state of the lock that is this old is good enough to show the holders to a waiter in a page. */
const seenMsMax = 1_000;
/** A deadlock is noted in the lock. Others may write to it at the same time, but not so often in a row. */
const notesMax = 50;

/** The answer to a command, and the state of the lock that goes with it. */
export interface InPage {
  readonly answer: Answer;
  readonly state: LockState;
}

/** The page to ask: the one that the command names, or the one that this process saw the lease join. Undefined: ask the lock. */
export function pageToAsk(
  { hints, cache }: QueueContext,
  key: LockKey,
  { leaseId, place }: WaiterCommand,
): number | undefined {
  if (place !== undefined) return place === 'new' ? undefined : place;
  const page = hints.pageOf(key, leaseId);
  const seen = cache.seen(key);
  // If the page moved up, its waiters are in the front, or hold the lock.
  return seen === undefined || isInPages(seen.state, page) ? page : undefined;
}

/** Carries out a command in a page. Undefined if the waiter is not there, so the lock must be asked. */
export async function applyInPage(
  context: QueueContext,
  key: LockKey,
  command: WaiterCommand,
  number: number,
): Promise<InPage | undefined> {
  if (command.kind === 'give-up' && command.deadlock !== undefined) return endInDeadlock(context, key, command, number);
  const now = context.clock.now();
  const written = await context.pages.write({ lock: key, number }, writeOf(command, now));
  const { page } = written;
  const waiter = page.waiters.find(({ leaseId }) => leaseId === command.leaseId);
  if (written.applied) {
    const isOver = command.kind === 'acquire' && waiter !== undefined && waiter.deadlineAt <= now;
    if (isOver) return applyInPage(context, key, { kind: 'give-up', leaseId: command.leaseId }, number);
    return answered(context, key, number, answerOf(context, command, page, now));
  }
  if (page.left.some(({ leaseId, how }) => leaseId === command.leaseId && how === 'released')) {
    const lost: Answer = { kind: 'lost', reason: 'released' };
    const released: Answer = { kind: 'released', reason: written.perhapsMine ? 'cancelled' : 'already_released' };
    return answered(context, key, number, () => (command.kind === 'release' ? released : lost));
  }
  if (waiter === undefined) {
    context.hints.forgetPage(key, command.leaseId);
    return undefined;
  }
  if (page.closedAt === null && command.kind === 'acquire' && isOfAnotherTask(waiter.notify, command.notify))
    return answered(context, key, number, () => ({ kind: 'lease-of-another' }));
  // The waiter is already absent, or is parked on another connection by now.
  if (page.closedAt === null) return answered(context, key, number, () => ({ kind: 'done' }));
  // A closed page moves up into the front. Then the lock answers for its waiters.
  await moveUpThrough(context, key, number);
  context.hints.forgetPage(key, command.leaseId);
  return undefined;
}

function writeOf(command: WaiterCommand, now: EpochMs): PageWrite {
  const { leaseId } = command;
  switch (command.kind) {
    case 'acquire':
      return { kind: 'attend', attendance: attendanceOf(command, now) };
    case 'step-away': {
      const presentUntil = after(now, lockLimits.waiterAbsenceMs);
      return { kind: 'step-away', absence: { leaseId, presentUntil, connectionId: command.connectionId } };
    }
    case 'give-up':
      return { kind: 'leave', leaseId, how: 'gave-up', now };
    case 'release':
      return { kind: 'leave', leaseId, how: 'released', now };
  }
}

const attendanceOf = ({ leaseId, attendMs, notify }: Acquire, now: EpochMs): Attendance => ({
  leaseId,
  // A parked waiter is present until its deadline. The page limits this time to the deadline.
  presentUntil: after(now, attendMs ?? lockLimits.parkedWaitMsMax),
  notify,
});

/**
 * Reads whether a waiter in a page waits exactly as its command says. `needs-write`: it waits there, but not so, or its
 * deadline has come. `elsewhere`: it is not there any more, so the lock must be asked.
 */
export async function readInPage(
  context: QueueContext,
  key: LockKey,
  command: Acquire,
  number: number,
): Promise<InPage | 'needs-write' | 'elsewhere'> {
  const now = context.clock.now();
  const [page] = await context.pages.read([{ lock: key, number }]);
  const attended = page === undefined ? undefined : attendIn(page, attendanceOf(command, now));
  if (page === undefined || attended === undefined) return 'elsewhere';
  const waiter = page.waiters.find(({ leaseId }) => leaseId === command.leaseId);
  if (attended !== page || waiter === undefined || waiter.deadlineAt <= now) return 'needs-write';
  return answered(context, key, number, answerOf(context, command, page, now));
}

type AnswerOn = (state: LockState) => Answer;

function answerOf(context: QueueContext, command: WaiterCommand, page: Page, now: EpochMs): AnswerOn {
  const isOwn = ({ leaseId }: { readonly leaseId: string }) => leaseId === command.leaseId;
  return (state) => {
    switch (command.kind) {
      case 'acquire':
        return waitingIn(context, state, page, page.waiters.findIndex(isOwn));
      case 'step-away':
        return { kind: 'done' };
      case 'give-up':
        return { kind: 'wait-timeout', waitedMs: waitedMs(page.left.findLast(isOwn) ?? {}, now) };
      case 'release':
        return { kind: 'released', reason: 'cancelled' };
    }
  };
}

/** The answer to the waiter at this place of a page. */
export const waitingIn = ({ sizes }: QueueContext, state: LockState, page: Page, index: number): Answer => ({
  kind: 'waiting',
  waiter: page.waiters[index] as Waiter,
  position: positionInPage(state, page.number, index, sizes),
  place: page.number,
});

/** A recent state of the lock is good enough, if it already has this page: a waiter never moves back, so its position is not too low. */
async function answered(context: QueueContext, key: LockKey, page: number, answer: AnswerOn): Promise<InPage> {
  const seen = context.cache.seen(key);
  const isRecent = seen !== undefined && context.clock.now() < seen.at + seenMsMax && isInPages(seen.state, page);
  const state = isRecent ? seen.state : await readAndLearn(context, key);
  return { answer: answer(state), state };
}

/**
 * Ends a wait in a page because of a deadlock. The waiter leaves the page. Then the lock remembers the cycle, and the waiter's next request
 * gets it. If the second write fails, the waiter joins again with its next request, and the cycle is found again.
 */
async function endInDeadlock(
  context: QueueContext,
  key: LockKey,
  { leaseId, deadlock = '[]' }: GiveUp,
  number: number,
): Promise<InPage | undefined> {
  const now = context.clock.now();
  const left = await context.pages.write({ lock: key, number }, { kind: 'leave', leaseId, how: 'gave-up', now });
  if (!left.applied && !left.perhapsMine) {
    // The waiter has moved up, or soon will. Then the lock answers for it.
    const isMovingUp = left.page.closedAt !== null && left.page.waiters.some((waiter) => waiter.leaseId === leaseId);
    if (isMovingUp) await moveUpThrough(context, key, number);
    context.hints.forgetPage(key, leaseId);
    return undefined;
  }
  const answer: Answer = { kind: 'deadlock', cycle: deadlock };
  for (let tries = 0; tries < notesMax; tries++) {
    const state = await context.store.read(key);
    if (state.ended.some((entry) => entry.leaseId === leaseId)) return { answer, state };
    const ending = { leaseId, how: 'deadlock' as const, reason: deadlock };
    const ended = [ending, ...state.ended].slice(0, lockLimits.endedRemembered);
    const next = { ...state, rev: state.rev + 1, changedAt: context.clock.now(), ended };
    const written = await context.store.write(key, { kind: 'replace', next });
    context.cache.learn(key, written.state);
    if (written.applied) return { answer, state: written.state };
    await pauseFor(context.timers, backoffMs(Math.min(tries, 5), 4, 250, context.random));
  }
  throw new StoreError('conflict', 'Others kept writing to this lock.');
}
