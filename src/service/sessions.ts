import { isOpen } from '../session/decide.ts';
import type { SessionState } from '../session/state.ts';
import type { SessionKey } from '../store/session-store.ts';
import { after, type EpochMs } from '../time/clock.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { apply } from './apply.ts';
import type { LockContext } from './context.ts';

/** Locks swept at the same time when a session ends: fast for dozens of locks, and not enough to be throttled. */
const sweepsAtOnceMax = 16;

export interface OpenSession {
  readonly session: SessionState;
  readonly now: EpochMs;
}

export async function createSession(
  { sessionStore, newSessionId, clock }: LockContext,
  namespace: string,
  { ttlMs, owner }: { ttlMs: number; owner: string },
): Promise<OpenSession> {
  const now = clock.now();
  const session: SessionState = {
    sessionId: newSessionId(),
    owner,
    ttlMs,
    createdAt: now,
    expiresAt: after(now, ttlMs),
    waits: [],
  };
  // The id is new and random. So a refusal means that a first try, whose response was lost, created this session.
  await sessionStore.create(namespace, session);
  return { session, now };
}

/** One write for all locks of the session. Undefined if the session is over. */
export async function keepAlive(
  { sessionStore, clock }: LockContext,
  key: SessionKey,
): Promise<OpenSession | undefined> {
  const now = clock.now();
  const { session } = await sessionStore.keepAlive(key, now);
  // It may be refused because of a later keepalive. Then the session is still open.
  return isOpen(session, { now }) ? { session, now } : undefined;
}

export interface HeldLock {
  readonly lock: string;
  readonly fence: number;
}

/** The session and the locks that it holds. Undefined if it is over. */
export async function inspectSession(
  context: LockContext,
  key: SessionKey,
): Promise<(OpenSession & { readonly held: readonly HeldLock[] }) | undefined> {
  const [[session], names] = await Promise.all([
    context.sessionStore.read(key.namespace, [key.sessionId]),
    context.sessionStore.locksOf(key),
  ]);
  const now = context.clock.now();
  return isOpen(session, { now }) ? { session, now, held: await heldBy(context, key, names) } : undefined;
}

/**
 * Ends a session. That one write makes all its locks invalid. They are then swept, so that their waiters are granted
 * at once. False if it was over already.
 */
export async function endSession(context: LockContext, key: SessionKey): Promise<{ ended: boolean; released: number }> {
  const { sessionStore, clock } = context;
  // Counted before the end, because after it others may take the locks.
  const held = await heldBy(context, key, await sessionStore.locksOf(key));
  const written = await sessionStore.end(key, clock.now());
  const isMine = written.applied || (written.perhapsMine && written.session?.ended?.how === 'ended');
  if (!isMine) return { ended: false, released: 0 };
  // Read again after the end, because locks taken in the meantime are invalid too.
  const names = new Set(await sessionStore.locksOf(key));
  for (const { lock } of [...held, ...(written.session?.waits ?? [])]) names.add(lock);
  await forEachAtMost(names, sweepsAtOnceMax, async (name) => {
    await apply(context, { namespace: key.namespace, name }, { kind: 'sweep' });
  });
  return { ended: true, released: held.length };
}

/** The leases of the session on these locks, even if the session is over. */
async function heldBy(
  { store }: LockContext,
  { namespace, sessionId }: SessionKey,
  names: readonly string[],
): Promise<HeldLock[]> {
  const states = await store.readMany(names.map((name) => ({ namespace, name })));
  return names.flatMap((lock, index) =>
    (states[index]?.holders ?? [])
      .filter((holder) => holder.sessionId === sessionId)
      .map(({ fence }) => ({ lock, fence })),
  );
}
