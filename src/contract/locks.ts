/** The lock operations. */
import * as z from 'zod';
import type { LockEventType } from '../lock/events.ts';
import {
  cursorText,
  demandFields,
  fence,
  fenceNumber,
  instant,
  integer,
  integerText,
  leaseId,
  leaseMs,
  ms,
  named,
  namePrefix,
  ownerName,
  pageSize,
  resourceName,
  text,
} from './fields.ts';
import { lockLimits, nameRules, notifyLimits, requestLimits } from './limits.ts';
import type { OperationContract } from './operation.ts';
import type { LostReason } from './views.ts';

const metadataGiven = z
  .record(z.string(), z.string({ error: 'must be a string' }), { error: 'must be an object of strings' })
  .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= lockLimits.metadataBytesMax, {
    error: `must be at most ${lockLimits.metadataBytesMax} bytes as JSON`,
  })
  .describe('Shown in inspect.');

const always = z
  .boolean({ error: 'must be true or false' })
  .optional()
  .describe('Notifies also if the lock is granted at once: for a task or a callback that waits for nothing else.');

const notify = z
  .discriminatedUnion(
    'type',
    [
      z.strictObject({
        type: z.literal('event'),
        ref: text(1, notifyLimits.refLengthMax, "The waiter's own reference, which the event carries."),
      }),
      z.strictObject({
        type: z.literal('task-token'),
        token: text(1, notifyLimits.tokenLengthMax, 'A Step Functions task token. Secret.'),
        always,
      }),
      z.strictObject({
        type: z.literal('durable-callback'),
        id: text(1, notifyLimits.callbackIdLengthMax, "A callback's id of a Lambda durable function. Secret.").regex(
          /^[A-Za-z0-9+/=]+$/,
          'must be of A-Z, a-z, 0-9, +, / and =',
        ),
        always,
      }),
      z.strictObject({
        type: z.literal('websocket'),
        connectionId: named(
          nameRules.connection,
          'From the first message of a connection of this namespace and caller.',
        ),
      }),
    ],
    { error: 'must be an object whose type is event, task-token, durable-callback or websocket' },
  )
  .describe('Parks the waiter: it need not run, and is told of its grant this way.');

interface Refinement<Value = unknown> {
  readonly value: Value;
  readonly issues: unknown[];
}

/** Adds an issue about one field. */
const refuse = (check: Refinement, input: unknown, field: string, message: string) =>
  check.issues.push({ code: 'custom', input, path: [field], message });

type DemandValue = { limit?: number | undefined; permits?: number | undefined; mode?: string | undefined };

/** Refuses a demand that contradicts itself. */
export function refuseDemand(check: Refinement<DemandValue>): void {
  const { value } = check;
  for (const field of ['limit', 'permits'] as const) {
    if (value.mode !== undefined && value[field] !== undefined)
      refuse(check, value[field], field, 'is not allowed together with mode');
  }
  if (value.permits !== undefined && value.permits > (value.limit ?? 1)) {
    refuse(check, value.permits, 'permits', `must be at most the limit, which is ${value.limit ?? 1}`);
  }
}

/** A session bounds what is taken under it. */
export function refuseLeaseUnderSession(
  check: Refinement<{ sessionId?: string | undefined; leaseMs?: number | undefined }>,
): void {
  const { sessionId, leaseMs: given } = check.value;
  if (sessionId === undefined || given === undefined) return;
  refuse(check, given, 'leaseMs', 'is not allowed together with sessionId: the session bounds the lease');
}

const acquireBody = z
  .strictObject({
    leaseMs: leaseMs.optional().meta({ default: lockLimits.leaseMsDefault }),
    waitMs: integer(
      0,
      lockLimits.parkedWaitMsMax,
      `0 answers at once; up to ${lockLimits.waitMsMax}, parked up to ${lockLimits.parkedWaitMsMax}.`,
    ).default(0),
    pollMs: integer(0, requestLimits.pollMsMax, 'How long this request may be kept open.').optional(),
    leaseId: leaseId.optional(),
    owner: ownerName.optional(),
    ...demandFields,
    sessionId: resourceName
      .optional()
      .describe('An open session; it bounds the lease, so leaseMs is not allowed. Secret.'),
    lockDelayMs: integer(0, lockLimits.lockDelayMsMax, 'Kept free for so long after a lease that expired.').default(0),
    tier: z.enum(['correctness', 'efficiency'], { error: 'must be correctness or efficiency' }).default('correctness'),
    notify: notify.optional(),
    metadata: metadataGiven.optional(),
    place: z
      .union([z.literal('new'), z.int().min(1)], { error: 'must be new, or the place of an earlier answer' })
      .optional()
      .describe(
        'Where this lease waits, as the last 202 said; new: this leaseId was never sent before. A hint that saves requests when many wait.',
      ),
  })
  .check((check) => {
    const { value } = check;
    refuseDemand(check);
    refuseLeaseUnderSession(check);
    if (value.notify !== undefined && value.waitMs === 0)
      refuse(check, value.waitMs, 'waitMs', 'must be above 0 together with notify');
    if (value.notify === undefined && value.waitMs > lockLimits.waitMsMax) {
      refuse(
        check,
        value.waitMs,
        'waitMs',
        `must be an integer from 0 to ${lockLimits.waitMsMax}; only parked waiters, with notify, may wait longer`,
      );
    }
  });

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
  position: z.int().min(1).describe('1 is next. Exact near the front, an upper bound behind it.'),
  queueDepth: z.int(),
  holders: z.array(holderView),
  etaMs: ms.nullable(),
  waitRemainingMs: ms,
  retryAfterMs: ms,
  place: z.int().optional().describe('Send it with the next request of this lease.'),
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

