import type { LockState } from '../lock/state.ts';
import { readWhole } from '../queue/finding.ts';
import { cycleThrough, type StuckWait, youngest } from '../session/deadlock.ts';
import { publicSessionId } from '../session/public-id.ts';
import type { SessionKey } from '../store/session-store.ts';
import { apply } from './apply.ts';
import { factsAmong, type LockContext, sessionIdsIn } from './context.ts';

/** The most locks that one search reads. A longer cycle is not found, and its waits end at their deadlines. */
const locksMax = 200;
/** The victim gets the cycle from its lock's item, which has space for this much of it. */
const cycleBytesMax = 2_048;

/**
 * Searches for a deadlock through a session that has begun to wait, and ends one wait in it. The session's wait was noted
 * before. So of two waits that close a cycle at the same time, at least one sees all of it.
 */
export async function breakDeadlock(context: LockContext, search: SessionKey): Promise<void> {
  const first = await findCycle(context, search);
  if (first === undefined) return;
  // The locks were read one after the other. A cycle that is in both searches was there at one instant between them.
  const second = await findCycle(context, search);
  if (second === undefined || !isSame(first, second)) return;
  const victim = youngest(second);
  const key = { namespace: search.namespace, name: victim.waitsFor };
  await apply(context, key, { kind: 'give-up', leaseId: victim.leaseId, deadlock: describeCycle(second, victim) });
}

async function findCycle(context: LockContext, { namespace, sessionId }: SessionKey): Promise<StuckWait[] | undefined> {
  const locks = new Map<string, LockState>();
  const seen = new Set<string>();
  let frontier = [sessionId];
  while (frontier.length > 0 && locks.size < locksMax) {
    for (const id of frontier) seen.add(id);
    const found = await context.sessionStore.read(namespace, frontier);
    const waitedFor = new Set(
      found.flatMap((session) => (session?.ended === undefined ? (session?.waits ?? []) : [])).map(({ lock }) => lock),
    );
    const names = [...waitedFor].filter((name) => !locks.has(name)).slice(0, locksMax - locks.size);
    const states = await readWhole(
      context,
      names.map((name) => ({ namespace, name })),
    );
    for (const [index, name] of names.entries()) locks.set(name, states[index] as LockState);
    frontier = sessionIdsIn(states).filter((id) => !seen.has(id));
  }
  return cycleThrough(sessionId, locks, await factsAmong(context, namespace, [...locks.values()], sessionId));
}

const isSame = (one: readonly StuckWait[], other: readonly StuckWait[]): boolean =>
  one.length === other.length &&
  one.every(({ leaseId, queuedAt }, index) => other[index]?.leaseId === leaseId && other[index].queuedAt === queuedAt);

/** The cycle as callers see it. It starts with the victim, and session ids have their public form. */
function describeCycle(cycle: readonly StuckWait[], victim: StuckWait): string {
  const start = cycle.indexOf(victim);
  const steps = [...cycle.slice(start), ...cycle.slice(0, start)].map(({ sessionId, owner, waitsFor }) => ({
    sessionId: publicSessionId(sessionId),
    owner,
    waitsFor,
  }));
  const whole = JSON.stringify(steps);
  return Buffer.byteLength(whole) <= cycleBytesMax ? whole : JSON.stringify([steps[0], steps.at(-1)]);
}
