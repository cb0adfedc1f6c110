import * as z from 'zod';
import { sessionLimits } from '../session/state.ts';
import { integer, ownerName } from './schemas.ts';

export const createSessionBody = z.strictObject({
  ttlMs: integer(
    sessionLimits.ttlMsMin,
    sessionLimits.ttlMsMax,
    'How long the session lasts without being kept alive.',
  ).default(sessionLimits.ttlMsDefault),
  owner: ownerName.optional(),
});

/** A keepalive and an end say all by their path. */
export const nothingBody = z.strictObject({});

const ms = z.int().min(0);

export const openSession = z.object({
  sessionId: z.string().describe('Secret: the right to use and end the session.'),
  ttlMs: ms,
  remainingMs: ms,
  expiresAt: z.iso.datetime(),
});

export const inspectedSession = openSession.extend({
  owner: z.string(),
  locks: z.array(z.object({ lock: z.string(), fence: z.int() })),
});

export const endedSession = z.object({ ended: z.boolean(), released: z.int().optional() });
