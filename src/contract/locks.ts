/** The lock operations. */
import * as z from 'zod';
import { eventTypes } from '../lock/events.ts';
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
  leaseMsTaken,
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

const metadataGiven = z
  .record(z.string().min(1), z.string({ error: 'must be a string' }), {
    error: 'must be an object of strings without empty keys',
  })
  .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= lockLimits.metadataBytesMax, {
    error: `must be at most ${lockLimits.metadataBytesMax} bytes as JSON`,
  })
  .describe('Shown in inspect.');

const always = z
  .boolean({ error: 'must be true or false' })
  .optional()
  .describe(
    'Delivers also if the lock is granted at once, for a task or a callback that continues only after a delivery.',
  );

const notify = z
  .discriminatedUnion(
    'type',
    [
      z.strictObject({
        type: z.literal('event'),
        ref: text(1, notifyLimits.refLengthMax, "The waiter's own reference. The event has it."),
      }),
      z.strictObject({
        type: z.literal('task-token'),
        token: text(1, notifyLimits.tokenLengthMax, 'A Step Functions task token. Secret.'),
        always,
      }),
      z.strictObject({
        type: z.literal('durable-callback'),
        id: text(
          1,
          notifyLimits.callbackIdLengthMax,
          'The id of a callback of a Lambda durable function. Secret.',
        ).regex(/^[A-Za-z0-9+/=]+$/, 'must be of A-Z, a-z, 0-9, +, / and ='),
        always,
      }),
      z.strictObject({
        type: z.literal('websocket'),
        connectionId: named(
          nameRules.connection,
          "It is in a connection's first message. Namespace and caller must be the same as for this request.",
        ),
      }),
    ],
    { error: 'must be an object whose type is event, task-token, durable-callback or websocket' },
  )
  .describe('Parks the waiter: it does not run while it waits, and its grant is delivered this way.');

interface Refinement<Value = unknown> {
  readonly value: Value;
  readonly issues: unknown[];
}

/** Adds an issue about one field. */
const refuse = (check: Refinement, input: unknown, field: string, message: string) =>
  check.issues.push({ code: 'custom', input, path: [field], message });

type DemandValue = { limit?: number | undefined; permits?: number | undefined; mode?: string | undefined };

/** Refuses fields that contradict each other. */
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

/** A lock under a session ends with the session. */
export function refuseLeaseUnderSession(
  check: Refinement<{ sessionId?: string | undefined; leaseMs?: number | undefined }>,
): void {
  const { sessionId, leaseMs: given } = check.value;
  if (sessionId === undefined || given === undefined) return;
  refuse(check, given, 'leaseMs', 'is not allowed together with sessionId: the lease ends with the session');
}

const placeAllowed = 'must be new, or the place of an earlier answer';

const acquireBody = z
  .strictObject({
    leaseMs: leaseMsTaken.optional(),
    waitMs: integer(
      0,
      lockLimits.parkedWaitMsMax,
      `With 0, the answer comes at once. At most ${lockLimits.waitMsMax}, or ${lockLimits.parkedWaitMsMax} if parked.`,
    ).default(0),
    pollMs: integer(0, requestLimits.pollMsMax, 'How long this request may be kept open.').optional(),
    leaseId: leaseId.optional(),
    owner: ownerName.optional(),
    ...demandFields,
    sessionId: resourceName
      .optional()
      .describe('An open session. The lease ends with it, so leaseMs is not allowed. Secret.'),
    lockDelayMs: integer(
      0,
      lockLimits.lockDelayMsMax,
      'If this lease expires, nobody is granted for this time after it.',
    ).default(0),
    tier: z.enum(['correctness', 'efficiency'], { error: 'must be correctness or efficiency' }).default('correctness'),
    notify: notify.optional(),
    metadata: metadataGiven.optional(),
    place: z
      .union([z.literal('new'), z.int().min(1, placeAllowed)], { error: placeAllowed })
      .optional()
      .describe(
        'The place from the last 202, or new if this leaseId was never sent before. With it, the service needs fewer requests if many wait.',
      ),
  })
  .check((check) => {
    const { value } = check;
    refuseDemand(check);
    refuseLeaseUnderSession(check);
    if (value.notify !== undefined && value.waitMs === 0)
      refuse(check, value.waitMs, 'waitMs', 'must be above 0 together with notify');
    if (value.notify !== undefined || value.waitMs <= lockLimits.waitMsMax) return;
    const allowed = `must be an integer from 0 to ${lockLimits.waitMsMax}`;
    refuse(check, value.waitMs, 'waitMs', `${allowed}; only parked waiters, with notify, may wait longer`);
  });

const metadata = z.record(z.string(), z.string());

export const holderView = z.object({ owner: z.string(), fence, remainingMs: ms.nullable() }).meta({ title: 'Holder' });

export const granted = z
  .object({
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
  })
  .meta({ title: 'Grant' });

export const waiting = z
  .object({
    status: z.literal('waiting'),
    lock: z.string(),
    leaseId: z.string(),
    position: z
      .int()
      .min(1)
      .describe('1 is next. It is exact in the front of the queue, and an upper bound behind it.'),
    queueDepth: z
      .int()
      .describe('How many wait. It is exact if all of them are in the front, and an upper bound otherwise.'),
    holders: z.array(holderView),
    etaMs: ms.nullable(),
    waitRemainingMs: ms,
    retryAfterMs: ms,
    place: z.int().optional().describe('Send it with the next request of this lease.'),
  })
  .meta({ title: 'Waiting' });

