import type { LockContext } from '../service/context.ts';
import { createSession, endSession, inspectSession, keepAlive, type OpenSession } from '../service/sessions.ts';
import { toIso } from '../time/clock.ts';
import { Problem } from './problems.ts';
import type { Reply, Request } from './request.ts';
import { createSessionBody, nothingBody } from './session-schemas.ts';

const sessionKey = (request: Request) => ({ namespace: request.namespace, sessionId: request.name('id') });

const sessionBody = ({ session, now }: OpenSession) => ({
  sessionId: session.sessionId,
  ttlMs: session.ttlMs,
  remainingMs: Math.max(0, session.expiresAt - now),
  expiresAt: toIso(session.expiresAt),
});

export const sessionLost = (): Problem =>
  new Problem('session-lost', 'The session has ended or run out; it can not come back. Open another.');

export async function postSession(context: LockContext, request: Request): Promise<Reply> {
  const { namespace } = request;
  const { ttlMs, owner } = request.body(createSessionBody);
  return {
    status: 201,
    body: sessionBody(await createSession(context, namespace, { ttlMs, owner: owner ?? request.caller })),
  };
}

export async function keepSessionAlive(context: LockContext, request: Request): Promise<Reply> {
  const key = sessionKey(request);
  request.body(nothingBody);
  const open = await keepAlive(context, key);
  if (open === undefined) throw sessionLost();
  return { status: 200, body: sessionBody(open) };
}

export async function getSession(context: LockContext, request: Request): Promise<Reply> {
  const open = await inspectSession(context, sessionKey(request));
  if (open === undefined) throw sessionLost();
  return { status: 200, body: { ...sessionBody(open), owner: open.session.owner, locks: open.held } };
}

export async function deleteSession(context: LockContext, request: Request): Promise<Reply> {
  const { ended, released } = await endSession(context, sessionKey(request));
  return { status: 200, body: ended ? { ended, released } : { ended } };
}
