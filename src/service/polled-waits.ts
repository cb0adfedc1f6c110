import type { Facts } from '../lock/commands.ts';
import { isInPages } from '../lock/pages.ts';
import type { LockState } from '../lock/state.ts';
import { isPresent, nextDueAt } from '../lock/validity.ts';
import { depthOf, positionBehind, positionOf } from '../lock/view.ts';
import { lockIdOf } from '../store/lock-store.ts';
import type { EpochMs } from '../time/clock.ts';
import { pauseFor, type Timers } from '../time/timers.ts';
import { BoundedMap } from '../tools/bounded-map.ts';
import type { LockAccess, OpenWait, Wait, Waits } from './waits.ts';

/** The first waiter looks this often. So it notices a hand-off much sooner than a cold start takes. */
const nextPaceMs = 50;
/** If holds are short, it looks more often, but not more often than this, because a read itself takes some milliseconds. */
const tightestPaceMs = 15;
/** Further back, this is the guess for each waiter ahead, until the fence has shown how long holds last. */
const turnGuessMs = 100;
/** Each waiter ahead counts for this much at most, even if holds were longer lately. */
const slowestTurnMs = 200;
/** Nobody looks less often, unless many wait. If many waiters give up together, the queue may become empty at once. */
const slowestPaceMs = 2_000;
/**
 * How often all waiters of a lock together may look in a second: a tenth of the 3,000 read units that DynamoDB gives a key. A look at an
 * ordinary lock is one unit, and a semaphore with many holders takes several.
 */
const looksPerSecondMax = 300;

/** Locks whose rate of grants is remembered: as many as one process waits for at a time. */
const drainsMax = 1_000;
/** An older sample says little about now. */
const drainMsMax = 5_000;

/** The fence at an instant. Two samples show how fast the queue gets shorter. */
export interface DrainSample {
  readonly fence: number;
  readonly at: EpochMs;
}

/**
 * The time until the next look. It is short for the first waiter, and longer further back. It follows the rate of grants since the first
 * look. It is exact if the time is known at which a lease may be taken over.
 */
export function paceMs(state: LockState, position: number, first: DrainSample, facts: Facts): number {
  const grants = state.fence - first.fence;
  const perTurnMs = grants > 0 ? (facts.now - first.at) / grants : turnGuessMs;
  // With two looks per expected hold, a grant is found a quarter of a hold late, on average.
  const tightestMs = grants > 0 ? Math.min(nextPaceMs, Math.max(tightestPaceMs, perTurnMs / 2)) : nextPaceMs;
  // The time per waiter ahead has a limit: slow holds make looks rarer, and rare looks make hand-offs slower. Without a limit this would not end.
  const guessMs = Math.max(tightestMs, ((position - 1) * Math.min(perTurnMs, slowestTurnMs)) / 2);
  // The longer the queue, the less often the waiters far back look. So the key is not overloaded.
  const fairShareMs = (depthOf(state, facts) * 1_000) / looksPerSecondMax;
  const pace = Math.min(guessMs, Math.max(slowestPaceMs, fairShareMs));
  const dueAt = position === 1 ? nextDueAt(state, facts) : null;
  return dueAt === null ? pace : Math.max(1, Math.min(pace, dueAt - facts.now));
}

/** Waiting in a process that nobody can notify, such as a Lambda function. Each waiter looks at the lock itself, at its own pace. */
export class PolledWaits implements Waits {
  readonly #timers: Timers;
  readonly #random: () => number;
  /** The recent rates of grants, so a new waiter need not guess. */
  readonly #drains = new BoundedMap<string, DrainSample>(drainsMax);
  #open = 0;

  constructor({ timers, random }: { timers: Timers; random: () => number }) {
    this.#timers = timers;
    this.#random = random;
  }

  get openCount(): number {
    return this.#open;
  }

  begin(access: LockAccess): OpenWait {
    this.#open += 1;
    return {
      wait: (wait) => this.#wait(access, wait),
      end: () => {
        this.#open -= 1;
      },
    };
  }

  async #wait(access: LockAccess, { leaseId, known, page, until, gone }: Wait): Promise<LockState> {
    let state = known;
    let facts = await access.facts(state);
    const first = this.#drainOf(lockIdOf(access.key), { fence: known.fence, at: facts.now });
    for (;;) {
      const position = positionOf(state, leaseId, facts) ?? positionBehind(state, page, facts);
      if (position === undefined || facts.now >= until || gone?.aborted) return state;
      // A random tenth more or less, so that waiters that arrived together do not look together.
      const jitteredMs = paceMs(state, position, first, facts) * (0.9 + this.#random() * 0.2);
      await pauseFor(this.#timers, Math.max(1, Math.min(jitteredMs, until - facts.now)));
      state = await access.look();
      facts = await access.facts(state);
      const dueAt = nextDueAt(state, facts);
      // If nobody is present in the front, waiters in pages sweep, so that a page moves up. The waiters ahead of them may be gone too.
      const frontIsGone = !state.queue.some((waiter) => isPresent(waiter, facts));
      const isNext = positionOf(state, leaseId, facts) === 1 || (frontIsGone && isInPages(state, page));
      if (isNext && dueAt !== null && dueAt <= facts.now) state = await access.sweep();
    }
  }

  /** The sample to count from: an earlier one of this process. If it is too old, the queue may have been idle since, and the new one is used. */
  #drainOf(id: string, now: DrainSample): DrainSample {
    const earlier = this.#drains.get(id);
    if (earlier !== undefined && now.at - earlier.at < drainMsMax && earlier.fence <= now.fence) return earlier;
    this.#drains.set(id, now);
    return now;
  }
}
