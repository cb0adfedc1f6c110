/**
 * Deadlock among sessions. Pure.
 *
 * A session is stuck if none of its waits can be granted, even if all sessions that are not stuck release everything
 * they hold. So these are no deadlocks: a semaphore with one holder that can still move, a chain that ends in a session
 * that works, and a plain lease, which ends by itself. If a session waits for a lock that it holds itself, several
 * workers share the session. The worker that holds the lock goes on, so that wait does not count.
 */
import type { Facts } from '../lock/commands.ts';
import type { Holder, LockState, Waiter } from '../lock/state.ts';
import { isPresent } from '../lock/validity.ts';

export interface CycleStep {
  readonly sessionId: string;
  readonly owner: string;
  readonly waitsFor: string;
}

/** One session's wait in a cycle, with the fields that tell it from a later wait. */
export interface StuckWait extends CycleStep {
  readonly leaseId: string;
  readonly queuedAt: number;
}

type BoundHolder = Holder & { readonly sessionId: string };
type BoundWaiter = Waiter & { readonly sessionId: string };

interface Contended {
  readonly name: string;
  readonly limit: number;
  readonly holders: readonly BoundHolder[];
  readonly queue: readonly Waiter[];
}

const isBound = <T extends Holder | Waiter>(claim: T): claim is T & { readonly sessionId: string } =>
  claim.sessionId !== undefined;

const contentionOf = (name: string, state: LockState, facts: Facts): Contended => ({
  name,
  limit: state.limit,
  // A session that has ended has no present waiter, so it is not stuck, and its leases are in nobody's way.
  holders: state.holders.filter(isBound),
  queue: state.queue.filter((waiter) => isPresent(waiter, facts)),
});

/** The waiters whose sessions can't go on until they are granted. */
const dependents = ({ holders, queue }: Contended): BoundWaiter[] =>
  queue.filter(isBound).filter((waiter) => !holders.some(({ sessionId }) => sessionId === waiter.sessionId));

/** The sessions that can't move, among those that wait for the given locks. */
export function stuckSessions(locks: ReadonlyMap<string, LockState>, facts: Facts): Set<string> {
  const contended = [...locks].map(([name, state]) => contentionOf(name, state, facts));
  const stuck = new Set(contended.flatMap(dependents).map(({ sessionId }) => sessionId));
  for (let changed = true; changed; ) {
    changed = false;
    for (const lock of contended) {
      for (const waiter of servable(lock, stuck)) {
        if (waiter.sessionId !== undefined && stuck.delete(waiter.sessionId)) changed = true;
      }
    }
  }
  return stuck;
}

/**
 * The waiters that are granted after all sessions that are not stuck have released: in order, up to the first that does
 * not fit.
 */
function servable({ limit, holders, queue }: Contended, stuck: ReadonlySet<string>): readonly Waiter[] {
  const inTheWay = holders
    .filter(({ sessionId }) => stuck.has(sessionId))
    .reduce((sum, { permits }) => sum + permits, 0);
  // A waiter that is granted is no longer stuck, so its permits are not in the way of the next one.
  const firstRefused = queue.findIndex(({ permits }) => inTheWay + permits > limit);
  return firstRefused < 0 ? queue : queue.slice(0, firstRefused);
}

/** A cycle of stuck sessions that starts with the given one. Undefined if there is none. */
export function cycleThrough(
  sessionId: string,
  locks: ReadonlyMap<string, LockState>,
  facts: Facts,
): StuckWait[] | undefined {
  const stuck = stuckSessions(locks, facts);
  const edges = [...locks].flatMap(([name, state]) => edgesOf(contentionOf(name, state, facts), stuck));
  return shortestCycle(sessionId, edges);
}

interface Edge {
  readonly wait: StuckWait;
  readonly on: string;
}

/**
 * A stuck waiter waits for the holders, and for the stuck waiters before it in the queue. A holder that is not stuck has
 * no edge of its own, so no cycle goes through it.
 */
function edgesOf(lock: Contended, stuck: ReadonlySet<string>): Edge[] {
  const waiters = dependents(lock).filter(({ sessionId }) => stuck.has(sessionId));
  return waiters.flatMap((waiter, index) => {
    const { sessionId, owner, leaseId, queuedAt } = waiter;
    const wait: StuckWait = { sessionId, owner, waitsFor: lock.name, leaseId, queuedAt };
    const blockers = [...lock.holders, ...waiters.slice(0, index)];
    return [...new Set(blockers.map((blocker) => blocker.sessionId))].map((on) => ({ wait, on }));
  });
}

/** Breadth first, so that the reported cycle is as short as possible. */
function shortestCycle(start: string, edges: readonly Edge[]): StuckWait[] | undefined {
  const seen = new Set<string>([start]);
  const paths: { readonly at: string; readonly waits: readonly StuckWait[] }[] = [{ at: start, waits: [] }];
  for (let path = paths.shift(); path !== undefined; path = paths.shift()) {
    for (const { wait, on } of edges) {
      if (wait.sessionId !== path.at) continue;
      if (on === start) return [...path.waits, wait];
      if (seen.has(on)) continue;
      seen.add(on);
      paths.push({ at: on, waits: [...path.waits, wait] });
    }
  }
  return undefined;
}

/**
 * Exactly one waiter is refused: the one that queued last, because it has waited least. A value that all processes see
 * breaks a tie.
 */
export const youngest = (cycle: readonly StuckWait[]): StuckWait =>
  cycle.reduce((young, wait) =>
    wait.queuedAt > young.queuedAt || (wait.queuedAt === young.queuedAt && wait.leaseId > young.leaseId) ? wait : young,
  );