const waiterView = z.object({
  owner: z.string(),
  position: z.int(),
  waitingMs: ms,
  permits: z.int(),
  sessionId: z.string().optional().describe('A public short form.'),
});

export const inspected = z.object({
  lock: z.string(),
  state: lockState,
  fence,
  limit: z.int(),
  holders: z.array(holderDetail),
  queue: z.array(waiterView),
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

/** What can happen to a lock, as history, watchers and the bus show it. A renewal is a heartbeat, and not among them. */
export const eventTypes = [
  'queued',
  'granted',
  'released',
  'expired',
  'revoked',
  'wait-cancelled',
  'wait-timeout',
  'session-lost',
] as const satisfies readonly Exclude<LockEventType, 'renewed'>[];

/** Why a lease is not in force. */
export const lostReasons = [
  'expired',
  'released',
  'revoked',
  'not_owner',
  'session_lost',
] as const satisfies readonly LostReason[];

export const lockEvent = z.object({
  at: instant,
  type: z.enum(eventTypes),
  fence,
  owner: z.string(),
  heldMs: ms.optional(),
  waitedMs: ms.optional(),
  reason: z.string().optional(),
});

export const history = z.object({ events: z.array(lockEvent), cursor: z.string().optional() });

export const lockOperations = {
  listLocks: {
    method: 'GET',
    path: '/v1/{ns}/locks',
    access: 'admin',
    summary: 'Lists locks by name, complete over pages.',
    query: z.strictObject({
      prefix: namePrefix.default(''),
      state: z.enum(['held', 'free'], { error: 'must be held or free' }).optional(),
      limit: pageSize(100, 'Locks on a page.'),
      cursor: cursorText.optional(),
    }),
    answers: { 200: listed },
    problems: [],
  },
  inspectLock: {
    method: 'GET',
    path: '/v1/{ns}/locks/{name}',
    access: 'inspect',
    summary: 'Shows a lock, its holders and its queue.',
    answers: { 200: inspected },
    problems: [],
  },
  checkFence: {
    method: 'GET',
    path: '/v1/{ns}/locks/{name}/check',
    access: 'inspect',
    summary:
      'Whether a fence holds now. The answer may be stale when it arrives: what the lock protects must check the fence itself.',
    query: z.strictObject({ fence: integerText(0, Number.MAX_SAFE_INTEGER, 'The fence to check.') }),
    answers: { 200: checked },
    problems: [],
  },
  lockHistory: {
    method: 'GET',
    path: '/v1/{ns}/locks/{name}/history',
    access: 'inspect',
    summary: 'What happened to a lock in the last seven days, newest first.',
    query: z.strictObject({ limit: pageSize(50, 'Events on a page.'), cursor: cursorText.optional() }),
    answers: { 200: history },
    problems: [],
  },
  acquireLock: {
    method: 'POST',
    path: '/v1/{ns}/locks/{name}/acquire',
    access: 'use',
    summary:
      'Takes a lock, or waits for it. Repeat the same request, with the same leaseId, to go on waiting or after a lost answer.',
    body: acquireBody,
    answers: { 200: granted, 202: waiting },
    problems: ['lock-held', 'wait-timeout', 'lease-lost', 'limit-mismatch', 'deadlock', 'session-lost', 'queue-full'],
  },
  renewLock: {
    method: 'POST',
    path: '/v1/{ns}/locks/{name}/renew',
    access: 'use',
    summary: 'Extends a lease that is in force.',
    body: z.strictObject({ leaseId, leaseMs: leaseMs.optional() }),
    answers: { 200: granted },
    problems: ['lease-lost'],
  },
  releaseLock: {
    method: 'POST',
    path: '/v1/{ns}/locks/{name}/release',
    access: 'use',
    summary: 'Gives back a lease, or a place in the queue.',
    body: z.strictObject({ leaseId }),
    answers: { 200: released },
    problems: ['lease-lost'],
  },
  revokeLock: {
    method: 'POST',
    path: '/v1/{ns}/locks/{name}/revoke',
    access: 'admin',
    summary: "Ends somebody else's lease by its fence.",
    body: z.strictObject({
      fence: fenceNumber,
      reason: text(1, lockLimits.reasonLengthMax, 'Shown in the history, for those who ask why.'),
    }),
    answers: { 200: revoked },
    problems: ['lease-lost'],
  },
} as const satisfies Record<string, OperationContract>;
