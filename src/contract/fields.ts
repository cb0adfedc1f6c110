/** The fields that several operations share. Their messages say what is allowed. The validation adds what it got. */
import * as z from 'zod';
import { lockLimits, type NameRule, nameRules, requestLimits } from './limits.ts';

export function integer(min: number, max: number, meaning: string) {
  const error = `must be an integer from ${min} to ${max}`;
  return z.int({ error }).min(min, error).max(max, error).describe(meaning);
}

export function text(min: number, max: number, meaning: string) {
  const error = `must be a string of ${min} to ${max} characters`;
  return z.string({ error }).min(min, error).max(max, error).describe(meaning);
}

export function named({ pattern, allowed }: NameRule, meaning: string) {
  const error = `must be ${allowed}`;
  return z.string({ error }).regex(pattern, error).describe(meaning);
}

export const namespaceName = named(
  nameRules.namespace,
  'Names are unique within a namespace. A caller can be limited to one namespace.',
);
export const resourceName = named(nameRules.resource, 'The name of a lock, record or session.');
export const namePrefix = named(nameRules.prefix, 'Only names with this prefix.');
export const leaseId = named(
  nameRules.secret,
  'It gives the right to renew and release. If the caller chooses it, retries are safe. Secret.',
);

export const fenceNumber = integer(1, Number.MAX_SAFE_INTEGER, 'The fence of a grant.');

export const ownerName = text(
  1,
  lockLimits.ownerLengthMax,
  "Shown to others. By default the session's owner, else the caller's identity.",
);

export const leaseMs = integer(
  lockLimits.leaseMsMin,
  lockLimits.leaseMsMax,
  'How long the lease lasts without a renewal.',
);
/**
 * The default stands in words. As `default`, generated clients would send it, and under a session the service refuses
 * every `leaseMs`.
 */
export const leaseMsTaken = leaseMs.describe(
  `How long the lease lasts without a renewal. ${lockLimits.leaseMsDefault} if it is left out. Not allowed together with sessionId.`,
);
const limit = integer(1, lockLimits.limitMax, '1 is a mutex, more is a semaphore.');
const permits = integer(1, lockLimits.limitMax, 'How many permits to take, at most the limit.');
const mode = z
  .enum(['exclusive', 'shared'], { error: 'must be exclusive or shared' })
  .describe('Writers are exclusive, readers share.');

/** The kind of lock, and how many of its permits to take. */
export const demandFields = { limit: limit.optional(), permits: permits.optional(), mode: mode.optional() };

/** Query parameters come as text. */
export function integerText(min: number, max: number, meaning: string) {
  const error = `must be an integer from ${min} to ${max}`;
  return z
    .string({ error })
    .regex(/^\d{1,16}$/, error)
    .transform(Number)
    .refine((value) => value >= min && value <= max, error)
    .meta({ type: 'integer', minimum: min, maximum: max })
    .describe(meaning);
}

export const cursorText = z
  .string()
  .max(requestLimits.cursorLengthMax, 'must be a cursor from an earlier page')
  .describe('From an earlier page.');

export const pageSize = (byDefault: number, meaning: string) =>
  integerText(1, requestLimits.pageSizeMax, meaning).default(byDefault);

/** Fields of answers. */
export const ms = z.int().min(0);
export const instant = z.iso.datetime();
export const fence = z.int().min(0).describe('Rises with every grant. It is exact as a JSON number.');
