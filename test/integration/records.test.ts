import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { problem } from '../../src/contract/operations.ts';
import { recordShown, recordWritten } from '../../src/contract/records.ts';
import { engineClient, exactOnly } from '../support/engine.ts';
import { lockAt, startService, type TestService } from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startService();
});

afterAll(() => service.stop());

type Headers = Record<string, string>;

/** Calls on one record, as one client makes them. */
function recordAt(key: string = randomUUID()) {
  const path = `/v1/test/records/${key}`;
  return {
    key,
    path,
    get: (headers: Headers = {}) => service.call('GET', path, undefined, { headers }),
    /** The value is JSON text. */
    put: (value: string, headers: Headers = {}) => service.call('PUT', path, `{"value":${value}}`, { headers }),
    send: (body: string, headers: Headers = {}) => service.call('PUT', path, body, { headers }),
    delete: (headers: Headers = {}) => service.call('DELETE', path, undefined, { headers }),
    text: async () => (await fetch(`${service.url}${path}`)).text(),
  };
}

const absent = { 'if-none-match': '*' };
const at = (version: number) => ({ 'if-match': `"${version}"` });
const fenced = (fence: number) => ({ 'fence-token': String(fence) });

async function guardedRecord(floor = 7) {
  const record = recordAt();
  await record.put('1', { ...absent, ...fenced(floor) });
  return record;
}

describe('GET', () => {
  it('shows the value, its version, its floor and when it was written, with the version as ETag', async () => {
    const record = recordAt();
    await record.put('{"a":[1,null]}', absent);

    const { status, headers, body } = await record.get();

    expect(status).toBe(200);
    expect(headers.get('etag')).toBe('"1"');
    expect(headers.get('content-type')).toBe('application/json');
    expect(body).toEqual({
      key: record.key,
      value: { a: [1, null] },
      version: 1,
      fence: null,
      updatedAt: expect.any(String),
    });
    expect(recordShown.parse(body)).toEqual(body);
  });

  it.each(['"1"', 'W/"1"', '"0", W/"1"', '"x","1"', '*'])(
    'answers 304 without a body to If-None-Match: %s',
    async (tags) => {
      const record = recordAt();
      await record.put('1', absent);
      const { status, headers, body } = await record.get({ 'if-none-match': tags });
      expect({ status, body, etag: headers.get('etag') }).toEqual({ status: 304, body: undefined, etag: '"1"' });
    },
  );

  it.each(['"2"', 'W/"2", "11"', '""'])('answers in full to If-None-Match: %s', async (tags) => {
    const record = recordAt();
    await record.put('1', absent);
    expect(await record.get({ 'if-none-match': tags })).toMatchObject({ status: 200, body: { version: 1 } });
  });

  it('answers 404 if the record never existed or was deleted', async () => {
    const record = recordAt();
    expect(await record.get()).toMatchObject({ status: 404, body: { code: 'not-found' } });
    await record.put('1', absent);
    await record.delete(at(1));
    expect(await record.get()).toMatchObject({ status: 404, body: { code: 'not-found' } });
    expect(await record.get({ 'if-none-match': '*' })).toMatchObject({ status: 404 });
  });

  it('refuses an If-None-Match that is not valid', async () => {
    expect(await recordAt().get({ 'if-none-match': '7' })).toMatchObject({
      status: 400,
      body: { code: 'invalid-request', errors: [{ field: 'If-None-Match' }] },
    });
  });
});

