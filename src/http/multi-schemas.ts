import * as z from 'zod';
import { lockLimits } from '../lock/limits.ts';
import { multiLimits } from '../multi/plan.ts';
import { granted, waiting } from './responses.ts';
import {
  demandFields,
  integer,
  leaseId,
  leaseMs,
  ownerName,
  refuseDemand,
  refuseLeaseUnderSession,
  resourceName,
} from './schemas.ts';

const entry = z.union([resourceName, z.strictObject({ name: resourceName, ...demandFields }).check(refuseDemand)], {
  error: 'must be a name, or an object with a name',
});

const noNameTwice = (entries: readonly (string | { name: string })[]): boolean =>
  new Set(entries.map((each) => (typeof each === 'string' ? each : each.name))).size === entries.length;

const listOf = <T extends z.ZodType>(each: T) =>
  z
    .array(each, { error: `must be a list of 1 to ${multiLimits.locksMax} locks` })
    .min(1, `must be a list of 1 to ${multiLimits.locksMax} locks`)
    .max(multiLimits.locksMax, `must be a list of 1 to ${multiLimits.locksMax} locks`);

export const acquireManyBody = z
  .strictObject({
    locks: listOf(entry).refine(noNameTwice, 'must not name a lock twice'),
    leaseMs: leaseMs.optional().meta({ default: lockLimits.leaseMsDefault }),
    waitMs: integer(0, lockLimits.waitMsMax, '0 answers at once.').default(0),
    leaseId: leaseId.optional(),
    owner: ownerName.optional(),
    sessionId: resourceName
      .optional()
      .describe('An open session; it bounds the leases, so leaseMs is not allowed. Secret.'),
  })
  .check(refuseLeaseUnderSession);

const names = listOf(resourceName).refine(noNameTwice, 'must not name a lock twice');

export const renewManyBody = z.strictObject({ leaseId, locks: names, leaseMs: leaseMs.optional() });
export const releaseManyBody = z.strictObject({ leaseId, locks: names });

export const grantedMany = granted
  .pick({ status: true, leaseId: true, remainingMs: true, expiresAt: true, waitedMs: true })
  .extend({
    grants: z.array(z.object({ lock: z.string(), fence: z.int() })).describe('In the order asked.'),
  });

export const waitingMany = waiting.omit({ lock: true }).extend({ blockedBy: z.array(z.string()) });

export const releasedMany = z.object({
  released: z.array(z.string()),
  failed: z.array(z.object({ lock: z.string(), reason: z.string() })),
});
