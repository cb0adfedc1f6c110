import type { sessionOperations } from '../contract/sessions.ts';
import type { SessionBody, SessionEnd, SessionView } from '../contract/views.ts';
import { createSession, endSession, inspectSession, keepAlive, type OpenSession } from '../service/sessions.ts';
import { toIso } from '../time/clock.ts';
import type { Handlers } from './operations.ts';
import { Problem } from './problems.ts';

const sessionBody = ({ session, now }: OpenSession): SessionBody => ({
  sessionId: session.sessionId,
  ttlMs: session.ttlMs,
  remainingMs: Math.max(0, session.expiresAt - now),
  expiresAt: toIso(session.expiresAt),
});

export const sessionLost = (): Problem =>
  new Problem('session-lost', 'The session has ended or expired. Open another one.');

type OnSession = { readonly parameters: { readonly ns: string; readonly id: string } };

const sessionKey = ({ parameters: { ns, id } }: OnSession) => ({ namespace: ns, sessionId: id });

export const sessionHandlers: Handlers<keyof typeof sessionOperations> = {
  async createSession({ locks }, { parameters, body: { ttlMs, owner }, caller }) {
    const open = await createSession(locks, parameters.ns, { ttlMs, owner: owner ?? caller });
    return { status: 201, body: sessionBody(open) };
  },

  async keepSessionAlive({ locks }, input) {
    const open = await keepAlive(locks, sessionKey(input));
    if (open === undefined) throw sessionLost();
    return { status: 200, body: sessionBody(open) };
  },

  async getSession({ locks }, input) {
    const open = await inspectSession(locks, sessionKey(input));
    if (open === undefined) throw sessionLost();
    const body: SessionView = { ...sessionBody(open), owner: open.session.owner, locks: open.held };
    return { status: 200, body };
  },

  async endSession({ locks }, input) {
    const { ended, released } = await endSession(locks, sessionKey(input));
    const body: SessionEnd = ended ? { ended, released } : { ended };
    return { status: 200, body };
  },
};
