import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { resourceName } from '../../../src/contract/fields.ts';
import { routes } from '../../../src/contract/operations.ts';
import { problemTypes } from '../../../src/contract/problems.ts';
import { operationOf } from '../../../src/http/api-gateway.ts';
import { Problem, toProblem } from '../../../src/http/problems.ts';
import { checkRequest, type Request, readCursor, validate, writeCursor } from '../../../src/http/request.ts';
import { matchPath } from '../../../src/http/router.ts';

const requestOf = (more: Partial<Request>): Request => ({
  id: 'request-7',
  operation: undefined,
  method: 'POST',
  path: '/',
  parameters: { ns: 'test', name: 'lock' },
  query: {},
  headers: { 'content-type': 'application/json' },
  body: undefined,
  caller: 'anonymous',
  ...more,
});

function problemOf(run: () => unknown): Problem {
  try {
    run();
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error('A problem was expected.');
}

describe('the body of a request', () => {
  const acquire = (more: Partial<Request>) => checkRequest('acquireLock', requestOf(more)).body;

  it('is measured in bytes, not in characters', () => {
    const body = JSON.stringify({ owner: 'é'.repeat(40_000) });
    expect(body.length).toBeLessThan(64 * 1024);
    expect(problemOf(() => acquire({ body })).code).toBe('too-large');
  });

  it('may have 64 KiB, and says how many bytes it has if it is larger', () => {
    const body = (bytes: number) => `{}${' '.repeat(bytes - 2)}`;
    expect(acquire({ body: body(64 * 1024) })).toBeDefined();
    expect(problemOf(() => acquire({ body: body(64 * 1024 + 1) })).message).toBe(
      'The body has 65537 bytes; 65536 are allowed.',
    );
  });

  it('counts as an empty object if it is missing or empty, whatever its type', () => {
    for (const body of [undefined, ''])
      expect(acquire({ body, headers: {} })).toMatchObject({ waitMs: 0, tier: 'correctness' });
  });

  it.each([
    [undefined, 'no content-type'],
    ['text/plain', 'text/plain'],
    ['text/application/json', 'text/application/json'],
    ['application/jsonx', 'application/jsonx'],
    ['x'.repeat(200), 'x'.repeat(100)],
  ])('of the type %s is refused, and the answer names the type', (type, shown) => {
    const headers = type === undefined ? {} : { 'content-type': type };
    expect(problemOf(() => acquire({ body: '{}', headers })).message).toBe(
      `The body must be application/json, but is ${shown}.`,
    );
  });

  it('may have a list or null in a field, and the answer says what it got', () => {
    const messageOf = (metadata: unknown) =>
      (problemOf(() => acquire({ body: JSON.stringify({ metadata }) })).fields.errors as { message: string }[])[0]
        ?.message;
    expect(messageOf([1, 2])).toBe('must be an object of strings without empty keys, got a list of 2');
    expect(messageOf(null)).toBe('must be an object of strings without empty keys, got null');
    expect(messageOf(7)).toBe('must be an object of strings without empty keys, got 7');
    expect(messageOf({ job: { deep: true } })).toBe('must be a string, got an object');
  });

  it('with a key that reaches a prototype is refused by the name of the key', () => {
    const problem = problemOf(() => acquire({ body: '{"metadata":{"__proto__":"x"}}' }));
    expect(problem.message).toBe('metadata.__proto__ is not a known field.');
    expect(problem.fields.errors).toEqual([{ field: 'metadata.__proto__', message: 'is not a known field' }]);
  });

  it('that is no object is refused as a whole', () => {
    expect(problemOf(() => acquire({ body: '7' })).fields.errors).toMatchObject([{ field: 'body' }]);
    expect(problemOf(() => acquire({ body: 'null' })).fields.errors).toMatchObject([{ field: 'body' }]);
  });

  it('must be JSON by its type', () => {
    expect(problemOf(() => acquire({ body: '{}', headers: { 'content-type': 'text/plain' } })).code).toBe(
      'unsupported-media-type',
    );
    expect(acquire({ body: '{}', headers: { 'content-type': 'Application/JSON; charset=utf-8' } })).toBeDefined();
  });

  it('is not quoted if it is not JSON: it may contain a lease', () => {
    for (const body of ["{leaseId:'a-secret-lease'}", '["a-secret-lease",]']) {
      expect(problemOf(() => acquire({ body })).message).toMatch(/^The body is not JSON: (?!.*secret)/);
    }
  });

  it('reaches an operation as unchanged text if the contract says so', () => {
    const body = '{"value": 1.0}';
    const request = requestOf({ parameters: { ns: 'test', key: 'a' }, body });
    expect(checkRequest('putRecord', request).body).toBe(body);
  });

  it('may be as large as the contract says for its operation', () => {
    const body = JSON.stringify({ value: 'x'.repeat(100_000) });
    expect(checkRequest('putRecord', requestOf({ parameters: { ns: 'test', key: 'a' }, body })).body).toBe(body);
  });
});

describe('the parameters of a request', () => {
  it('are names, and the namespace is one', () => {
    const refusal = (parameters: Record<string, string>) =>
      problemOf(() => checkRequest('inspectLock', requestOf({ parameters }))).fields.errors;
    expect(refusal({ ns: 'Not One', name: 'a' })).toMatchObject([{ field: 'ns' }]);
    expect(refusal({ ns: 'test', name: 'a/b' })).toMatchObject([{ field: 'name' }]);
    expect(refusal({ ns: 'test', name: 'a%2Fb' })).toMatchObject([{ field: 'name' }]);
    // A namespace allows less than other names.
    expect(refusal({ ns: 'Test', name: 'a' })).toMatchObject([{ field: 'ns' }]);
    expect(checkRequest('inspectLock', requestOf({ parameters: { ns: 'test', name: 'A:1' } })).parameters).toEqual({
      ns: 'test',
      name: 'A:1',
    });
  });
});

describe('the headers of a request', () => {
  it('may have spaces around their values, and are named if they are wrong', () => {
    const put = (header: string) =>
      checkRequest(
        'putRecord',
        requestOf({
          parameters: { ns: 'test', key: 'a' },
          headers: { 'content-type': 'application/json', 'fence-token': header },
        }),
      ).headers['Fence-Token'];
    expect(put(' 7 ')).toBe(7);
    expect(problemOf(() => put('seven')).fields.errors).toMatchObject([{ field: 'Fence-Token' }]);
  });
});

describe('the connection of a request', () => {
  it('is known to the operation', () => {
    const { signal } = new AbortController();
    expect(checkRequest('inspectLock', requestOf({ signal })).signal).toBe(signal);
  });
});

describe('validate', () => {
  const schema = z.strictObject({
    count: z.int({ error: 'must be an integer' }),
    leaseId: z.string().min(40, 'must be longer').optional(),
    nested: z.strictObject({ token: z.string().min(40, 'must be longer') }).optional(),
  });
  const errorsOf = (input: unknown) => problemOf(() => validate(schema, input, 'body')).fields.errors;

  it('names each field, what it must be and what it got', () => {
    expect(errorsOf({ count: 'one', other: 1 })).toEqual([
      { field: 'count', message: 'must be an integer, got "one"' },
      { field: 'other', message: 'is not a known field' },
    ]);
  });

  it('says that a field is required if it is missing', () => {
    expect(errorsOf({})).toEqual([{ field: 'count', message: 'is required: it must be an integer' }]);
  });

  it.each(['leaseId', 'sessionId', 'id', 'token', 'connectionId'])('never shows the value of %s', (field) => {
    const schema = z.object({ [field]: z.string().min(40, 'must be longer') });
    const problem = problemOf(() => validate(schema, { [field]: 'a-right-to-something' }, 'body'));
    expect(JSON.stringify(problem)).toContain(field);
    expect(JSON.stringify(problem)).not.toContain('a-right-to-something');
  });

  it('shows no more of a secret than its length, however deep it lies', () => {
    expect(errorsOf({ count: 1, leaseId: 'secret', nested: { token: 'secret' } })).toEqual([
      { field: 'leaseId', message: 'must be longer, got a string of 6 characters' },
      { field: 'nested.token', message: 'must be longer, got a string of 6 characters' },
    ]);
  });

  it('shows sixty characters, and marks what it has cut', () => {
    const shown = (length: number) =>
      (errorsOf({ count: 1, ['y'.repeat(length)]: 1 }) as { field: string }[])[0]?.field;
    expect(shown(60)).toBe('y'.repeat(60));
    expect(shown(61)).toBe(`${'y'.repeat(60)}…`);
  });

  it('cuts long values, names of fields included', () => {
    const [value, name] = errorsOf({ count: 'x'.repeat(1_000), ['y'.repeat(1_000)]: 1 }) as {
      field: string;
      message: string;
    }[];
    expect(value?.message.length).toBeLessThan(120);
    expect(name?.field.length).toBeLessThan(70);
  });
});

describe('a cursor', () => {
  it('is opaque, and leads back to the name that it was made of', () => {
    const name = 'Zz09._:@=+~-';
    expect(writeCursor(name)).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(readCursor(writeCursor(name), resourceName)).toBe(name);
  });

  it('is refused if it leads to no name', () => {
    for (const cursor of ['', '***', writeCursor('not a name'), writeCursor('.')])
      expect(problemOf(() => readCursor(cursor, resourceName))).toMatchObject({
        code: 'invalid-request',
        fields: { errors: [{ field: 'cursor' }] },
      });
  });
});

describe('a route', () => {
  it('is found by the key that API Gateway names it by', () => {
    for (const { method, path, operation } of routes) expect(operationOf(`${method} ${path}`)).toBe(operation);
    expect(operationOf('$default')).toBeUndefined();
  });

  it('names the methods that its path takes', () => {
    const methodsAt = (path: string) => [...(matchPath(path)?.operations.keys() ?? [])];
    expect(methodsAt('/v1/test/sessions/some-id')).toEqual(['GET', 'DELETE']);
    expect(methodsAt('/v1/test/locks/')).toEqual([]);
    expect(methodsAt('/v1/health/')).toEqual([]);
  });
});

describe('a problem', () => {
  it('has a status and a title for every code, as RFC 9457 wants it', () => {
    for (const code of Object.keys(problemTypes) as (keyof typeof problemTypes)[]) {
      const json = new Problem(code, 'It is so.', { more: 1 }).toJSON();
      expect(json).toMatchObject({ type: `urn:holdfast:problem:${code}`, detail: 'It is so.', code, more: 1 });
      expect(json.status).toBeGreaterThanOrEqual(400);
      expect(json.title).toMatch(/.+/);
    }
  });

  it('keeps its cause for the log, and hides it from the caller', () => {
    const cause = new Error('inside');
    const problem = toProblem(cause);
    expect(problem.cause).toBe(cause);
    expect(JSON.stringify(problem)).not.toContain('inside');
  });
});
