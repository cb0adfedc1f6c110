import type { Facts } from '../lock/commands.ts';
import { type LockKey, type LockState, lockIdOf } from '../lock/state.ts';
import { nextDueAt } from '../lock/validity.ts';
import { isBefore, type LockCache } from '../queue/lock-cache.ts';
import { isInPages } from '../queue/pages.ts';
import { after, type Clock, type EpochMs } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { LockAccess, OpenWait, Wait, Waits } from './waits.ts';

/** A step that is due at once, but changed nothing before, is taken again after this time. So there is no busy loop. */
const pauseMs = 100;

/** The waiter of this process that is served before its others. */
export interface FirstWaiter {
  readonly leaseId: string;
  /** Undefined if it waits in the front. */
  readonly page: number | undefined;
}

/** What the process does for its waiters if it hears nothing of the lock until then. If it fails, the first waiter fails. */
export interface Step {
  readonly afterMs: number;
  /** `endsWait`: whether a waiter of this process is no longer in the queue in that state. */
  readonly take: (access: LockAccess, endsWait: (state: LockState) => boolean) => Promise<LockState>;
}

/** The next step. Undefined if only another write can help. The facts are missing if the sessions could not be read. */
export type NextStep = (state: LockState, first: FirstWaiter, facts: Facts | undefined) => Step | undefined;

/** If one process serves alone, it learns of all writes. So only the instant matters at which time alone changes something. */
const sweepWhenDue: NextStep = (state, _first, facts) => {
  const dueAt = facts === undefined ? undefined : nextDueAt(state, facts);
  if (dueAt === null) return undefined;
  return {
    afterMs: facts === undefined || dueAt === undefined ? pauseMs : dueAt - facts.now,
    // If the store can't be reached, the waiters' own requests report it. Here it is only tried again.
    take: (access) => access.sweep().catch(() => state),
  };
};

interface Waking {
  readonly page: number | undefined;
  readonly wake: (state: LockState) => void;
  readonly fail: (error: unknown) => void;
}

/** The waiters of one lock in this process. */
interface LockWaits {
  readonly access: LockAccess;
  open: number;
  known: LockState | undefined;
  /** The functions that wake each waiter, by lease. If a request is repeated while its first copy still waits, each copy has its own. */
  readonly wakes: Map<string, Set<Waking>>;
  planned: { readonly state: LockState; readonly at: EpochMs; readonly cancel: () => void } | undefined;
  /** The state for which a step is under way. */
  taking: LockState | undefined;
}

/**
 * Waiting in one process. Whatever the process learns of a lock, by its own writes and looks or by the stream, wakes the waiters that it
 * is about. One timer per lock does the next step for all of them together.
 */
export class NotifiedWaits implements Waits {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #nextStep: NextStep;
  readonly #cache: LockCache;
  readonly #locks = new Map<string, LockWaits>();
  #stopListening: (() => void) | undefined;

  constructor(options: { clock: Clock; timers: Timers; cache: LockCache; nextStep?: NextStep }) {
    const { clock, timers, cache, nextStep = sweepWhenDue } = options;
    this.#clock = clock;
    this.#timers = timers;
    this.#nextStep = nextStep;
    this.#cache = cache;
  }

  get openCount(): number {
    let count = 0;
    for (const { open } of this.#locks.values()) count += open;
    return count;
  }

  begin(access: LockAccess): OpenWait {
    const id = lockIdOf(access.key);
    const waits = this.#locks.get(id) ?? {
      access,
      open: 0,
      known: undefined,
      wakes: new Map(),
      planned: undefined,
      taking: undefined,
    };
    this.#locks.set(id, waits);
    waits.open += 1;
    this.#stopListening ??= this.#cache.onNewerState((key, state) => this.#hear(key, state));
    return {
      wait: (wait) => this.#wait(waits, wait),
      end: () => {
        waits.open -= 1;
        if (waits.open > 0) return;
        cancelPlan(waits);
        this.#locks.delete(id);
        if (this.#locks.size > 0) return;
        this.#stopListening?.();
        this.#stopListening = undefined;
      },
    };
  }

  #hear(key: LockKey, state: LockState): void {
    const waits = this.#locks.get(lockIdOf(key));
    if (waits !== undefined) this.#learn(waits, state);
  }