describe('PUT', () => {
  it('creates with 201, replaces with 200, and names the new version in ETag', async () => {
    const record = recordAt();
    const created = await record.put('1', absent);
    expect(created).toMatchObject({ status: 201, body: { key: record.key, version: 1, fence: null } });
    expect(created.headers.get('etag')).toBe('"1"');
    expect(recordWritten.parse(created.body)).toEqual(created.body);
    const replaced = await record.put('2', at(1));
    expect(replaced).toMatchObject({ status: 200, body: { version: 2 } });
    expect(replaced.headers.get('etag')).toBe('"2"');
    expect(await record.put('3', { 'if-match': '*' })).toMatchObject({ status: 200, body: { version: 3 } });
    expect(await record.get()).toMatchObject({ body: { value: 3, version: 3 } });
  });

  it('refuses another version with 412 and the current one', async () => {
    const record = recordAt();
    await record.put('1', absent);
    const refused = { status: 412, body: { code: 'version-mismatch', version: 1 } };
    for (const headers of [at(2), at(0), absent]) expect(await record.put('2', headers)).toMatchObject(refused);
    expect(problem.parse((await record.put('2', at(2))).body)).toMatchObject({ version: 1 });
    expect(await record.get()).toMatchObject({ body: { value: 1, version: 1 } });
  });

  it('says version null if there is no record', async () => {
    const refused = { status: 412, body: { code: 'version-mismatch', version: null } };
    expect(await recordAt().put('1', at(1))).toMatchObject(refused);
    expect(await recordAt().put('1', { 'if-match': '*' })).toMatchObject(refused);
  });

  it('asks for a precondition with 428', async () => {
    expect(await recordAt().put('1')).toMatchObject({ status: 428, body: { code: 'precondition-required' } });
  });

  it.each<[string, Headers]>([
    ['If-None-Match', { 'if-match': '"1"', 'if-none-match': '*' }],
    ['If-None-Match', { 'if-none-match': '"1"' }],
    ['If-Match', { 'if-match': '"1", "2"' }],
    ['If-Match', { 'if-match': 'W/"1"' }],
    ['If-Match', { 'if-match': '1' }],
    ['If-Match', { 'if-match': '"one"' }],
    ['If-Match', { 'if-match': '"1.5"' }],
    ['If-Match', { 'if-match': '"-1"' }],
    ['If-Match', { 'if-match': '"01"' }],
    ['If-Match', { 'if-match': '"9007199254740993"' }],
    ['Fence-Token', { ...absent, 'fence-token': '0' }],
    ['Fence-Token', { ...absent, 'fence-token': '-1' }],
    ['Fence-Token', { ...absent, 'fence-token': '1.5' }],
    ['Fence-Token', { ...absent, 'fence-token': '9007199254740993' }],
    ['Fence-Token', { ...absent, 'fence-token': '5, 6' }],
    ['Write-Id', { ...absent, 'write-id': 'short' }],
  ])('names a wrong %s: %j', async (field, headers) => {
    const { status, body } = await recordAt().put('1', headers);
    expect({ status, code: body.code, fields: body.errors.map((error: { field: string }) => error.field) }).toEqual({
      status: 400,
      code: 'invalid-request',
      fields: [field],
    });
  });

  it.each([
    ['value', '{}'],
    ['value', ''],
    ['value', '{"value":1,"value":2}'],
    ['body', '[1]'],
    ['body', 'null'],
    ['body', '{"value":'],
    ['body', '{"value":NaN}'],
    ['ttl', '{"value":1,"ttl":5}'],
    ['__proto__', '{"__proto__":1,"value":1}'],
    ['body', `${'['.repeat(50_000)}${']'.repeat(50_000)}`],
  ])('names %s in a body that is not valid: %s', async (field, body) => {
    expect(await recordAt().send(body, absent)).toMatchObject({ status: 400, body: { errors: [{ field }] } });
  });

  it('refuses a body that is not JSON by its type', async () => {
    const headers = { ...absent, 'content-type': 'text/plain' };
    expect(await recordAt().put('1', headers)).toMatchObject({ status: 415, body: { code: 'unsupported-media-type' } });
  });

  it('refuses other methods and says which there are', async () => {
    const { status, headers } = await service.call('POST', recordAt().path, {});
    expect({ status, allow: headers.get('allow') }).toEqual({ status: 405, allow: 'GET, PUT, DELETE' });
  });

  it('refuses names that are not valid', async () => {
    expect(await recordAt('-x').put('1', absent)).toMatchObject({ status: 400, body: { errors: [{ field: 'key' }] } });
  });
});

