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

/** The next in line looks this often: a hand-off is noticed in a fraction of what a cold call costs. */
const nextPaceMs = 50;
/** Where turns are short it looks more often, but not more than this: a read takes some milliseconds itself. */
const tightestPaceMs = 15;
/** Further back this much is guessed for each turn ahead, until the fence has shown how long turns take. */
const turnGuessMs = 100;
/** A turn counts for this much at most, however slow turns have been of late. */
const slowestTurnMs = 200;
/** Nobody looks less often, unless many wait: a queue may empty at once when many give up together. */
const slowestPaceMs = 2_000;
/**
 * Looks that all waiters of a lock may make in a second, together: a tenth of the 3,000 read units that DynamoDB gives a key, since a look at
 * an ordinary lock is one unit and a crowded semaphore takes several.
 */
const looksPerSecondMax = 300;

/** Locks whose drain is remembered: as many as one process waits for at a time. */
const drainsMax = 1_000;
/** Longer ago it says little about now. */
const drainMsMax = 5_000;

/** The fence at an instant. Two of them tell how fast the queue drains. */
export interface DrainSample {
  readonly fence: number;
  readonly at: EpochMs;
}

/**
 * How long to leave the lock alone before the next look: tight for the next in line, slower further back, following the drain rate
 * seen in the fence since the first look, and exact if it is known when time alone will bring the turn.
 */
export function paceMs(state: LockState, position: number, first: DrainSample, facts: Facts): number {
  const grants = state.fence - first.fence;
  const perTurnMs = grants > 0 ? (facts.now - first.at) / grants : turnGuessMs;
  // Looking twice per expected turn finds it, on average, a quarter of a turn late.
  const tightestMs = grants > 0 ? Math.min(nextPaceMs, Math.max(tightestPaceMs, perTurnMs / 2)) : nextPaceMs;
  // Bounded per turn: a slow phase makes looks rarer, and rare looks make turns slow. Without a bound it would sustain itself.
  const guessMs = Math.max(tightestMs, ((position - 1) * Math.min(perTurnMs, slowestTurnMs)) / 2);
  // However many look, the key is not overloaded: the deeper the queue, the less often those far back look.
  const fairShareMs = (depthOf(state, facts) * 1_000) / looksPerSecondMax;
  const pace = Math.min(guessMs, Math.max(slowestPaceMs, fairShareMs));
  const dueAt = position === 1 ? nextDueAt(state, facts) : null;
  return dueAt === null ? pace : Math.max(1, Math.min(pace, dueAt - facts.now));
}

/** Waiting where nobody can be notified from outside, as in a Lambda function: each waiter looks for itself, at its own pace. */
export class PolledWaits implements Waits {
  readonly #timers: Timers;
  readonly #random: () => number;
  /** How fast queues drained of late, so that a new waiter need not guess. */
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
      // A tenth of jitter either way keeps waiters that arrived together from looking together.
      const jitteredMs = paceMs(state, position, first, facts) * (0.9 + this.#random() * 0.2);
      await pauseFor(this.#timers, Math.max(1, Math.min(jitteredMs, until - facts.now)));
      state = await access.look();
      facts = await access.facts(state);
      const dueAt = nextDueAt(state, facts);
      // If nobody is left in the front, those in pages see to it that one moves up: those ahead of them may be gone too.
      const frontIsGone = !state.queue.some((waiter) => isPresent(waiter, facts));
      const isNext = positionOf(state, leaseId, facts) === 1 || (frontIsGone && isInPages(state, page));
      if (isNext && dueAt !== null && dueAt <= facts.now) state = await access.sweep();
    }
  }

  /** The sample to count from: an earlier one of this process, unless it is so old that the queue may have been idle since. */
  #drainOf(id: string, now: DrainSample): DrainSample {
    const earlier = this.#drains.get(id);
    if (earlier !== undefined && now.at - earlier.at < drainMsMax && earlier.fence <= now.fence) return earlier;
    this.#drains.set(id, now);
    return now;
  }
}
