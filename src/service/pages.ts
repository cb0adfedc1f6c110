/** Commands for a waiter in a page. Each is one small write to that page, and none to the lock. */
import type { Acquire, Answer, Facts, GiveUp, WaiterCommand } from '../lock/commands.ts';
import { lockLimits } from '../lock/limits.ts';
import {
  type Attendance,
  attendIn,
  isInPages,
  type MovedPages,
  movedBetween,
  moveUp,
  type Page,
  pageCount,
  pageNumbers,
  positionInPage,
  type QueueSizes,
  sizesOf,
} from '../lock/pages.ts';
import { hasPages, isOfAnotherTask, type LockKey, type LockState, type Waiter } from '../lock/state.ts';
import { waitedMs } from '../lock/view.ts';
import type { Arrival, PageWritten, Refused } from '../store/lock-store.ts';
import { StoreError } from '../store/store-error.ts';
import { after, type EpochMs, epochMs } from '../time/clock.ts';
import { pauseFor } from '../time/timers.ts';
import { backoffMs } from '../tools/backoff.ts';
import type { Applied } from './apply.ts';
import { factsAbout, type LockContext, readAndLearn, unlessThrottled } from './context.ts';
import { isBefore } from './lock-memory.ts';

/** A state of the lock that is this old is good enough to show the holders to a waiter in a page. */
const seenMsMax = 1_000;
/** Others may move the same pages up at the same time. After this many tries something else is wrong. */
const movesMax = 50;

/**
 * A waiter that lost its place and joined again is among the latest. If a crowd lost its places, each of them reads this
 * much when it comes back. Reading the whole queue would take longer than joining it.
 */
const latestPlaces = 64;
/** After this time, a decision to join is made again, with new times for the waiter. */
const joinMsMax = 2_000;
/** Limits the tries if no time passes in between, as in a test. */
const joinsMax = 50;
/** After its first loss, a waiter pauses for two writes at most. With few other waiters, this hardly delays it. */
const stepMsMin = 16;
/** 5,000 waiters that join at 500 a second take ten seconds. In that time, each has paused for this long a few times. */
const stepMsMax = 4_000;

/** Carries out a command in a page. Undefined if the waiter is not there, so the lock must be asked. */
export async function applyInPage(
  context: LockContext,
  key: LockKey,
  command: WaiterCommand,
  number: number,
): Promise<Applied | undefined> {
  if (command.kind === 'give-up' && command.deadlock !== undefined) return endInDeadlock(context, key, command, number);
  const now = context.clock.now();
  const written = await writeInPage(context, key, command, number, now);
  const { page } = written;
  const waiter = page.waiters.find(({ leaseId }) => leaseId === command.leaseId);
  if (written.applied) {
    const isOver = command.kind === 'acquire' && waiter !== undefined && waiter.deadlineAt <= now;
    if (isOver) return applyInPage(context, key, { kind: 'give-up', leaseId: command.leaseId }, number);
    return answered(context, key, number, answerOf(command, page, number, now));
  }
  if (page.left.some(({ leaseId, how }) => leaseId === command.leaseId && how === 'released')) {
    const lost: Answer = { kind: 'lost', reason: 'released' };
    const released: Answer = { kind: 'released', reason: written.perhapsMine ? 'cancelled' : 'already_released' };
    return answered(context, key, number, () => (command.kind === 'release' ? released : lost));
  }
  if (waiter === undefined) {
    context.memory.forgetPlace(key, command.leaseId);
    return undefined;
  }
  if (page.closedAt === null && command.kind === 'acquire' && isOfAnotherTask(waiter.notify, command.notify))
    return answered(context, key, number, () => ({ kind: 'lease-of-another' }));
  // The waiter is already absent, or is parked on another connection by now.
  if (page.closedAt === null) return answered(context, key, number, () => ({ kind: 'done' }));
  // A closed page moves up into the front. Then the lock answers for its waiters.
  await moveUpThrough(context, key, number);
  context.memory.forgetPlace(key, command.leaseId);
  return undefined;
}

