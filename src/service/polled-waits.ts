/**
 * Waiting if other processes write to the table too, as in direct mode and in Lambda functions. Nobody tells this process of their
 * writes, so it looks at the lock.
 *
 * One look serves all waiters of the process, and a release in the same process wakes its successor without a look. So what matters is
 * how often each process looks for its first waiter. Two things decide that: its position, and for how long the lock has been held.
 *
 * - A lock that has just been granted may be released at once. A lock that has been held for a minute will hardly be released within
 *   the next milliseconds. So the time between two looks is a part of the time since the last grant, and no rate of grants need be
 *   estimated. An estimate would also count the time until a grant is noticed. Then slow looks make hand-offs slow, slow hand-offs make
 *   looks slow, and this does not end.
 * - A waiter further back needs to look only when the waiters ahead of it may have been served.
 *
 * A model (`test/bench/direct.ts`) of up to 1,000 waiters in 200 processes gave the numbers: the next waiter notices its grant
 * after 10 to 20 ms (median) if holds are short, and after an eighth of a hold at most if they are longer.
 */
import type { Facts } from '../lock/commands.ts';
import type { LockState } from '../lock/state.ts';
import { isPresent, nextDueAt } from '../lock/validity.ts';
import { positionOf } from '../lock/view.ts';
import type { LockCache } from '../queue/lock-cache.ts';
import { depthOf, positionInPage, type QueueSizes } from '../queue/pages.ts';
import type { Clock } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import { type FirstWaiter, type NextStep, NotifiedWaits, type Step } from './notified-waits.ts';

/** A look comes after this part of the time since the last grant. So a hold seems longer by an eighth at most. */
const partOfHold = 1 / 8;
/** Nobody looks more often, because a read itself takes some milliseconds. */
const tightestPaceMs = 15;
/** The next waiter does not look less often. So it notices a hand-off much sooner than a cold start takes. */
const nextPaceMs = 50;
/** For each two positions further back, the pace is longer by this much at most, however long the lock is held. */
const slowestTurnMs = 200;
/** Nobody looks less often, unless many wait. If many waiters give up together, the queue may become empty at once. */
const slowestPaceMs = 2_000;
/**
 * How often all waiters near the front together may look in a second, if each is in its own process: at most a seventh of the 3,000 read
 * units that DynamoDB gives a key. A look at an ordinary lock is one unit or half of it, and a semaphore with many holders takes several.
 */
const nearLooksPerSecondMax = 450;
/** The same for the waiters far back, which look at the slowest pace. */
const farLooksPerSecondMax = 300;

const between = (least: number, value: number, most: number): number => Math.min(most, Math.max(least, value));

/** The time until the next look for the waiter at a position. */
export function paceMs(state: LockState, position: number, facts: Facts, sizes: QueueSizes): number {
  const grantedAt = Math.max(0, ...state.holders.map(({ acquiredAt }) => acquiredAt));
  const heldMs = facts.now - grantedAt;
  if (position === 1) return between(tightestPaceMs, heldMs * partOfHold, nextPaceMs);
  const waiting = Math.max(position, depthOf(state, facts, sizes));
  // The pace is proportional to the position, so n waiters look (1 + 1/2 + … + 1/n) times as often as one: less than 1 + ln n.
  const boundMs = ((1 + Math.log(waiting)) * 1_000) / nearLooksPerSecondMax;
  const perPositionMs = Math.max(boundMs, between(tightestPaceMs, heldMs * partOfHold, slowestTurnMs) / 2);
  return Math.min(position * perPositionMs, Math.max(slowestPaceMs, (waiting * 1_000) / farLooksPerSecondMax));
}

/** The position of the first waiter. In a page, that of the page's first place, so that the look is not too late. */
const positionFor = (state: LockState, { leaseId, page = 0 }: FirstWaiter, facts: Facts, sizes: QueueSizes): number =>
  positionOf(state, leaseId, facts) ?? positionInPage(state, page, 0, sizes);

/** Whether this process sweeps when time alone changes something. */
function isNext(state: LockState, { leaseId, page }: FirstWaiter, facts: Facts): boolean {
  if (page === undefined) return positionOf(state, leaseId, facts) === 1;
  // If nobody is present in the front, a page must move up. The waiters ahead in the pages may be gone too, so any waiter in a page does it.
  return !state.queue.some((waiter) => isPresent(waiter, facts));
}

const lookAtPace =
  (random: () => number, sizes: QueueSizes): NextStep =>
  (state, first, facts) => {
    const look: Step['take'] = (access) => access.read();
    if (facts === undefined) return { afterMs: nextPaceMs, take: look };
    const position = positionFor(state, first, facts, sizes);
    // A random tenth more or less, so that processes that began together do not look together.
    const afterMs = paceMs(state, position, facts, sizes) * (0.9 + random() * 0.2);
    const dueAt = isNext(state, first, facts) ? nextDueAt(state, facts) : null;
    // Most looks are those of waiters further back. It does little harm if they notice a moment later that the queue moved. The
    // next waiter's look often finds its grant, which must be read consistently.
    const lookFromBehind: Step['take'] = (access, endsWait) => access.peek(endsWait);
    if (dueAt === null || dueAt - facts.now > afterMs) return { afterMs, take: position === 1 ? look : lookFromBehind };
    // A sweep begins with a look.
    return { afterMs: dueAt - facts.now, take: (access) => access.sweep() };
  };

export const polledWaits = ({
  random,
  sizes,
  ...parts
}: {
  clock: Clock;
  timers: Timers;
  cache: LockCache;
  random: () => number;
  sizes: QueueSizes;
}): NotifiedWaits => new NotifiedWaits({ ...parts, nextStep: lookAtPace(random, sizes) });
