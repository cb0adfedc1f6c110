import type { Acquire } from '../lock/commands.ts';
import type { LockKey } from '../lock/state.ts';
import { type Applied, apply } from './apply.ts';
import type { LockContext } from './context.ts';
import { breakDeadlock } from './deadlock.ts';

type BoundAcquire = Acquire & { readonly sessionId: string };

/**
 * An acquire under a session: it tries the lock and reads the session at the same time. If the session is over, the grant
 * was never valid. It is still released at once, so that no other caller has to find that out.
 */
export async function applyUnderSession(context: LockContext, key: LockKey, command: BoundAcquire): Promise<Applied> {
  const { sessionId, leaseId } = command;
  const sessionKey = { namespace: key.namespace, sessionId };
  const now = context.clock.now();
  const [applied, known] = await Promise.all([
    apply(context, key, command),
    context.sessions.of(key.namespace, [sessionId], now),
    // The index finds a lock by only one session, so a part of a lock has a separate note.
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

  // Noted before the search, so that of two waits that close a cycle at the same time, at least one sees all of it.
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