function writeInPage(
  { store }: LockContext,
  lock: LockKey,
  command: WaiterCommand,
  number: number,
  now: EpochMs,
): Promise<PageWritten> {
  const page = { lock, number };
  const { leaseId } = command;
  switch (command.kind) {
    case 'acquire':
      return store.attendInPage(page, attendanceOf(command, now));
    case 'step-away': {
      const presentUntil = after(now, lockLimits.waiterAbsenceMs);
      return store.stepAwayInPage(page, { leaseId, presentUntil, connectionId: command.connectionId });
    }
    case 'give-up':
      return store.leavePage(page, leaseId, 'gave-up', now);
    case 'release':
      return store.leavePage(page, leaseId, 'released', now);
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
  context: LockContext,
  key: LockKey,
  command: Acquire,
  number: number,
): Promise<Applied | 'needs-write' | 'elsewhere'> {
  const now = context.clock.now();
  const [page] = await context.store.readPages([{ lock: key, number }]);
  const attended = page === undefined ? undefined : attendIn(page, attendanceOf(command, now));
  if (page === undefined || attended === undefined) return 'elsewhere';
  const waiter = page.waiters.find(({ leaseId }) => leaseId === command.leaseId);
  if (attended !== page || waiter === undefined || waiter.deadlineAt <= now) return 'needs-write';
  return answered(context, key, number, answerOf(command, page, number, now));
}

type AnswerOn = (state: LockState, facts: Facts) => Answer;

function answerOf(command: WaiterCommand, page: Page, number: number, now: EpochMs): AnswerOn {
  const isOwn = ({ leaseId }: { readonly leaseId: string }) => leaseId === command.leaseId;
  const index = page.waiters.findIndex(isOwn);
  const waiter = page.waiters[index];
  return (state, facts) => {
    switch (command.kind) {
      case 'acquire':
        return waitingIn(state, { number, waiter: waiter as Waiter, index }, facts);
      case 'step-away':
        return { kind: 'done' };
      case 'give-up':
        return { kind: 'wait-timeout', waitedMs: waitedMs(page.left.findLast(isOwn) ?? {}, now) };
      default:
        return { kind: 'released', reason: 'cancelled' };
    }
  };
}

const waitingIn = (
  state: LockState,
  { number, waiter, index }: { number: number; waiter: Waiter; index: number },
  facts: Facts,
): Answer => ({
  kind: 'waiting',
  waiter,
  position: positionInPage(state, number, index, sizesOf(facts)),
  page: number,
});

/** A recent state of the lock is good enough, if it already has this page: a waiter never moves back, so its position is not too low. */
async function answered(context: LockContext, key: LockKey, page: number, answer: AnswerOn): Promise<Applied> {
  const seen = context.memory.seen(key);
  const isRecent = seen !== undefined && context.clock.now() < seen.at + seenMsMax && isInPages(seen.state, page);
  const state = isRecent ? seen.state : await context.store.read(key);
  if (!isRecent) context.memory.learn(key, state);
  const facts = await factsAbout(context, key, state);
  return { answer: answer(state, facts), state, facts };
}

/**
 * Ends a wait in a page because of a deadlock. The waiter leaves the page. Then the lock remembers the cycle, and the waiter's next request
 * gets it. If the second write fails, the waiter joins again with its next request, and the cycle is found again.
 */
async function endInDeadlock(
  context: LockContext,
  key: LockKey,
  { leaseId, deadlock = '[]' }: GiveUp,
  number: number,
): Promise<Applied | undefined> {
  const left = await context.store.leavePage({ lock: key, number }, leaseId, 'gave-up', context.clock.now());
  if (!left.applied && !left.perhapsMine) {
    // The waiter has moved up, or soon will. Then the lock answers for it.
    const isMovingUp = left.page.closedAt !== null && left.page.waiters.some((waiter) => waiter.leaseId === leaseId);
    if (isMovingUp) await moveUpThrough(context, key, number);
    context.memory.forgetPlace(key, leaseId);
    return undefined;
  }
  const answer: Answer = { kind: 'deadlock', cycle: deadlock };
  for (let tries = 0; tries < movesMax; tries++) {
    const state = await context.store.read(key);
    const facts = await factsAbout(context, key, state);
    if (state.ended.some((entry) => entry.leaseId === leaseId)) return { answer, state, facts };
    const ending = { leaseId, how: 'deadlock' as const, reason: deadlock };
    const ended = [ending, ...state.ended].slice(0, lockLimits.endedRemembered);
    const written = await context.store.swap(key, { ...state, rev: state.rev + 1, changedAt: facts.now, ended });
    context.memory.learn(key, written.state);
    if (written.applied) return { answer, state: written.state, facts };
    await pauseFor(context.timers, backoffMs(Math.min(tries, 5), 4, 250, context.random));
  }
  throw new StoreError('conflict', 'Others kept writing to this lock.');
}

export interface Joining {
  readonly command: Acquire;
  readonly waiter: Waiter;
  readonly before: LockState;
  readonly facts: Facts;
}

/**
 * Joins the last page. If there is none, it is opened first. If an answer was lost, the lease may already be in a page, so
 * the pages are searched first.
 */
export async function joinPage(context: LockContext, key: LockKey, joining: Joining): Promise<Applied | Undecided> {
  const { command, before, facts } = joining;
  if (command.place !== 'new') {
    // A caller that names a page may have lost its place there and joined again, without getting the answer.
    const pagesMax = command.place === undefined ? Number.POSITIVE_INFINITY : latestPlaces / sizesOf(facts).page;
    const place = await findPlace(context, key, command.leaseId, before, pagesMax);
    if (place !== undefined) {
      const applied = await applyInPage(context, key, command, place);
      return applied ?? decideAgain(await context.store.read(key));
    }
  }
  return context.memory.inTurn(key, 'join', context.timers, async (isInTurn) =>
    // A decision that is seconds old is made again, and then waits for its turn again. If many joined without a turn, most would be refused.
    isInTurn ? joinInTurn(context, key, joining) : decideLate(newer(before, context.memory.seen(key)?.state)),
  );
}

/** The state to decide on next. `isLate`: the time for this decision is over, and nothing else is wrong with it. */
interface Undecided {
  readonly written: Refused;
  readonly isLate?: boolean;
}

const decideAgain = (state: LockState, perhapsMine = false): Undecided => ({
  written: { applied: false, state, perhapsMine },
});

const decideLate = (state: LockState): Undecided => ({ ...decideAgain(state), isLate: true });

async function joinInTurn(
  context: LockContext,
  key: LockKey,
  { command, waiter, before, facts }: Joining,
): Promise<Applied | Undecided> {
  const { memory, store } = context;
  const sizes = sizesOf(facts);
  const arrival = { waiter, limit: command.limit, sizes };
  // Others may have joined in the meantime, and this process may know a newer state.
  let state = newer(before, memory.seen(key)?.state);
  const isKnown = [...state.holders, ...state.queue, ...state.ended].some(({ leaseId }) => leaseId === waiter.leaseId);
  if (isKnown) return decideAgain(state);
  const until = after(context.clock.now(), joinMsMax);
  for (let tries = 0; tries < joinsMax && context.clock.now() < until; tries++) {
    const last = state.pages?.last;
    const hasLast = last !== undefined && hasPages(state);
    if (!hasLast && state !== before) return decideAgain(state);
    if (hasLast && !memory.isFull(key, last)) {
      const number = last;
      const written = await unlessThrottled(
        store.appendToPage({ lock: key, number }, { waiter, fence: state.fence }, sizes),
      );
      if (written === undefined) {
        state = await stepBack(context, key, state);
        continue;
      }
      const { page } = written;
      if (page.closedAt !== null || page.waiters.length + page.left.length >= sizes.page) memory.learnFull(key, last);
      const index = page.waiters.findIndex(({ leaseId }) => leaseId === waiter.leaseId);
      const joined = page.waiters[index];
      // It was refused because it is already in the page: an earlier try was written, or another task has this lease.
      if (joined !== undefined && page.closedAt === null) {
        if (isOfAnotherTask(joined.notify, waiter.notify))
          return { answer: { kind: 'lease-of-another' }, state, facts };
        memory.learnPlace(key, waiter.leaseId, last);
        memory.forgetLosses(key);
        if (memory.isFull(key, last)) await openNext(context, key, arrival, state);
        return { answer: waitingIn(state, { number: last, waiter: joined, index }, facts), state, facts };
      }
      if (joined !== undefined) {
        await moveUpThrough(context, key, last);
        return decideAgain(await store.read(key));
      }
      if (page.left.some(({ leaseId, how }) => leaseId === waiter.leaseId && how === 'released'))
        return { answer: { kind: 'lost', reason: 'released' }, state, facts };
      // The process that filled the page opens the next one, unless it died. A read costs much less than a refused write.
      state = await stepBack(context, key, state);
      if (state.pages?.last !== last) continue;
    }
    if (isAtEnd(state, sizes)) return { answer: { kind: 'queue-full' }, state, facts };
    // There is no page yet, or the last one is closed or full. The next page is opened.
    const opened = await unlessThrottled(store.openPage(key, arrival, state.pages));
    if (opened === undefined) {
      state = await stepBack(context, key, state);
      continue;
    }
    memory.learn(key, opened.state);
    if (!opened.applied && !hasPages(opened.state)) return decideAgain(opened.state, opened.perhapsMine);
    state = opened.applied ? opened.state : await stepBack(context, key, opened.state);
  }
  // If no time has passed, as in a test, the tries must still have a limit.
  return context.clock.now() < until ? decideAgain(state) : decideLate(state);
}

/**
 * The waiter that takes the last place of a page opens the next one. So the next waiter is not refused first, and many waiters
 * do not conflict over it. If this write fails, a waiter that finds no place opens the page.
 */
async function openNext(context: LockContext, key: LockKey, arrival: Arrival, state: LockState): Promise<void> {
  if (isAtEnd(state, arrival.sizes)) return;
  try {
    const opened = await context.store.openPage(key, arrival, state.pages);
    context.memory.learn(key, opened.state);
  } catch (error) {
    // The waiter has its place even if the next page could not be opened.
    if (!(error instanceof StoreError)) throw error;
  }
}

/** A process that serves alone learns of every write. */
const isAlone = ({ rememberedMs }: LockContext): boolean => rememberedMs === Number.POSITIVE_INFINITY;

/**
 * Other processes were faster. If many try again at once, one opens a page and eight join it, and all others only use up the
 * write units of the keys. So each waits for a random time, which doubles with each loss, and then reads where the queue ends.
 */
async function stepBack(context: LockContext, key: LockKey, seen: LockState): Promise<LockState> {
  const losses = context.memory.noteLoss(key);
  if (isAlone(context)) return seen;
  await pauseFor(context.timers, backoffMs(losses - 1, stepMsMin, stepMsMax, context.random));
  return readAndLearn(context, key);
}

/** True if the queue has its greatest length when the last page is full. */
const isAtEnd = (state: LockState, { page }: QueueSizes): boolean =>
  hasPages(state) && state.queue.length + pageCount(state) * page >= lockLimits.queueLengthMax;

const newer = (one: LockState, other: LockState | undefined): LockState =>
  other !== undefined && isBefore(one, other) ? other : one;

/**
 * The page in which a lease waits, or in which it gave its place back. Undefined if there is none. `pagesMax`: how many pages
 * to search, from the end of the queue.
 */
export async function findPlace(
  context: LockContext,
  lock: LockKey,
  leaseId: string,
  state: LockState,
  pagesMax = Number.POSITIVE_INFINITY,
): Promise<number | undefined> {
  const pages = await readPagesOf(context, lock, state, pagesMax);
  // A lease that left one page may wait in a later one.
  const found =
    pages.find(({ waiters }) => waiters.some((waiter) => waiter.leaseId === leaseId)) ??
    pages.find(({ left }) => left.some((entry) => entry.leaseId === leaseId && entry.how === 'released'));
  return found?.number;
}

/** The pages in which the waiters of a lock wait, by lease: one search for many of them. */
export async function placesIn(context: LockContext, lock: LockKey): Promise<ReadonlyMap<string, number>> {
  const pages = await readPagesOf(context, lock, await context.store.read(lock));
  return new Map(pages.flatMap(({ number, waiters }) => waiters.map(({ leaseId }) => [leaseId, number] as const)));
}

const readPagesOf = (
  context: LockContext,
  lock: LockKey,
  state: LockState,
  pagesMax = Number.POSITIVE_INFINITY,
): Promise<Page[]> =>
  hasPages(state)
    ? context.store.readPages(
        pageNumbers(state)
          .slice(-pagesMax)
          .map((number) => ({ lock, number })),
      )
    : Promise.resolve([]);

/** Moves all pages up to this one into the front. This page is already closed, and the process that closed it may have died. */
async function moveUpThrough(context: LockContext, key: LockKey, number: number): Promise<void> {
  for (let tries = 0; tries < movesMax; tries++) {
    const state = await context.store.read(key);
    context.memory.learn(key, state);
    const first = state.pages?.first;
    if (first === undefined || !isInPages(state, number)) return;
    const page = await context.store.closePage({ lock: key, number: first }, context.clock.now());
    const moved = movedBetween(state, moveUp(state, page)) as MovedPages;
    // If this is refused, somebody else has moved the page up.
    const written = await context.store.moveUp(key, moved, context.clock.now());
    context.memory.learn(key, written.state);
  }
  throw new StoreError('conflict', 'Others kept writing to this lock.');
}

/** The lock with its whole queue in `queue`, for people and for the search for deadlocks. */
export async function readWhole(context: LockContext, keys: readonly LockKey[]): Promise<LockState[]> {
  const states = await context.store.readMany(keys);
  return Promise.all(states.map((state, index) => withPages(context, keys[index] as LockKey, state)));
}

export async function withPages(context: LockContext, lock: LockKey, state: LockState): Promise<LockState> {
  if (!hasPages(state)) return state;
  const pages = await readPagesOf(context, lock, state);
  const { pages: _, ...whole } = pages.reduce<LockState>((merged, page) => moveUp(merged, asIfClosed(page)), state);
  return whole;
}

/** The page as if it were closed now, so that all its waiters count. */
const asIfClosed = (page: Page): Page => (page.closedAt === null ? { ...page, closedAt: epochMs(0) } : page);

/**
 * Ends the waits of parked waiters in pages whose deadline has come, because no request does it for them. Returns the next such deadline.
 * A waiter that polls ends its wait itself, or is dropped when its page moves up.
 */
export async function sweepPages(context: LockContext, lock: LockKey, state: LockState): Promise<EpochMs | null> {
  const now = context.clock.now();
  const pages = await readPagesOf(context, lock, state);
  const deadlines: number[] = [];
  for (const { number, waiters } of pages) {
    for (const { leaseId, deadlineAt, notify } of waiters) {
      if (notify === undefined) continue;
      if (deadlineAt > now) deadlines.push(deadlineAt);
      else await context.store.leavePage({ lock, number }, leaseId, 'gave-up', now);
    }
  }
  return deadlines.length === 0 ? null : epochMs(Math.min(...deadlines));
}
