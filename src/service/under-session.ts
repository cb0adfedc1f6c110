import type { Acquire, Answer } from '../lock/commands.ts';
import type { LockKey } from '../lock/state.ts';
import { readWhole } from '../queue/finding.ts';
import { isOpen } from '../session/decide.ts';
import { type SessionWait, sessionLimits } from '../session/state.ts';
import type { SessionKey } from '../store/session-store.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { type Answered, apply, readWait } from './apply.ts';
import type { LockContext } from './context.ts';
import { breakDeadlock } from './deadlock.ts';
import type { SessionFacts } from './session-lives.ts';

/** Notes removed at the same time. They are writes to one item, which would throttle more of them. */
const removalsAtOnceMax = 8;

type BoundAcquire = Acquire & { readonly sessionId: string };

/**
 * An acquire under a session: it tries the lock and reads the session at the same time. If the session is over, the grant
 * was never valid. It is still released at once, so that no other caller has to find that out. A session that was just
 * read is not read again.
 */
export async function applyUnderSession(
  context: LockContext,
  key: LockKey,
  command: BoundAcquire,
  justRead?: SessionFacts,
): Promise<Answered> {
  const { sessionId, leaseId } = command;
  const sessionKey = { namespace: key.namespace, sessionId };
  const now = context.clock.now();
  // The index finds a lock by only one session, so a part of a lock has a separate note.
  const notePart = async () => {
    if (command.permits < command.limit) await context.sessionStore.notePart(sessionKey, key.name, now);
  };
  // A parked waiter that asks again is not noted again, so its wait begins only after its note was written.
  const isParked = command.notify !== undefined;
  if (isParked) await notePart();
  const [applied, known] = await Promise.all([
    apply(context, key, command),
    justRead ?? context.sessions.of(key.namespace, [sessionId], now),
    isParked ? undefined : notePart(),
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
  const wait: SessionWait = { lock: key.name, leaseId };
  const noted = await context.sessionStore.noteWait(sessionKey, wait);
  const giveUpPlace = async (answer: Answer): Promise<Answered> => {
    await apply(context, key, { kind: 'release', leaseId, ...placeOf(applied) });
    return { ...applied, facts, answer };
  };
  if (!noted.applied) return giveUpPlace({ kind: 'lost', reason: 'session_lost' });
  if (await hasTooManyWaits(context, sessionKey, noted.session.waits)) {
    await context.sessionStore.forgetWait(sessionKey, wait);
    return giveUpPlace({ kind: 'too-many-waits' });
  }
  await breakDeadlock(context, sessionKey);
  return { ...applied, facts };
}

/**
 * Whether a session waits for more locks than it may. A note stays if nobody removed it when its wait ended: a parked waiter does
 * not run then, and a process may die. Such notes are removed here, because they must not refuse a live session.
 */
async function hasTooManyWaits(
  context: LockContext,
  session: SessionKey,
  waits: readonly SessionWait[],
): Promise<boolean> {
  if (waits.length <= sessionLimits.waitsMax) return false;
  const locks = await readWhole(
    context,
    waits.map(({ lock }) => ({ namespace: session.namespace, name: lock })),
  );
  const over = waits.filter(({ leaseId }, index) => !locks[index]?.queue.some((waiter) => waiter.leaseId === leaseId));
  await forEachAtMost(over, removalsAtOnceMax, (wait) => context.sessionStore.forgetWait(session, wait));
  return waits.length - over.length > sessionLimits.waitsMax;
}

/**
 * `readWait` for a wait under a session. The session must be open, and its wait noted. The search for a deadlock is repeated,
 * because it may have failed before, and because a grant can close a cycle too: if a session waits for two locks and gets one.
 */
export async function readWaitUnderSession(
  context: LockContext,
  key: LockKey,
  command: BoundAcquire,
): Promise<Answered | undefined> {
  const { sessionId, leaseId } = command;
  const [applied, [session]] = await Promise.all([
    readWait(context, key, command),
    context.sessionStore.read(key.namespace, [sessionId]),
  ]);
  if (applied === undefined || !isOpen(session, applied.facts)) return undefined;
  if (!session.waits.some((wait) => wait.lock === key.name && wait.leaseId === leaseId)) return undefined;
  await breakDeadlock(context, { namespace: key.namespace, sessionId });
  return applied;
}

const placeOf = ({ answer }: Answered) =>
  answer.kind === 'waiting' && answer.place !== undefined ? { place: answer.place } : {};
