/** The record operations. */
import * as z from 'zod';
import type { Expectation } from '../record/commands.ts';
import { recordLimits } from '../record/limits.ts';
import { instant, integer, integerText, ms, named } from './fields.ts';
import { nameRules } from './limits.ts';
import type { OperationContract } from './operation.ts';

/** This schema of the value is only for OpenAPI. The value is cut out of the body's text, because parsing would change it. */
export const putRecordBody = z
  .strictObject({
    value: z.unknown(),
    expiresInMs: integer(
      recordLimits.expiresInMsMin,
      recordLimits.expiresInMsMax,
      'After this time the record is absent. Its version and its floor continue.',
    ).optional(),
  })
  .describe(
    `The value is any JSON of at most ${recordLimits.valueBytesMax} bytes. Its text is kept exactly as it came.`,
  );

const oneVersion = 'must be one version in quotation marks, such as "7", or *';

const ifMatchPattern = '^(\\*|"(0|[1-9]\\d{0,15})")$';

/** Weak tags can't match here (RFC 9110, 13.1.1), and a list would be no compare-and-swap. Each is refused with its own message. */
const ifMatch = z
  .string()
  .refine((tag) => !tag.includes(','), `${oneVersion}, and not several`)
  .refine((tag) => !/^W\//.test(tag), `${oneVersion}; W/ marks a weak tag, which a proxy may have added`)
  .refine((tag) => tag.includes(',') || /^W\//.test(tag) || tag === '*' || isVersionTag(tag), oneVersion)
  .transform(
    (tag): Expectation => (tag === '*' ? { kind: 'present' } : { kind: 'version', version: Number(tag.slice(1, -1)) }),
  )
  .describe('The version that this write replaces, in quotation marks. With *, any version, but the record must exist.')
  .meta({ pattern: ifMatchPattern });

const isVersionTag = (tag: string): boolean =>
  /^"(0|[1-9]\d{0,15})"$/.test(tag) && Number(tag.slice(1, -1)) <= recordLimits.versionMax;

const ifNoneMatch = z
  .literal('*', { error: 'must be * on a write: put the version to be replaced into If-Match' })
  .transform((): Expectation => ({ kind: 'absent' }))
  .describe('The record must not exist.');

const fenceToken = integerText(
  1,
  Number.MAX_SAFE_INTEGER,
  'The fence of the lock that guards the record. A fence below the floor is refused. Required if the record has a floor.',
);

const writeId = named(
  nameRules.secret,
  'The id of this write. If the same write is repeated after a lost answer, it gets the same answer. Choose a new id for each write.',
);

const shared = { 'If-Match': ifMatch.optional(), 'Fence-Token': fenceToken.optional(), 'Write-Id': writeId.optional() };

const putRecordHeaders = z.object({ ...shared, 'If-None-Match': ifNoneMatch.optional() }).check((check) => {
  if (check.value['If-Match'] === undefined || check.value['If-None-Match'] === undefined) return;
  const message = 'is not allowed together with If-Match: a record cannot both exist and not exist';
  check.issues.push({ code: 'custom', input: '*', path: ['If-None-Match'], message });
});

const deleteRecordHeaders = z.object({
  ...shared,
  'If-None-Match': z
    .never({ error: 'is not allowed: only a record that exists can be deleted, so use If-Match' })
    .optional(),
});

const entityTag = /(?:W\/)?"([\x21\x23-\x7e\x80-\xff]*)"/;
const entityTags = new RegExp(`^${entityTag.source}(?:[ \\t]*,[ \\t]*${entityTag.source})*$`);

/** Compared as weak tags (RFC 9110, 13.1.2), so a tag that a proxy made weak still saves the transfer. */
const getRecordHeaders = z.object({
  'If-None-Match': z
    .string()
    .refine((tags) => tags === '*' || entityTags.test(tags), 'must be * or a list of entity tags such as "7", "8"')
    .transform((tags) =>
      tags === '*' ? '*' : [...tags.matchAll(new RegExp(entityTag, 'g'))].map(([, tag]) => tag ?? ''),
    )
    .meta({ pattern: `^(\\*|${entityTags.source.slice(1, -1)})$` })
    .optional()
    .describe(
      'Versions that the caller already has. If the record still has one of them, the answer is 304 without a body.',
    ),
});

const version = z.int().min(1).describe('Rises by one with every write, deletions included.');
const fence = z
  .int()
  .min(1)
  .nullable()
  .describe('The floor: the highest fence that was accepted. Null if no write had a fence.');

export const recordWritten = z
  .object({
    key: z.string(),
    version,
    fence,
    updatedAt: instant,
    expiresAt: instant.optional().describe('When the record ends. Missing if it has no end.'),
    remainingMs: ms.optional().describe("The time until then, by the service's clock."),
  })
  .meta({ title: 'RecordWritten' });

export const recordShown = recordWritten
  .extend({
    value: z.unknown().describe('The JSON text, exactly as it came.'),
  })
  .meta({ title: 'Record' });

const writeProblems = ['stale-fence', 'version-mismatch', 'precondition-required'] as const;

export const recordOperations = {
  getRecord: {
    route: 'GET /v1/{ns}/records/{key}',
    access: 'inspect',
    summary: 'Reads a record. Its version is also in ETag.',
    headers: getRecordHeaders,
    answers: { 200: recordShown },
    bareAnswers: { 304: 'The record still has a version of If-None-Match.' },
    problems: ['not-found'],
  },
  putRecord: {
    route: 'PUT /v1/{ns}/records/{key}',
    access: 'use',
    summary:
      'Creates or replaces a record by compare-and-swap. If-Match or If-None-Match is required. Fence-Token is required if the record has a floor.',
    headers: putRecordHeaders,
    body: putRecordBody,
    verbatim: true,
    bodyBytesMax: recordLimits.valueBytesMax + recordLimits.wrappingBytesMax,
    answers: { 200: recordWritten, 201: recordWritten },
    problems: writeProblems,
  },
  deleteRecord: {
    route: 'DELETE /v1/{ns}/records/{key}',
    access: 'use',
    summary: 'Deletes a record by compare-and-swap. If it is created again, its version and its floor continue.',
    headers: deleteRecordHeaders,
    answers: { 200: recordWritten },
    problems: writeProblems,
  },
} as const satisfies Record<string, OperationContract>;