describe('a value', () => {
  it.each([
    '1e400',
    '12345678901234567890',
    '0.1000',
    '-0.0',
    '"\\ud800\\udfff\\u0000\\/"',
    '"𝄞 é \u2028"',
    '{"b":1,"a":2,"b":3,"":0}',
    '{"__proto__":{"constructor":1}}',
    '[ 1 ,\n\t{ "x" : [ ] } ]',
    'null',
    'false',
    '""',
  ])('is returned as the same text: %s', async (value) => {
    const record = recordAt();
    expect(await record.put(value, absent)).toMatchObject({ status: 201 });
    expect(await record.text()).toContain(
      `{"key":"${record.key}","value":${value},"version":1,"fence":null,"updatedAt":"`,
    );
  });

  it('may be nested as deep as fits', async () => {
    const deep = `${'[{"a":'.repeat(30_000)}1${'}]'.repeat(30_000)}`;
    const record = recordAt();
    expect(await record.put(deep, absent)).toMatchObject({ status: 201 });
    expect((await record.text()).includes(`"value":${deep},"version"`)).toBe(true);
  });

  it.each([
    ['ASCII', 'x'],
    ['characters of two bytes', 'é'],
  ])('may have 256 KiB and not a byte more: %s', async (_, character) => {
    const bytes = Buffer.byteLength(character);
    const full = `"${character.repeat((256 * 1024 - 2) / bytes)}"`;
    const record = recordAt();
    expect(await record.put(full, absent)).toMatchObject({ status: 201 });
    expect((await record.text()).includes(full)).toBe(true);
    expect(await record.put(`${full.slice(0, -1)}."`, at(1))).toMatchObject({
      status: 413,
      body: { code: 'too-large' },
    });
    expect(await record.put(`"${'x'.repeat(300 * 1024)}"`, at(1))).toMatchObject({ status: 413 });
  });
});

describe('Fence-Token', () => {
  it('raises the floor, is accepted when equal, and refused below with the floor', async () => {
    const record = await guardedRecord(7);
    expect(await record.put('2', { ...at(1), ...fenced(7) })).toMatchObject({ status: 200, body: { fence: 7 } });
    expect(await record.put('3', { ...at(2), ...fenced(9) })).toMatchObject({ status: 200, body: { fence: 9 } });
    const refused = await record.put('4', { ...at(3), ...fenced(8) });
    expect(refused).toMatchObject({ status: 409, body: { code: 'stale-fence', fenceFloor: 9 } });
    expect(problem.parse(refused.body)).toMatchObject({ fenceFloor: 9 });
    expect(await record.get()).toMatchObject({ body: { value: 3, version: 3, fence: 9 } });
  });

  it('is required once there is a floor, of a deletion too', async () => {
    const record = await guardedRecord();
    const refused = { status: 428, body: { code: 'precondition-required' } };
    expect(await record.put('2', at(1))).toMatchObject(refused);
    expect(await record.delete(at(1))).toMatchObject(refused);
  });

  it('tells a writer with a stale fence and a stale version that it lost the lock', async () => {
    const record = await guardedRecord(7);
    const answer = await record.put('2', { ...at(99), ...fenced(6) });
    expect(answer).toMatchObject({ status: 409, body: { code: 'stale-fence', fenceFloor: 7 } });
  });

  it('refuses a holder that was paused until after its lease', async () => {
    const name = randomUUID();
    const lock = lockAt(service.call, name);
    const record = recordAt();
    const paused = (await lock.acquire()).body;
    await lock.revoke({ fence: paused.fence, reason: 'paused for too long' });
    const successor = (await lock.acquire()).body;

    expect(await record.put('"new"', { ...absent, ...fenced(successor.fence) })).toMatchObject({ status: 201 });
    expect(await record.put('"late"', { 'if-match': '*', ...fenced(paused.fence) })).toMatchObject({ status: 409 });
    expect(await record.get()).toMatchObject({ body: { value: 'new' } });
  });
});

describe('DELETE', () => {
  it('keeps version and floor for a later creation', async () => {
    const record = await guardedRecord(7);
    const deleted = await record.delete({ ...at(1), ...fenced(8) });
    expect(deleted).toMatchObject({ status: 200, body: { key: record.key, version: 2, fence: 8 } });
    expect(await record.put('1', { ...absent, ...fenced(7) })).toMatchObject({ status: 409, body: { fenceFloor: 8 } });
    expect(await record.put('1', at(2))).toMatchObject({ status: 428 });
    const noRecord = { status: 412, body: { version: null } };
    expect(await record.put('1', { ...at(2), ...fenced(8) })).toMatchObject(noRecord);
    expect(await record.delete({ 'if-match': '*', ...fenced(8) })).toMatchObject(noRecord);
    expect(await record.put('1', { ...absent, ...fenced(8) })).toMatchObject({
      status: 201,
      body: { version: 3, fence: 8 },
    });
  });

  it('needs If-Match', async () => {
    const record = await guardedRecord();
    expect(await record.delete()).toMatchObject({ status: 428, body: { code: 'precondition-required' } });
    expect(await record.delete(absent)).toMatchObject({ status: 400, body: { errors: [{ field: 'If-None-Match' }] } });
  });

  it('leaves a tombstone that is never deleted', async () => {
    const record = recordAt();
    await record.put('1', absent);
    await record.delete(at(1));
    const client = engineClient();
    const Key = { pk: { S: `test/record/${record.key}` }, sk: { S: 'record' } };
    const { Item } = await client.send(new GetItemCommand({ TableName: service.table, Key, ConsistentRead: true }));
    expect(Item).toMatchObject({ v: { N: '2' } });
    expect(Item).not.toHaveProperty('ttl');
    expect(Item).not.toHaveProperty('val');
  });
});

