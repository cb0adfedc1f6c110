/** What answers look like: published in the OpenAPI document, and held against real answers in tests. */
import * as z from 'zod';
import { problemTypes } from './problems.ts';

const fence = z.int().min(0).describe('Rises with every grant; JSON numbers hold it exactly.');
const instant = z.iso.datetime();
const ms = z.int().min(0);
const metadata = z.record(z.string(), z.string());

export const holderView = z.object({ owner: z.string(), fence, remainingMs: ms.nullable() });

export const granted = z.object({
  status: z.literal('granted'),
  lock: z.string(),
  leaseId: z.string(),
  fence,
  limit: z.int(),
  permits: z.int(),
  leaseMs: ms.optional(),
  remainingMs: ms.nullable(),
  expiresAt: instant.nullable(),
  waitedMs: ms,
  mode: z.enum(['exclusive', 'shared']).optional(),
  sessionId: z.string().optional(),
  metadata: metadata.optional(),
});

export const waiting = z.object({
  status: z.literal('waiting'),
  lock: z.string(),
  leaseId: z.string(),
  position: z.int().min(1),
  queueDepth: z.int(),
  holders: z.array(holderView),
  etaMs: ms.nullable(),
  waitRemainingMs: ms,
  retryAfterMs: ms,
});

export const released = z.object({ released: z.boolean(), reason: z.enum(['ok', 'cancelled', 'already_released']) });
export const revoked = z.object({ revoked: z.literal(true) });

const lockState = z.enum(['free', 'held']);

const holderDetail = holderView.extend({
  permits: z.int(),
  acquiredAt: instant,
  sessionId: z.string().optional().describe('A public short form.'),
  metadata: metadata.optional(),
});

export const inspected = z.object({
  lock: z.string(),
  state: lockState,
  fence,
  limit: z.int(),
  holders: z.array(holderDetail),
  queue: z.array(
    z.object({
      owner: z.string(),
      position: z.int(),
      waitingMs: ms,
      permits: z.int(),
      sessionId: z.string().optional().describe('A public short form.'),
    }),
  ),
  queueDepth: z.int(),
});

export const checked = z.object({ valid: z.boolean(), fence, state: lockState });

export const listed = z.object({
  locks: z.array(
    z.object({
      lock: z.string(),
      state: lockState,
      fence,
      limit: z.int(),
      holders: z.array(holderDetail),
      queueDepth: z.int(),
      longestWaitMs: ms.describe('For how long the next waiter has waited; 0 where nobody waits.'),
    }),
  ),
  cursor: z.string().optional(),
});

export const history = z.object({
  events: z.array(
    z.object({
      at: instant,
      type: z.enum([
        'queued',
        'granted',
        'released',
        'expired',
        'revoked',
        'wait-cancelled',
        'wait-timeout',
        'session-lost',
      ]),
      fence,
      owner: z.string(),
      heldMs: ms.optional(),
      waitedMs: ms.optional(),
      reason: z.string().optional(),
    }),
  ),
  cursor: z.string().optional(),
});

export const health = z.object({ status: z.literal('ok'), version: z.string(), engine: z.string() });

export const problem = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.enum(Object.keys(problemTypes) as [string, ...string[]]),
    errors: z.array(z.object({ field: z.string(), message: z.string() })).optional(),
    holders: z.array(holderView).optional(),
    queueDepth: z.int().optional(),
    retryAfterMs: ms.optional(),
    waitedMs: ms.optional(),
    reason: z.enum(['expired', 'released', 'revoked', 'not_owner', 'session_lost']).optional(),
    limit: z.int().optional(),
    version: z.int().nullable().optional(),
    fenceFloor: z.int().optional(),
  })
  .describe('RFC 9457, with a code and what belongs to it.');
