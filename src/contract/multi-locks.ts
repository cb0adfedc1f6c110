/** The operations on several locks at once. */
import * as z from 'zod';
import { multiLimits } from '../multi/plan.ts';
import { demandFields, integer, leaseId, leaseMs, leaseMsTaken, ownerName, resourceName } from './fields.ts';
import { lockLimits } from './limits.ts';
import { granted, refuseDemand, refuseLeaseUnderSession, waiting } from './locks.ts';
import type { OperationContract } from './operation.ts';

const entry = z.union([resourceName, z.strictObject({ name: resourceName, ...demandFields }).check(refuseDemand)], {
  error: 'must be a name, or an object with a name',
});

const noNameTwice = (entries: readonly (string | { name: string })[]): boolean =>
  new Set(entries.map((each) => (typeof each === 'string' ? each : each.name))).size === entries.length;

const listOf = <T extends z.ZodType>(each: T) => {
  const error = `must be a list of 1 to ${multiLimits.locksMax} locks`;
  return z.array(each, { error }).min(1, error).max(multiLimits.locksMax, error).meta({ uniqueItems: true });
};

const acquireManyBody = z
  .strictObject({
    locks: listOf(entry).refine(noNameTwice, 'must not name a lock twice'),
    leaseMs: leaseMsTaken.optional(),
    waitMs: integer(0, lockLimits.waitMsMax, 'With 0, the answer comes at once.').default(0),
    leaseId: leaseId.optional(),
    owner: ownerName.optional(),
    sessionId: resourceName
      .optional()
      .describe('An open session. The leases end with it, so leaseMs is not allowed. Secret.'),
  })
  .check(refuseLeaseUnderSession);

const names = listOf(resourceName).refine(noNameTwice, 'must not name a lock twice');

const grantedMany = granted
  .pick({ status: true, leaseId: true, remainingMs: true, expiresAt: true, waitedMs: true })
  .extend({
    grants: z.array(z.object({ lock: z.string(), fence: z.int() })).describe('In the order of the request.'),
  })
  .meta({ title: 'ManyGrant' });

const waitingMany = waiting
  .omit({ lock: true })
  .extend({ blockedBy: z.array(z.string()) })
  .meta({ title: 'ManyWaiting' });

const releasedMany = z
  .object({
    released: z.array(z.string()),
    failed: z.array(z.object({ lock: z.string(), reason: z.string() })),
    expired: z
      .array(z.string())
      .optional()
      .describe('Those of the released locks whose lease was over before, but that nobody had taken.'),
  })
  .meta({ title: 'ManyRelease' });

export const multiLockOperations = {
  acquireLocks: {
    route: 'POST /v1/{ns}/multi-locks/acquire',
    access: 'use',
    summary: 'Takes several locks, all or none. Each has its own fence.',
    body: acquireManyBody,
    answers: { 200: grantedMany, 202: waitingMany },
    problems: ['lock-held', 'wait-timeout', 'lease-lost', 'limit-mismatch', 'deadlock', 'session-lost', 'queue-full'],
  },
  renewLocks: {
    route: 'POST /v1/{ns}/multi-locks/renew',
    access: 'use',
    summary: 'Extends several leases, all or none.',
    body: z.strictObject({ leaseId, locks: names, leaseMs: leaseMs.optional() }),
    answers: { 200: grantedMany },
    problems: ['lease-lost', 'session-lost'],
  },
  releaseLocks: {
    route: 'POST /v1/{ns}/multi-locks/release',
    access: 'use',
    summary: 'Releases several leases. Each is released even if others fail.',
    body: z.strictObject({ leaseId, locks: names }),
    answers: { 200: releasedMany },
  },
} as const satisfies Record<string, OperationContract>;
