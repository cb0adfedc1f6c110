/** The record operations: requests into use cases, outcomes into answers. They decide nothing. */
import type * as z from 'zod';
import type { Expectation, RecordAnswer } from '../record/commands.ts';
import { membersOf } from '../record/json-text.ts';
import { recordLimits } from '../record/limits.ts';
import type { RecordState } from '../record/state.ts';
import { type RecordContext, type RecordOutcome, readRecord, writeRecord } from '../service/records.ts';
import type { RecordKey } from '../store/record-store.ts';
import { toIso } from '../time/clock.ts';
import { Problem } from './problems.ts';
import { deleteRecordHeaders, getRecordHeaders, putRecordHeaders } from './record-schemas.ts';
import { parseJson, type Reply, type Request } from './request.ts';
import { validate } from './validation.ts';

const recordKey = (request: Request): RecordKey => ({ namespace: request.namespace, key: request.name('key') });

const etagOf = ({ version }: RecordState): string => `"${version}"`;

export async function getRecord(context: RecordContext, request: Request): Promise<Reply> {
  const key = recordKey(request);
  const known = headersOf(request, getRecordHeaders)['If-None-Match'];
  const state = await readRecord(context, key);
  if (state.value === null) throw new Problem('not-found', `There is no record ${key.key}.`);
  const headers = { etag: etagOf(state) };
  if (known === '*' || known?.includes(String(state.version))) return { status: 304, body: undefined, headers };
  return { status: 200, body: undefined, text: recordText(key, state, state.value), headers };
}

export async function putRecord(context: RecordContext, request: Request): Promise<Reply> {
  const key = recordKey(request);
  const value = valueTextOf(request);
  const headers = headersOf(request, putRecordHeaders);
  const expects = headers['If-Match'] ?? headers['If-None-Match'];
  if (expects === undefined) {
    throw new Problem(
      'precondition-required',
      'A write says what it replaces: If-Match with a version or *, or If-None-Match: * where there is no record yet.',
    );
  }
  const outcome = await writeRecord(context, key, { kind: 'put', value, expects, ...writeOptions(headers) });
  const { state, how } = written(key, outcome, headers['Fence-Token']);
  return { status: how === 'created' ? 201 : 200, body: writtenBody(key, state), headers: { etag: etagOf(state) } };
}

export async function deleteRecord(context: RecordContext, request: Request): Promise<Reply> {
  const key = recordKey(request);
  const headers = headersOf(request, deleteRecordHeaders);
  const expects = headers['If-Match'] as Exclude<Expectation, { kind: 'absent' }> | undefined;
  if (expects === undefined) {
    throw new Problem('precondition-required', 'A deletion says what it deletes: If-Match with a version or *.');
  }
  const outcome = await writeRecord(context, key, { kind: 'delete', expects, ...writeOptions(headers) });
  return { status: 200, body: writtenBody(key, written(key, outcome, headers['Fence-Token']).state) };
}

/** The headers that a schema names, checked. Others are none of this operation's business. */
function headersOf<Schema extends z.ZodObject>(request: Request, schema: Schema): z.output<Schema> {
  const given: Record<string, string> = {};
  for (const name of Object.keys(schema.shape)) {
    const value = request.header(name.toLowerCase());
    if (value !== undefined) given[name] = value.trim();
  }
  return validate(schema, given, 'headers');
}

const writeOptions = (headers: { 'Fence-Token'?: number | undefined; 'Write-Id'?: string | undefined }) => ({
  ...(headers['Fence-Token'] === undefined ? {} : { fence: headers['Fence-Token'] }),
  ...(headers['Write-Id'] === undefined ? {} : { writeId: headers['Write-Id'] }),
});

/** The text of `value` in `{"value":…}`, exactly as it came. */
function valueTextOf(request: Request): string {
  const body = request.bodyText(recordLimits.valueBytesMax + recordLimits.wrappingBytesMax);
  const parsed = body === '' ? {} : parseJson(body);
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw invalidBody('body', 'must be an object with the field value');
  }
  const members = body === '' ? [] : membersOf(body);
  const unknown = members.find(({ name }) => name !== 'value');
  if (unknown !== undefined) throw invalidBody(unknown.name.slice(0, 60), 'is not a known field');
  const [member, second] = members;
  if (member === undefined) throw invalidBody('value', 'is required: any JSON, null included');
  // Readers of JSON differ in which of two equal names they take.
  if (second !== undefined) throw invalidBody('value', 'must be given once');
  const bytes = Buffer.byteLength(member.text);
  if (bytes > recordLimits.valueBytesMax) {
    throw new Problem('too-large', `The value has ${bytes} bytes; ${recordLimits.valueBytesMax} are allowed.`);
  }
  return member.text;
}

const invalidBody = (field: string, message: string): Problem =>
  new Problem('invalid-request', `${field} ${message}.`, { errors: [{ field, message }] });

type Written = Extract<RecordAnswer, { kind: 'written' }>;

function written(
  key: RecordKey,
  { answer, state }: RecordOutcome,
  fence: number | undefined,
): Written & { state: RecordState } {
  if (answer.kind === 'written') return { ...answer, state };
  throw toRefusal(key, answer, fence);
}

function toRefusal({ key }: RecordKey, answer: Exclude<RecordAnswer, Written>, fence: number | undefined): Problem {
  switch (answer.kind) {
    case 'stale-fence':
      return new Problem(
        'stale-fence',
        `${key} has accepted fence ${answer.floor}, and this write came with ${fence}: the lock was lost, and a later holder has written.`,
        { fenceFloor: answer.floor },
      );
    case 'fence-required':
      return new Problem(
        'precondition-required',
        `${key} is guarded by a fence, so each write needs Fence-Token: the fence of the lock that the writer holds.`,
      );
    case 'version-mismatch': {
      const { version } = answer;
      const inForce = version === null ? `There is no record ${key}.` : `${key} exists, in version ${version}.`;
      return new Problem('version-mismatch', `${inForce} Nothing was written.`, { version });
    }
    case 'write-id-reused':
      return invalidBody('Write-Id', 'must be new for each write; the write in force has this one and differs');
  }
}

const writtenBody = ({ key }: RecordKey, { version, floor, updatedAt }: RecordState) => ({
  key,
  version,
  fence: floor,
  updatedAt: toIso(updatedAt),
});

/** Put together as text, because the value is text that must leave as it came. */
function recordText(key: RecordKey, state: RecordState, value: string): string {
  const { key: name, ...rest } = writtenBody(key, state);
  return `{"key":${JSON.stringify(name)},"value":${value},${JSON.stringify(rest).slice(1)}`;
}
