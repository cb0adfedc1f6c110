import type { Facts } from '../lock/commands.ts';
import { type LockState, permitsHeld } from '../lock/state.ts';
import { takeoverAt } from '../lock/validity.ts';
import { type LockKey, lockIdOf } from '../store/lock-store.ts';
import type { Clock } from '../time/clock.ts';
import type { Applied } from './apply.ts';

/** A fifth of a second: a stampede is over by then, and nobody who only wants to save work notices the delay. */
const memoryMs = 200;
/** Locks remembered at once: enough for every hot key of a container, under a megabyte. */
const locksMax = 1_000;

export interface Try {
  readonly key: LockKey;
  readonly leaseId: string;
  readonly limit: number;
  readonly permits: number;
}

interface Remembered {
  readonly state: LockState;
  readonly until: number;
}

/**
 * For the efficiency tier only: refusals are answered for a moment from memory, and callers that arrive together are answered
 * by the one request of the first of them. Wrong for an instant it may be, but only in refusing: it never grants.
 */
export class RefusalMemory {
  readonly #clock: Clock;
  readonly #refused = new Map<string, Map<string, Remembered>>();
  readonly #underWay = new Map<string, Promise<Applied>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async answer(tried: Try, facts: () => Facts, ask: () => Promise<Applied>): Promise<Applied> {
    const remembered = this.#recall(tried);
    if (remembered !== undefined) return { answer: { kind: 'held' }, state: remembered, facts: facts() };

    const id = `${lockIdOf(tried.key)} ${demandId(tried)}`;
    const first = this.#underWay.get(id);
    if (first !== undefined) {
      // Whatever came of the first one's request, it is now remembered if it means that this one is refused.
      await first.catch(() => undefined);
      const since = this.#recall(tried);
      if (since !== undefined) return { answer: { kind: 'held' }, state: since, facts: facts() };
      return ask();
    }
    const request = ask();
    this.#underWay.set(id, request);
    try {
      const applied = await request;
      this.#remember(tried, applied);
      return applied;
    } finally {
      this.#underWay.delete(id);
    }
  }

  /** The lock has changed: what was refused before may be had now. */
  forget(key: LockKey): void {
    this.#refused.delete(lockIdOf(key));
  }

  #recall(tried: Try): LockState | undefined {
    const remembered = this.#refused.get(lockIdOf(tried.key))?.get(demandId(tried));
    if (remembered === undefined || remembered.until <= this.#clock.now()) return undefined;
    const { holders, queue, ended } = remembered.state;
    // A repeat of a request that took effect must find its grant, its place or its ending.
    const known = [...holders, ...queue, ...ended].some(({ leaseId }) => leaseId === tried.leaseId);
    return known ? undefined : remembered.state;
  }

  #remember(tried: Try, { answer, state, facts }: Applied): void {
    const full =
      answer.kind === 'held' || (answer.kind === 'granted' && permitsHeld(state) + tried.permits > state.limit);
    if (!full) return;
    const takeovers = state.holders.map((holder) => takeoverAt(holder, facts)).filter((instant) => instant !== null);
    const until = Math.min(this.#clock.now() + memoryMs, ...takeovers);
    const id = lockIdOf(tried.key);
    const demands = this.#refused.get(id) ?? new Map<string, Remembered>();
    demands.set(demandId(tried), { state, until });
    // Set anew, the entry becomes the youngest: the oldest is what goes when there are too many.
    this.#refused.delete(id);
    this.#refused.set(id, demands);
    const [oldest] = this.#refused.keys();
    if (this.#refused.size > locksMax && oldest !== undefined) this.#refused.delete(oldest);
  }
}

const demandId = ({ limit, permits }: Try): string => `${permits}/${limit}`;