describe('Write-Id', () => {
  const named = () => ({ 'write-id': randomUUID() });

  it('makes a repeated write give the answer that was lost', async () => {
    const record = recordAt();
    const creation = { ...absent, ...named() };
    const first = await record.put('1', creation);
    const second = await record.put('1', creation);
    expect([second.status, second.body]).toEqual([201, first.body]);
    expect(second.headers.get('etag')).toBe('"1"');

    const deletion = { ...at(1), ...named() };
    const deleted = await record.delete(deletion);
    expect(await record.delete(deletion)).toMatchObject({ status: 200, body: deleted.body });
  });

  it('is known after a later write has replaced it, so an update is not made twice', async () => {
    const record = recordAt();
    const creation = { ...absent, ...named() };
    await record.put('1', creation);
    await record.put('2', at(1));
    expect(await record.put('1', creation)).toMatchObject({ status: 201, body: { version: 1 } });
    expect(await record.get()).toMatchObject({ body: { value: 2, version: 2 } });
  });

  it('is refused for another write', async () => {
    const record = recordAt();
    const creation = { ...absent, ...named() };
    await record.put('1', creation);
    expect(await record.put('2', creation)).toMatchObject({ status: 400, body: { errors: [{ field: 'Write-Id' }] } });
    expect(await record.get()).toMatchObject({ body: { value: 1, version: 1 } });
  });

  it('is shown to nobody', async () => {
    const record = recordAt();
    const id = named();
    await record.put('1', { ...absent, ...id });
    const shown = `${await record.text()}${JSON.stringify((await record.put('2', at(9))).body)}`;
    expect(shown).not.toContain(id['write-id']);
  });
});

describe('compare-and-swap', () => {
  /** Reads, adds one, writes, and tries again if another writer was faster. */
  async function increment(record: ReturnType<typeof recordAt>): Promise<number> {
    for (let attempt = 0; attempt < 200; attempt++) {
      const { body } = await record.get();
      const answer = await record.put(String(body.value + 1), at(body.version));
      if (answer.status === 200) return attempt;
      expect(answer).toMatchObject({ status: 412, body: { code: 'version-mismatch' } });
      await pause(Math.random() * Math.min(200, 5 * 2 ** attempt));
    }
    throw new Error('200 tries were not enough.');
  }

  it(
    'loses no update of fifty writers at once',
    exactOnly('a single request may be refused with 429 or 503'),
    async () => {
      const record = recordAt();
      await record.put('0', absent);
      const retries = await Promise.all(Array.from({ length: 50 }, () => increment(record)));
      expect(await record.get()).toMatchObject({ body: { value: 50, version: 51 } });
      // Without contention this test would prove nothing.
      expect(retries.reduce((sum, count) => sum + count)).toBeGreaterThan(10);
    },
  );
});

describe('the OpenAPI document', () => {
  it('publishes the record operations with their headers and answers', async () => {
    const { body } = await service.call('GET', '/v1/openapi.json');
    const path = body.paths['/v1/{ns}/records/{key}'];
    const headersOf = (method: string) =>
      path[method].parameters.flatMap((parameter: { in: string; name: string }) =>
        parameter.in === 'header' ? parameter.name : [],
      );
    expect(headersOf('put').sort()).toEqual(['Fence-Token', 'If-Match', 'If-None-Match', 'Write-Id']);
    expect(headersOf('get')).toEqual(['If-None-Match']);
    const common = ['400', '401', '403', '429', '500', '503', 'default'];
    expect(Object.keys(path.get.responses).sort()).toEqual(['200', '304', '404', ...common].sort());
    const put = ['200', '201', '409', '412', '413', '415', '428', ...common];
    expect(Object.keys(path.put.responses).sort()).toEqual(put.sort());
  });
});
