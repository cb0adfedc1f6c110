import type { Acquire } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import { type LockKey, lockIdOf } from '../store/lock-store.ts';
import type { Clock } from '../time/clock.ts';
import type { Applied } from './apply.ts';
import type { LockMemory } from './lock-memory.ts';

/** A fifth of a second: a stampede is over by then, and a caller that only wants to save work does not notice the delay. */
const rememberedMs = 200;

/**
 * For the efficiency tier only: refusals are answered for a moment from memory, and callers that arrive together are answered
 * by the one request of the first of them. It may be wrong for an instant, but only in refusing: it never grants.
 */
export class Refusals {
  readonly #memory: LockMemory;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #underWay = new Map<string, Promise<Applied>>();

  constructor({ memory, clock, graceMs }: { memory: LockMemory; clock: Clock; graceMs: number }) {
    this.#memory = memory;
    this.#clock = clock;
    this.#graceMs = graceMs;
  }

  async answer(key: LockKey, command: Acquire, ask: () => Promise<Applied>): Promise<Applied> {
    const id = `${lockIdOf(key)} ${command.permits}/${command.limit}`;
    const first = this.#underWay.get(id);
    // Whatever came of the first one's request, it is remembered by now if it means that this one is refused.
    if (first !== undefined) await first.catch(() => undefined);
    const refused = this.#recall(key, command);
    if (refused !== undefined) return refused;
    if (first !== undefined) return ask();
    const request = ask();
    this.#underWay.set(id, request);
    try {
      return await request;
    } finally {
      this.#underWay.delete(id);
    }
  }

  /** What the rules make of the lock as it was a moment ago, if that is a refusal which changes nothing. */
  #recall(key: LockKey, command: Acquire): Applied | undefined {
    const seen = this.#memory.seen(key);
    const now = this.#clock.now();
    if (seen === undefined || seen.at + rememberedMs <= now) return undefined;
    const facts = { now, graceMs: this.#graceMs };
    const { answer, next } = decide(seen.state, command, facts);
    // A repeat of a request that took effect finds its grant, its place or its ending in the state, and is answered by the store.
    return answer.kind === 'held' && next === seen.state ? { answer, state: seen.state, facts } : undefined;
  }
}
