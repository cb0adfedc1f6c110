import type * as z from 'zod';
import { Problem } from './problems.ts';

/** Values of these fields are rights; a caller's own typo in one must not end up in somebody's log of error messages. */
const secretFields = new Set(['leaseId', 'sessionId', 'id', 'token', 'connectionId']);
const shownLengthMax = 60;

export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** Checks what came against a schema: what comes back is what it says, or a 400 that names each field, what it got and what is allowed. */
export function validate<Schema extends z.ZodType>(schema: Schema, input: unknown, where: string): z.output<Schema> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const errors = result.error.issues.flatMap((issue) => toFieldErrors(issue, input, where));
  const [first] = errors;
  throw new Problem(
    'invalid-request',
    first === undefined ? 'The request is not valid.' : `${first.field} ${first.message}.`,
    { errors },
  );
}

function toFieldErrors(issue: z.core.$ZodIssue, input: unknown, where: string): FieldError[] {
  const at = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ field: clip([...at, key].join('.')), message: 'is not a known field' }));
  }
  const field = at.length === 0 ? where : at.join('.');
  const value = at.reduce<unknown>(
    (inner, key) => (Object(inner) === inner ? (inner as Record<string, unknown>)[key] : undefined),
    input,
  );
  if (value === undefined) return [{ field, message: `is required: it ${issue.message}` }];
  return [{ field: clip(field), message: `${issue.message}, got ${show(value, at.at(-1))}` }];
}

function show(value: unknown, field: string | undefined): string {
  if (typeof value === 'string') {
    return field !== undefined && secretFields.has(field)
      ? `a string of ${value.length} characters`
      : clip(JSON.stringify(value));
  }
  // What is inside is not shown: it may be nested deeper than the stack is, and it is not what was wrong.
  if (Array.isArray(value)) return `a list of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

const clip = (shown: string): string => (shown.length <= shownLengthMax ? shown : `${shown.slice(0, shownLengthMax)}…`);