  #learn(waits: LockWaits, state: LockState): void {
    // The same state may come by the response and by the stream. Only a newer one counts, or that the item was deleted.
    if (waits.known !== undefined && state.rev !== 0 && !isBefore(waits.known, state)) return;
    waits.known = state;
    if (waits.wakes.size === 0) return;
    this.#wakeConcerned(waits, state);
    void this.#plan(waits, state);
  }

  #wakeConcerned(waits: LockWaits, state: LockState): void {
    for (const { wake } of concernedIn(waits, state)) wake(state);
  }

  #wait(waits: LockWaits, wait: Wait): Promise<LockState> {
    return new Promise((resolve, reject) => {
      const finish = (end: () => void) => {
        cancelEnd();
        wait.gone?.removeEventListener('abort', onEnd);
        copies.delete(waking);
        if (copies.size === 0 && waits.wakes.get(wait.leaseId) === copies) waits.wakes.delete(wait.leaseId);
        end();
      };
      const wake = (state: LockState) => finish(() => resolve(state));
      const onEnd = () => wake(waits.known ?? wait.known);
      const cancelEnd = this.#timers.after(wait.until - this.#clock.now(), onEnd);
      // If the same request comes again, both copies wait. If the second ended the first, the first would get a 202 and ask again, and
      // so on without end.
      const waking: Waking = { page: wait.page, wake, fail: (error) => finish(() => reject(error)) };
      const copies = waits.wakes.get(wait.leaseId) ?? new Set();
      waits.wakes.set(wait.leaseId, copies.add(waking));
      wait.gone?.addEventListener('abort', onEnd, { once: true });
      if (wait.gone?.aborted) onEnd();

      if (waits.known === undefined || isBefore(waits.known, wait.known)) this.#learn(waits, wait.known);
      else {
        this.#wakeConcerned(waits, waits.known);
        void this.#plan(waits, waits.known);
      }
    });
  }

  /**
   * One timer per lock. A new state moves it. A new waiter can only make it earlier: if many join, the waiters before them must not wait
   * until the last one has joined.
   */
  async #plan(waits: LockWaits, state: LockState, isRepeated = false): Promise<void> {
    const facts = await waits.access.facts(state).catch(() => undefined);
    // A step that is under way plans the next one when it ends.
    if (waits.known !== state || waits.taking === state) return;
    if (waits.planned?.state !== state) cancelPlan(waits);
    const first = firstOf(waits, state);
    const step = first === undefined ? undefined : this.#nextStep(state, first, facts);
    if (first === undefined || step === undefined) return;
    const delayMs = step.afterMs > 0 ? step.afterMs : isRepeated ? pauseMs : 0;
    const at = after(this.#clock.now(), delayMs);
    if (waits.planned !== undefined && waits.planned.at <= at) return;
    cancelPlan(waits);
    const cancel = this.#timers.after(delayMs, () => {
      waits.planned = undefined;
      void this.#take(waits, state, step, first);
    });
    waits.planned = { state, at, cancel };
  }

  async #take(waits: LockWaits, state: LockState, { take }: Step, { leaseId }: FirstWaiter): Promise<void> {
    waits.taking = state;
    try {
      this.#learn(waits, await take(waits.access, (seen) => concernedIn(waits, seen).length > 0));
    } catch (error) {
      // The others go on. If all failed together, all would ask again together.
      for (const { fail } of waits.wakes.get(leaseId) ?? []) fail(error);
    } finally {
      if (waits.taking === state) waits.taking = undefined;
    }
    if (waits.known === state) await this.#plan(waits, state, true);
  }
}

/** The waiters that are no longer in the front or in a page, because they were granted or dropped. */
function concernedIn({ wakes }: LockWaits, state: LockState): readonly Waking[] {
  const queued = new Set(state.queue.map(({ leaseId }) => leaseId));
  return [...wakes]
    .filter(([leaseId]) => !queued.has(leaseId))
    .flatMap(([, copies]) => [...copies].filter(({ page }) => !isInPages(state, page)));
}

function cancelPlan(waits: LockWaits): void {
  waits.planned?.cancel();
  waits.planned = undefined;
}

/** Undefined if this process has no waiter in the front or in a page. */
function firstOf({ wakes }: LockWaits, state: LockState): FirstWaiter | undefined {
  const inFront = state.queue.find(({ leaseId }) => wakes.has(leaseId));
  if (inFront !== undefined) return { leaseId: inFront.leaseId, page: undefined };
  let first: FirstWaiter | undefined;
  for (const [leaseId, copies] of wakes) {
    for (const { page } of copies) {
      const isBehind = first?.page !== undefined && page !== undefined && first.page <= page;
      if (isInPages(state, page) && !isBehind) first = { leaseId, page };
    }
  }
  return first;
}
