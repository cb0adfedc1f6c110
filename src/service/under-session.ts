import type { Acquire } from '../lock/commands.ts';
import type { LockKey } from '../store/lock-store.ts';
import { type Applied, apply } from './apply.ts';
import type { LockContext } from './context.ts';
import { breakDeadlock } from './deadlock.ts';

type BoundAcquire = Acquire & { readonly sessionId: string };

/**
 * An acquire under a session: the lock is tried and the session read at the same time. A lock taken under a session that turns out
 * to be over is void from the start; it is given back at once all the same, so that nobody has to find that out.
 */
export async function applyUnderSession(context: LockContext, key: LockKey, command: BoundAcquire): Promise<Applied> {
  const { sessionId, leaseId } = command;
  const sessionKey = { namespace: key.namespace, sessionId };
  const now = context.clock.now();
  const [applied, known] = await Promise.all([
    apply(context, key, command),
    context.sessions.of(key.namespace, [sessionId], now),
    // The index finds a lock by one session only, so a part of a lock is noted apart.
    command.permits < command.limit ? context.sessionStore.notePart(sessionKey, key.name, now) : undefined,
  ]);
  const own = known.get(sessionId);
  if (own?.alive === false) {
    const taken = applied.answer.kind === 'granted' || applied.answer.kind === 'waiting';
    if (taken) await apply(context, key, { kind: 'release', leaseId, ...placeOf(applied) });
    return { ...applied, answer: { kind: 'lost', reason: 'session_lost' } };
  }
  const facts = { ...applied.facts, sessions: new Map([...(applied.facts.sessions ?? []), ...known]) };
  if (applied.answer.kind !== 'waiting') return { ...applied, facts };

  // Noted before looking: of two that close a cycle at the same time, at least one sees the whole of it.
  const noted = await context.sessionStore.noteWait(sessionKey, { lock: key.name, leaseId });
  if (!noted.applied) {
    await apply(context, key, { kind: 'release', leaseId, ...placeOf(applied) });
    return { ...applied, facts, answer: { kind: 'lost', reason: 'session_lost' } };
  }
  await breakDeadlock(context, sessionKey);
  return { ...applied, facts };
}

const placeOf = ({ answer }: Applied) =>
  answer.kind === 'waiting' && answer.page !== undefined ? { place: answer.page } : {};
