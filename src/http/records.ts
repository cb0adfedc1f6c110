/** The record operations turn requests into calls of use cases, and outcomes into answers. They contain no rules. */
import { putRecordBody, type recordOperations } from '../contract/records.ts';
import type { RecordWritten } from '../contract/views.ts';
import type { Expectation } from '../record/commands.ts';
import { membersOf } from '../record/json-text.ts';
import { recordLimits } from '../record/limits.ts';
import { type RecordState, valueInForce, type WrittenHow } from '../record/state.ts';
import { type RecordAt, type RecordOutcome, readRecord, writeRecord } from '../service/records.ts';
import type { RecordKey } from '../store/records.ts';
import { toIso } from '../time/clock.ts';
import { defined } from '../tools/collections.ts';
import type { Handlers } from './operations.ts';
import { invalidField, Problem } from './problems.ts';
import { parseJson, validate } from './request.ts';

type OnRecord = { readonly parameters: { readonly ns: string; readonly key: string } };

const recordKey = ({ parameters: { ns, key } }: OnRecord): RecordKey => ({ namespace: ns, key });

const etagOf = ({ version }: RecordState): string => `"${version}"`;

export const recordHandlers: Handlers<keyof typeof recordOperations> = {
  async getRecord({ records }, input) {
    const key = recordKey(input);
    const known = input.headers['If-None-Match'];
    const found = await readRecord(records, key);
    const { state } = found;
    const value = valueInForce(state, found.now);
    if (value === null) throw new Problem('not-found', `There is no record ${key.key}.`);
    const headers = { etag: etagOf(state) };
    if (known === '*' || known?.includes(String(state.version))) return { status: 304, body: undefined, headers };
    return { status: 200, body: undefined, text: recordText(key, found, value), headers };
  },

  async putRecord({ records }, input) {
    const key = recordKey(input);
    const { headers } = input;
    const put = putBodyOf(input.body);
    const expects = headers['If-Match'] ?? headers['If-None-Match'];
    if (expects === undefined) {
      throw new Problem(
        'precondition-required',
        'A write must say what it replaces: If-Match with a version or *, or If-None-Match: * if there is no record yet.',
      );
    }
    const outcome = await writeRecord(records, key, { kind: 'put', ...put, expects, ...writeOptions(headers) });
    const status = howWritten(key, outcome, headers['Fence-Token']) === 'created' ? 201 : 200;
    return { status, body: writtenBody(key, outcome), headers: { etag: etagOf(outcome.state) } };
  },

  async deleteRecord({ records }, input) {
    const key = recordKey(input);
    const { headers } = input;
    const expects = headers['If-Match'] as Exclude<Expectation, { kind: 'absent' }> | undefined;
    if (expects === undefined) {
      throw new Problem('precondition-required', 'A deletion must say what it deletes: If-Match with a version or *.');
    }
    const outcome = await writeRecord(records, key, { kind: 'delete', expects, ...writeOptions(headers) });
    howWritten(key, outcome, headers['Fence-Token']);
    return { status: 200, body: writtenBody(key, outcome) };
  },
};

const writeOptions = (headers: { 'Fence-Token'?: number | undefined; 'Write-Id'?: string | undefined }) =>
  defined({ fence: headers['Fence-Token'], writeId: headers['Write-Id'] });

/** The other fields beside the value. The value itself is cut out of the text. */
const besideValue = putRecordBody.omit({ value: true });

/** The text of `value` in `{"value":…}`, exactly as it came, and the other fields. */
function putBodyOf(body: string): { value: string; expiresInMs?: number } {
  const parsed = body === '' ? {} : parseJson(body);
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw invalidField('body', 'must be an object with the field value');
  }
  const members = body === '' ? [] : membersOf(body);
  const names = new Set<string>();
  for (const { name } of members) {
    if (!Object.hasOwn(putRecordBody.shape, name)) throw invalidField(name.slice(0, 60), 'is not a known field');
    // JSON parsers differ in which of two equal names they use.
    if (names.has(name)) throw invalidField(name, 'must be given once');
    names.add(name);
  }
  const member = members.find(({ name }) => name === 'value');
  if (member === undefined) throw invalidField('value', 'is required: any JSON, null included');
  const { value: _, ...rest } = parsed as { value: unknown };
  const { expiresInMs } = validate(besideValue, rest, 'body');
  const bytes = Buffer.byteLength(member.text);
  if (bytes > recordLimits.valueBytesMax) {
    throw new Problem('too-large', `The value has ${bytes} bytes; ${recordLimits.valueBytesMax} are allowed.`);
  }
  return { value: member.text, ...defined({ expiresInMs }) };
}

/** What a write did. Throws if it was refused. */
function howWritten({ key }: RecordKey, { answer }: RecordOutcome, fence: number | undefined): WrittenHow {
  switch (answer.kind) {
    case 'written':
      return answer.how;
    case 'stale-fence':
      throw new Problem(
        'stale-fence',
        `${key} has accepted fence ${answer.floor}, but this write has fence ${fence}: its lock was lost, and a later holder has written.`,
        { fenceFloor: answer.floor },
      );
    case 'fence-required':
      throw new Problem(
        'precondition-required',
        `${key} checks fences, so each write needs Fence-Token: the fence of the lock that the writer holds.`,
      );
    case 'version-mismatch': {
      const { version } = answer;
      const inForce = version === null ? `There is no record ${key}.` : `${key} exists, in version ${version}.`;
      throw new Problem('version-mismatch', `${inForce} Nothing was written.`, { version });
    }
    case 'write-id-reused':
      throw invalidField('Write-Id', 'must be new for each write; a different write has already used it');
  }
}

/**
 * If the record has an end, the answer has both the instant and the remaining time, so that no reader depends on its
 * own clock.
 */
function writtenBody({ key }: RecordKey, { state, now }: RecordAt): RecordWritten {
  const { version, floor, updatedAt, expiresAt } = state;
  const end = expiresAt === null ? {} : { expiresAt: toIso(expiresAt), remainingMs: Math.max(0, expiresAt - now) };
  return { key, version, fence: floor, updatedAt: toIso(updatedAt), ...end };
}

/** Built as text, because the value is text that must be sent exactly as it came. */
function recordText(key: RecordKey, found: RecordAt, value: string): string {
  const { key: name, ...rest } = writtenBody(key, found);
  return `{"key":${JSON.stringify(name)},"value":${value},${JSON.stringify(rest).slice(1)}`;
}
