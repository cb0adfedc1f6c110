import type { Acquire } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import { type LockKey, lockIdOf } from '../lock/state.ts';
import type { LockCache } from '../queue/lock-cache.ts';
import type { Clock } from '../time/clock.ts';
import type { Answered } from './apply.ts';

/** A stampede is over after a fifth of a second, and a caller that only wants to save work does not notice the delay. */
const rememberedMs = 200;

/**
 * Only for the efficiency tier. For a moment, refusals are answered from cache, and callers that arrive together wait
 * for the request of the first one. A refusal may be wrong for that moment, but it never grants.
 */
export class Refusals {
  readonly #cache: LockCache;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #underWay = new Map<string, Promise<Answered>>();

  constructor({ cache, clock, graceMs }: { cache: LockCache; clock: Clock; graceMs: number }) {
    this.#cache = cache;
    this.#clock = clock;
    this.#graceMs = graceMs;
  }

  async answer(key: LockKey, command: Acquire, ask: () => Promise<Answered>): Promise<Answered> {
    const id = `${lockIdOf(key)} ${command.permits}/${command.limit}`;
    const first = this.#underWay.get(id);
    // If the first request shows that this one is refused, the cache knows that now.
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

  /**
   * The answer of the rules to the lock as it was a moment ago. Undefined unless it is a refusal that changes nothing.
   */
  #recall(key: LockKey, command: Acquire): Answered | undefined {
    const seen = this.#cache.seen(key);
    const now = this.#clock.now();
    if (seen === undefined || seen.at + rememberedMs <= now) return undefined;
    const facts = { now, graceMs: this.#graceMs };
    const { answer, next } = decide(seen.state, command, facts);
    // If an earlier copy of this request took effect, the answer is another one, and the store gives it.
    return answer.kind === 'held' && next === seen.state ? { answer, state: seen.state, facts } : undefined;
  }
}