export const released = z
  .object({
    released: z.boolean(),
    reason: z.enum(['ok', 'cancelled', 'already_released']),
    expired: z
      .literal(true)
      .optional()
      .describe('The lease was over before this release, but nobody had taken the lock. The work ended too late.'),
  })
  .meta({ title: 'Release' });
export const revoked = z.object({ revoked: z.literal(true) }).meta({ title: 'Revoked' });

const lockState = z.enum(['free', 'held']);

const holderDetail = holderView
  .extend({
    permits: z.int(),
    acquiredAt: instant,
    sessionId: z.string().optional().describe('A public short form.'),
    metadata: metadata.optional(),
  })
  .meta({ title: 'HolderDetail' });

const waiterView = z
  .object({
    owner: z.string(),
    position: z.int(),
    waitingMs: ms,
    permits: z.int(),
    sessionId: z.string().optional().describe('A public short form.'),
  })
  .meta({ title: 'Waiter' });

export const inspected = z
  .object({
    lock: z.string(),
    state: lockState,
    fence,
    limit: z.int(),
    holders: z.array(holderDetail),
    queue: z.array(waiterView).describe('The first 100.'),
    queueDepth: z.int().describe('How many wait. It is exact; up to 10,000 may wait.'),
  })
  .meta({ title: 'Lock' });

export const checked = z.object({ valid: z.boolean(), fence, state: lockState }).meta({ title: 'FenceCheck' });

export const listed = z
  .object({
    locks: z.array(
      inspected
        .omit({ queue: true })
        .extend({
          queueDepth: z.int(),
          longestWaitMs: ms.describe('How long the next waiter has waited. 0 if nobody waits.'),
        })
        .meta({ title: 'LockSummary' }),
    ),
    cursor: z.string().optional(),
  })
  .meta({ title: 'LockPage' });

const lockEvent = z
  .object({
    at: instant,
    type: z.enum(eventTypes),
    fence,
    owner: z.string(),
    heldMs: ms.optional(),
    waitedMs: ms.optional(),
    reason: z.string().optional(),
    by: z.string().optional().describe('Who revoked the lease.'),
  })
  .meta({ title: 'LockEvent' });

export const history = z
  .object({ events: z.array(lockEvent), cursor: z.string().optional() })
  .meta({ title: 'HistoryPage' });

export const lockOperations = {
  listLocks: {
    route: 'GET /v1/{ns}/locks',
    access: 'admin',
    summary: 'Lists all locks by name, page by page.',
    query: z.strictObject({
      prefix: namePrefix.default(''),
      state: z.enum(['held', 'free'], { error: 'must be held or free' }).optional(),
      limit: pageSize(100, 'Locks on a page.'),
      cursor: cursorText.optional(),
    }),
    answers: { 200: listed },
  },
  inspectLock: {
    route: 'GET /v1/{ns}/locks/{name}',
    access: 'inspect',
    summary: 'Shows a lock, its holders and its queue.',
    answers: { 200: inspected },
  },
  checkFence: {
    route: 'GET /v1/{ns}/locks/{name}/check',
    access: 'inspect',
    summary:
      'Says whether a fence holds now. The answer may be stale when it arrives, so the protected resource must check the fence itself.',
    query: z.strictObject({ fence: integerText(0, Number.MAX_SAFE_INTEGER, 'The fence to check.') }),
    answers: { 200: checked },
  },
  lockHistory: {
    route: 'GET /v1/{ns}/locks/{name}/history',
    access: 'inspect',
    summary: 'Lists the events of a lock in the last seven days, newest first.',
    query: z.strictObject({ limit: pageSize(50, 'Events on a page.'), cursor: cursorText.optional() }),
    answers: { 200: history },
  },
  acquireLock: {
    route: 'POST /v1/{ns}/locks/{name}/acquire',
    access: 'use',
    summary:
      'Takes a lock, or waits for it. To go on waiting, or after a lost answer, repeat the same request with the same leaseId.',
    body: acquireBody,
    answers: { 200: granted, 202: waiting },
    problems: ['lock-held', 'wait-timeout', 'lease-lost', 'limit-mismatch', 'deadlock', 'session-lost', 'queue-full'],
  },
  renewLock: {
    route: 'POST /v1/{ns}/locks/{name}/renew',
    access: 'use',
    summary: 'Extends a lease that is still valid.',
    body: z.strictObject({ leaseId, leaseMs: leaseMs.optional() }),
    answers: { 200: granted },
    problems: ['lease-lost'],
  },
  releaseLock: {
    route: 'POST /v1/{ns}/locks/{name}/release',
    access: 'use',
    summary: 'Releases a lease, or gives up a place in the queue.',
    body: z.strictObject({ leaseId }),
    answers: { 200: released },
    problems: ['lease-lost'],
  },
  revokeLock: {
    route: 'POST /v1/{ns}/locks/{name}/revoke',
    access: 'admin',
    summary: "Ends somebody else's lease by its fence.",
    body: z.strictObject({
      fence: fenceNumber,
      reason: text(1, lockLimits.reasonLengthMax, 'Shown in the history, and to the former holder.'),
      by: text(
        1,
        lockLimits.ownerLengthMax,
        'Who revokes, for a service that does not authenticate callers. An authenticated caller is recorded by its own identity.',
      ).optional(),
    }),
    answers: { 200: revoked },
    problems: ['lease-lost'],
  },
} as const satisfies Record<string, OperationContract>;
