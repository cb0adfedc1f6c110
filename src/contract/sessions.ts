/** The session operations. */
import * as z from 'zod';
import { instant, integer, ms, ownerName } from './fields.ts';
import { sessionLimits } from './limits.ts';
import type { OperationContract } from './operation.ts';

const createSessionBody = z.strictObject({
  ttlMs: integer(
    sessionLimits.ttlMsMin,
    sessionLimits.ttlMsMax,
    'How long the session lasts without a keepalive.',
  ).default(sessionLimits.ttlMsDefault),
  owner: ownerName.optional(),
});

const openSession = z
  .object({
    sessionId: z.string().describe('Secret: it gives the right to use and end the session.'),
    ttlMs: ms,
    remainingMs: ms,
    expiresAt: instant,
  })
  .meta({ title: 'Session' });

const inspectedSession = openSession
  .extend({
    owner: z.string(),
    locks: z.array(z.object({ lock: z.string(), fence: z.int() })),
  })
  .meta({ title: 'SessionDetail' });

const endedSession = z.object({ ended: z.boolean(), released: z.int().optional() }).meta({ title: 'SessionEnd' });

export const sessionOperations = {
  createSession: {
    route: 'POST /v1/{ns}/sessions',
    access: 'use',
    summary: 'Opens a session. Locks under it are valid as long as it is.',
    body: createSessionBody,
    answers: { 201: openSession },
  },
  getSession: {
    route: 'GET /v1/{ns}/sessions/{id}',
    access: 'use',
    summary: 'Shows a session and its locks.',
    answers: { 200: inspectedSession },
    problems: ['session-lost'],
  },
  endSession: {
    route: 'DELETE /v1/{ns}/sessions/{id}',
    access: 'use',
    summary: 'Ends a session. One write ends all its leases.',
    answers: { 200: endedSession },
  },
  keepSessionAlive: {
    route: 'POST /v1/{ns}/sessions/{id}/keepalive',
    access: 'use',
    summary: 'Keeps a session and all its locks alive.',
    // The path has all parameters.
    body: z.strictObject({}),
    answers: { 200: openSession },
    problems: ['session-lost'],
  },
} as const satisfies Record<string, OperationContract>;
