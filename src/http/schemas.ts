import * as z from 'zod';
import { lockLimits } from '../lock/limits.ts';

/** Building blocks whose messages say what is allowed; what came is added by the validation. */
export const integer = (min: number, max: number, meaning: string) =>
  z
    .int({ error: `must be an integer from ${min} to ${max}` })
    .min(min, `must be an integer from ${min} to ${max}`)
    .max(max, `must be an integer from ${min} to ${max}`)
    .describe(meaning);

export const text = (min: number, max: number, meaning: string) =>
  z
    .string({ error: `must be a string of ${min} to ${max} characters` })
    .min(min, `must be a string of ${min} to ${max} characters`)
    .max(max, `must be a string of ${min} to ${max} characters`)
    .describe(meaning);

const pattern = (shape: RegExp, allowed: string, meaning: string) =>
  z
    .string({ error: `must be ${allowed}` })
    .regex(shape, `must be ${allowed}`)
    .describe(meaning);

export const namespaceName = pattern(
  /^[a-z0-9][a-z0-9-]{0,62}$/,
  '1 to 63 of a-z, 0-9 and -, not starting with -',
  'Names are unique within a namespace, and callers can be scoped to one.',
);

export const resourceName = pattern(
  /^[A-Za-z0-9][A-Za-z0-9._:@=+~-]{0,254}$/,
  '1 to 255 of A-Z, a-z, 0-9 and . _ : @ = + ~ -, starting with a letter or digit',
  'The name of a lock, record or session.',
);

export const leaseId = pattern(
  /^[A-Za-z0-9_-]{16,128}$/,
  '16 to 128 of A-Z, a-z, 0-9, _ and -',
  'The right to renew and release. Chosen by the caller it makes retries safe. Secret.',
);

export const fenceNumber = integer(1, Number.MAX_SAFE_INTEGER, 'The fence of a grant.');

export const ownerName = text(1, lockLimits.ownerLengthMax, "Shown to others. The caller's identity by default.");

const metadata = z
  .record(z.string(), z.string({ error: 'must be a string' }), { error: 'must be an object of strings' })
  .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= lockLimits.metadataBytesMax, {
    error: `must be at most ${lockLimits.metadataBytesMax} bytes as JSON`,
  })
  .describe('Shown in inspect.');

const notify = z
  .discriminatedUnion(
    'type',
    [
      z.strictObject({
        type: z.literal('event'),
        ref: text(1, 256, "The waiter's own reference, which the event carries."),
      }),
      z.strictObject({ type: z.literal('task-token'), token: text(1, 1_024, 'A Step Functions task token. Secret.') }),
      z.strictObject({
        type: z.literal('websocket'),
        connectionId: text(1, 128, 'From the first message of a watch.'),
      }),
    ],
    { error: 'must be an object whose type is event, task-token or websocket' },
  )
  .describe('Parks the waiter: it need not run, and is told of its grant this way.');

export const leaseMs = integer(
  lockLimits.leaseMsMin,
  lockLimits.leaseMsMax,
  'How long the lease lasts without being renewed.',
);
const limit = integer(1, lockLimits.limitMax, '1 is a mutex, more is a semaphore.');
const permits = integer(1, lockLimits.limitMax, 'How many of the permits are wanted, up to the limit.');
const mode = z
  .enum(['exclusive', 'shared'], { error: 'must be exclusive or shared' })
  .describe('Writers are exclusive, readers share.');

/** What kind of lock is meant, and how much of it. */
export const demandFields = { limit: limit.optional(), permits: permits.optional(), mode: mode.optional() };

interface Refinement<Value = unknown> {
  readonly value: Value;
  readonly issues: unknown[];
}

/** Adds an issue about one field. */
export const refuse = (check: Refinement, input: unknown, field: string, message: string) =>
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

export const acquireBody = z
  .strictObject({
    leaseMs: leaseMs.optional().meta({ default: lockLimits.leaseMsDefault }),
    waitMs: integer(
      0,
      lockLimits.parkedWaitMsMax,
      `0 answers at once; up to ${lockLimits.waitMsMax}, parked up to ${lockLimits.parkedWaitMsMax}.`,
    ).default(0),
    leaseId: leaseId.optional(),
    owner: ownerName.optional(),
    ...demandFields,
    sessionId: resourceName
      .optional()
      .describe('An open session; it bounds the lease, so leaseMs is not allowed. Secret.'),
    lockDelayMs: integer(0, lockLimits.lockDelayMsMax, 'Kept free for so long after a lease that expired.').default(0),
    tier: z.enum(['correctness', 'efficiency'], { error: 'must be correctness or efficiency' }).default('correctness'),
    notify: notify.optional(),
    metadata: metadata.optional(),
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

export const renewBody = z.strictObject({ leaseId, leaseMs: leaseMs.optional() });
export const releaseBody = z.strictObject({ leaseId });
export const revokeBody = z.strictObject({
  fence: fenceNumber,
  reason: text(1, lockLimits.reasonLengthMax, 'Shown in the history, for those who ask why.'),
});

/** Query parameters come as text. */
export const integerText = (min: number, max: number, meaning: string) =>
  z
    .string({ error: `must be an integer from ${min} to ${max}` })
    .regex(/^\d{1,16}$/, `must be an integer from ${min} to ${max}`)
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be an integer from ${min} to ${max}`)
    .meta({ type: 'integer', minimum: min, maximum: max })
    .describe(meaning);

export const checkQuery = z.strictObject({ fence: integerText(0, Number.MAX_SAFE_INTEGER, 'The fence to check.') });

export const cursorText = z
  .string()
  .max(512, 'must be a cursor from an earlier page')
  .describe('From an earlier page.');

export const listQuery = z.strictObject({
  prefix: z
    .string()
    .regex(/^[A-Za-z0-9._:@=+~-]{0,255}$/, 'must be the beginning of a name')
    .default('')
    .describe('Only names that begin so.'),
  state: z.enum(['held', 'free'], { error: 'must be held or free' }).optional(),
  limit: integerText(1, 1_000, 'Locks on a page.').default(100),
  cursor: cursorText.optional(),
});
