import type * as z from 'zod';
import { namespaceName, resourceName } from '../contract/fields.ts';
import { requestLimits } from '../contract/limits.ts';
import {
  type Checked,
  type Contract,
  type Operation,
  type OperationContract,
  operations,
  type ParametersOf,
} from '../contract/operations.ts';
import type { FieldError } from '../contract/views.ts';
import { invalidField, Problem } from './problems.ts';

/**
 * A request, independent of how it came. Adapters make it from an API Gateway event, from `node:http`, or in direct
 * mode.
 */
export interface Request {
  readonly id: string;
  /** Undefined if no operation has this method and path. */
  readonly operation: Operation | undefined;
  readonly method: string;
  /** Decoded. It may contain a session's id, which is secret, so it must not be logged. */
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string | undefined;
  /** The caller, as far as the adapter knows. */
  readonly caller: string;
  /** The namespaces that the caller may use. `*` means all. If missing, the caller is not restricted here. */
  readonly namespaces?: readonly string[];
  /** Aborts if the caller's connection breaks. Missing if that can't be known. */
  readonly signal?: AbortSignal | undefined;
}

/** The caller's name if nothing authenticates it. */
export const anonymous = 'anonymous';

/** A request of which every part was checked against the contract. */
export interface Input<Name extends Operation> {
  readonly parameters: Readonly<Record<ParametersOf<Contract[Name]['route']>, string>>;
  readonly query: Checked<Name, 'query'>;
  readonly headers: Checked<Name, 'headers'>;
  readonly body: Checked<Name, 'body'>;
  readonly caller: string;
  /** The host name that the caller used. */
  readonly host: string | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface Reply {
  readonly status: number;
  readonly body: unknown;
  /** JSON text that is sent unchanged instead of `body`, for values that must not be parsed and written again. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What the request's line in the log says besides the route. Nothing secret. */
  readonly logged?: Readonly<Record<string, unknown>>;
}

/** Checks a request against the contract of its operation. */
export function checkRequest<Name extends Operation>(operation: Name, request: Request): Input<Name> {
  const { query, headers, body, verbatim, bodyBytesMax }: OperationContract = operations[operation];
  const input: Input<Operation> = {
    parameters: checkParameters(request.parameters) as Input<Operation>['parameters'],
    query: query === undefined ? undefined : (validate(query, request.query, 'query') as never),
    headers: headers === undefined ? undefined : (checkHeaders(headers, request.headers) as never),
    body: body === undefined ? undefined : (checkBody(request, body, verbatim === true, bodyBytesMax) as never),
    caller: request.caller,
    host: request.headers.host,
    get signal() {
      return request.signal;
    },
  };
  return input as Input<Name>;
}

function checkParameters(parameters: Request['parameters']): Record<string, string> {
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(parameters)) {
    checked[name] = validate(name === 'ns' ? namespaceName : resourceName, value, name);
  }
  return checked;
}

/** The headers that a schema names. All others are ignored. */
function checkHeaders(schema: z.ZodObject, headers: Request['headers']): unknown {
  const given: Record<string, string> = {};
  for (const name of Object.keys(schema.shape)) {
    const value = headers[name.toLowerCase()];
    if (value !== undefined) given[name] = value.trim();
  }
  return validate(schema, given, 'headers');
}

/** A missing body counts as an empty object, so that a lock can be taken with all defaults. */
function checkBody(request: Request, schema: z.ZodType, verbatim: boolean, bytesMax?: number): unknown {
  const text = bodyText(request, bytesMax ?? requestLimits.bodyBytesMax);
  if (verbatim) return text;
  const body = parseJson(text || '{}');
  refuseProto(body, []);
  return validate(schema, body, 'body');
}

/** JSON may have a key `__proto__`. A copy key by key would lose it, so it is refused. */
function refuseProto(value: unknown, path: readonly string[]): void {
  if (typeof value !== 'object' || value === null || path.length > protoDepthMax) return;
  if (Object.hasOwn(value, '__proto__'))
    throw invalidField(clip([...path, '__proto__'].join('.')), 'is not a known field');
  for (const [key, inner] of Object.entries(value)) refuseProto(inner, [...path, key]);
}

function bodyText({ body, headers }: Request, bytesMax: number): string {
  if (body === undefined || body === '') return '';
  const bytes = Buffer.byteLength(body);
  if (bytes > bytesMax) throw new Problem('too-large', `The body has ${bytes} bytes; ${bytesMax} are allowed.`);
  const type = headers['content-type'] ?? '';
  if (/^application\/json\s*(;|$)/i.test(type)) return body;
  const got = type === '' ? 'no content-type' : type.slice(0, 100);
  throw new Problem('unsupported-media-type', `The body must be application/json, but is ${got}.`);
}

export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    // The engine's message quotes the text around the error, which may be a leaseId. Only the part before the quote is
    // shown.
    const [what] = (error as Error).message.split(/, (?:\.\.\.)?"/);
    throw new Problem('invalid-request', `The body is not JSON: ${what}.`, {
      errors: [{ field: 'body', message: 'must be JSON' }],
    });
  }
}

/** The values of these fields give rights. A typo in one must not end up in a log of error messages. */
const secretFields = new Set(['leaseId', 'sessionId', 'id', 'token', 'connectionId']);
const shownLengthMax = 60;
/** No valid field is nested deeper than this. The schema refuses anything deeper. */
const protoDepthMax = 4;

/**
 * Checks an input against a schema. Returns the checked value, or throws a 400 that names each field, what it got and
 * what is allowed.
 */
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
  // The content is not shown. It may be nested deeper than the stack allows, and it is not the cause.
  if (Array.isArray(value)) return `a list of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

const clip = (shown: string): string => (shown.length <= shownLengthMax ? shown : `${shown.slice(0, shownLengthMax)}…`);

/** A cursor is encoded, so that callers do not depend on its content, and the content can change. */
export const writeCursor = (place: string): string => Buffer.from(place).toString('base64url');

export const readCursor = (cursor: string, place: z.ZodType<string>): string =>
  validate(place, Buffer.from(cursor, 'base64url').toString(), 'cursor');
