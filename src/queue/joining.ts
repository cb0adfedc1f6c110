/** A waiter that has no place in the front joins the last page. */
import type { Acquire, Answer } from '../lock/commands.ts';
import { hasMore, isOfAnotherTask, type LockKey, type LockState, lockIdOf, type Waiter } from '../lock/state.ts';
import { StoreError } from '../table/store-error.ts';
import { backoffMs } from '../tools/backoff.ts';
import { again, type NotYet, type QueueContext, unlessThrottled } from './context.ts';
import { findPage } from './finding.ts';
import { applyInPage, type InPage, waitingIn } from './in-page.ts';
import { newerOf } from './lock-cache.ts';
import type { Arrival } from './lock-writes.ts';
import { moveUpThrough } from './moving.ts';
import { isAtEnd } from './pages.ts';

/**
 * A waiter that lost its place and joined again is among the latest. If a crowd lost its places, each of them reads this
 * much when it comes back. Reading the whole queue would take longer than joining it.
 */
const latestPlaces = 64;
/** After its first loss, a waiter pauses for two writes at most. With few other waiters, this hardly delays it. */
const pauseMsMin = 16;
/** 5,000 waiters that join at 500 a second take ten seconds. In that time, each has paused for this long a few times. */
const pauseMsMax = 4_000;

export interface Joining {
  readonly command: Acquire;
  readonly waiter: Waiter;
  readonly before: LockState;
}

/**
 * Takes one step towards a place in the last page: joins it, or opens a page. If an answer was lost, the lease may already be in a
 * page, so the pages are searched before the first step.
 */
export async function joinBehind(
  context: QueueContext,
  key: LockKey,
  joining: Joining,
  isSearched: boolean,
): Promise<InPage | NotYet> {
  const { command, before } = joining;
  if (command.place !== 'new' && !isSearched) {
    // A caller that names a page may have lost its place there and joined again, without getting the answer.
    const pagesMax = command.place === undefined ? Number.POSITIVE_INFINITY : latestPlaces / context.sizes.page;
    const page = await findPage(context, key, command.leaseId, before, pagesMax);
    if (page !== undefined) {
      return (await applyInPage(context, key, command, page)) ?? again(await context.store.read(key));
    }
  }
  // If many join at once, each learns from the one before which page is the last, and is not refused by a page that is full now.
  return context.turns.run(`join ${lockIdOf(key)}`, async (isInTurn) => {
    const state = newerOf(before, context.cache.seen(key)?.state);
    // A decision that is seconds old is made again. If many joined without a turn, most would be refused.
    return isInTurn ? joinInTurn(context, key, joining, state) : { kind: 'again', state, isProgress: true };
  });
}

async function joinInTurn(
  context: QueueContext,
  key: LockKey,
  { command, waiter, before }: Joining,
  state: LockState,
): Promise<InPage | NotYet> {
  const { hints, sizes } = context;
  const arrival: Arrival = { waiter, limit: command.limit, frontLengthMax: sizes.front };
  const isKnown = [...state.holders, ...state.queue, ...state.ended].some(({ leaseId }) => leaseId === waiter.leaseId);
  if (isKnown || (!hasMore(state) && state !== before)) return again(state);
  const isLastFull = hasMore(state) && hints.isFull(key, state.behind.last);
  if (isAtEnd(state, sizes, isLastFull)) return { answer: { kind: 'queue-full' }, state };
  if (hasMore(state) && !isLastFull) return append(context, key, arrival, state);
  // There is no page yet, or the last one is closed or full. The next page is opened.
  const opened = await unlessThrottled(context.store.write(key, { kind: 'open-page', ...arrival, seen: state.behind }));
  if (opened === undefined) return stepBack(context, key, state);
  context.cache.learn(key, opened.state);
  if (opened.applied) return { kind: 'again', state: opened.state, isProgress: true };
  return hasMore(opened.state) ? stepBack(context, key, opened.state) : again(opened.state, opened.perhapsMine);
}

async function append(
  context: QueueContext,
  key: LockKey,
  arrival: Arrival,
  state: LockState & { readonly behind: { readonly last: number } },
): Promise<InPage | NotYet> {
  const { hints, pages, sizes } = context;
  const { waiter } = arrival;
  const { last } = state.behind;
  const join = { kind: 'join', waiter, fence: state.fence, sizes } as const;
  const written = await unlessThrottled(pages.write({ lock: key, number: last }, join));
  if (written === undefined) return stepBack(context, key, state);
  const { page } = written;
  if (page.closedAt !== null || page.waiters.length + page.left.length >= sizes.page) hints.learnFull(key, last);
  const index = page.waiters.findIndex(({ leaseId }) => leaseId === waiter.leaseId);
  if (index >= 0 && page.closedAt !== null) {
    await moveUpThrough(context, key, last);
    return again(await context.store.read(key));
  }
  // Also if it was refused because it is already in the page: an earlier try was written, or another task has this lease.
  if (index >= 0) {
    if (isOfAnotherTask(page.waiters[index]?.notify, waiter.notify))
      return { answer: { kind: 'lease-of-another' }, state };
    hints.learnPage(key, waiter.leaseId, last);
    hints.forgetLosses(key);
    if (hints.isFull(key, last)) await openNext(context, key, arrival, state);
    return { answer: waitingIn(context, state, page, index), state };
  }
  if (page.left.some(({ leaseId, how }) => leaseId === waiter.leaseId && how === 'released')) {
    const lost: Answer = { kind: 'lost', reason: 'released' };
    return { answer: lost, state };
  }
  // The process that filled the page opens the next one, unless it died. A read costs much less than a refused write.
  return stepBack(context, key, state);
}

/**
 * The waiter that takes the last place of a page opens the next one. So the next waiter is not refused first, and many waiters
 * do not conflict over it. If this write fails, a waiter that finds no place opens the page.
 */
async function openNext(context: QueueContext, key: LockKey, arrival: Arrival, state: LockState): Promise<void> {
  if (isAtEnd(state, context.sizes, true)) return;
  try {
    const opened = await context.store.write(key, { kind: 'open-page', ...arrival, seen: state.behind });
    context.cache.learn(key, opened.state);
  } catch (error) {
    // The waiter has its place even if the next page could not be opened.
    if (!(error instanceof StoreError)) throw error;
  }
}

/**
 * Other processes were faster. If many try again at once, one opens a page and eight join it, and all others only use up the
 * write units of the keys. So each waits for a random time, which doubles with each loss, and then reads where the queue ends.
 */
function stepBack({ alone, hints, random }: QueueContext, key: LockKey, seen: LockState): NotYet {
  const losses = hints.noteLoss(key);
  // A process that serves alone learns of every write.
  if (alone) return { kind: 'again', state: seen, isProgress: true };
  return { kind: 'pause', ms: backoffMs(losses - 1, pauseMsMin, pauseMsMax, random) };
}
