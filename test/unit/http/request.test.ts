import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { readCursor, writeCursor } from '../../../src/http/cursor.ts';
import { Problem, problemTypes, toProblem } from '../../../src/http/problems.ts';
import { Request } from '../../../src/http/request.ts';
import { methodsAt, operationOf } from '../../../src/http/router.ts';
import { routes } from '../../../src/http/routes.ts';
import { validate } from '../../../src/http/validation.ts';

const requestOf = (event: object) =>
  new Request({ headers: {}, requestContext: {}, ...event } as APIGatewayProxyEventV2);

function problemOf(run: () => unknown): Problem {
  try {
    run();
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error('A problem was expected.');
}

describe('the caller of a request', () => {
  const callerOf = (authorizer: object | undefined) => requestOf({ requestContext: { authorizer } }).caller;

  it('is the subject of its token, or the ARN that IAM vouches for', () => {
    expect(callerOf({ jwt: { claims: { sub: 'user-7' } } })).toBe('user-7');
    expect(callerOf({ iam: { userArn: 'arn:aws:iam::1:user/seven' } })).toBe('arn:aws:iam::1:user/seven');
  });

  it('is anonymous where nobody vouches for it', () => {
    expect(callerOf(undefined)).toBe('anonymous');
    expect(callerOf({ jwt: { claims: { sub: '' } } })).toBe('anonymous');
  });

  it('fits where an owner fits, by its end, which is what tells two roles apart', () => {
    const arn = `arn:aws:sts::1:assumed-role/${'x'.repeat(200)}/worker-7`;
    expect(callerOf({ iam: { userArn: arn } })).toHaveLength(128);
    expect(callerOf({ iam: { userArn: arn } })).toMatch(/worker-7$/);
  });
});

describe('the body of a request', () => {
  const body = z.strictObject({ note: z.string().optional() });
  const json = { 'content-type': 'application/json' };

  it('is read from base64 as API Gateway may send it', () => {
    const encoded = Buffer.from('{"note":"é"}').toString('base64');
    expect(requestOf({ body: encoded, isBase64Encoded: true, headers: json }).body(body)).toEqual({ note: 'é' });
  });

  it('is measured in bytes, not in characters', () => {
    const text = JSON.stringify({ note: 'é'.repeat(40_000) });
    expect(text.length).toBeLessThan(64 * 1024);
    expect(problemOf(() => requestOf({ body: text, headers: json }).body(body)).code).toBe('too-large');
  });

  it('is empty where there is none, whatever its type', () => {
    expect(requestOf({}).body(body)).toEqual({});
  });

  it('is not quoted where it is not JSON: it may hold a lease', () => {
    const text = "{leaseId:'a-secret-lease'}";
    expect(problemOf(() => requestOf({ body: text, headers: json }).body(body)).message).not.toContain('secret');
    const open = '["a-secret-lease",]';
    expect(problemOf(() => requestOf({ body: open, headers: json }).body(body)).message).not.toContain('secret');
  });
});

describe('validate', () => {
  const schema = z.strictObject({
    count: z.int({ error: 'must be an integer' }),
    leaseId: z.string().min(40, 'must be longer').optional(),
    nested: z.strictObject({ token: z.string().min(40, 'must be longer') }).optional(),
  });
  const errorsOf = (input: unknown) => problemOf(() => validate(schema, input, 'body')).fields.errors;

  it('names each field with what it must be and what came', () => {
    expect(errorsOf({ count: 'one', other: 1 })).toEqual([
      { field: 'count', message: 'must be an integer, got "one"' },
      { field: 'other', message: 'is not a known field' },
    ]);
  });

  it('says that a field is required where it is missing', () => {
    expect(errorsOf({})).toEqual([{ field: 'count', message: 'is required: it must be an integer' }]);
  });

  it('shows no more of a secret than its length, however deep it lies', () => {
    expect(errorsOf({ count: 1, leaseId: 'secret', nested: { token: 'secret' } })).toEqual([
      { field: 'leaseId', message: 'must be longer, got a string of 6 characters' },
      { field: 'nested.token', message: 'must be longer, got a string of 6 characters' },
    ]);
  });

  it('cuts short what is long, names of fields included', () => {
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
    expect(readCursor(writeCursor(name))).toBe(name);
  });

  it('is refused where it leads to no name', () => {
    for (const cursor of ['', '***', writeCursor('not a name'), writeCursor('.')])
      expect(problemOf(() => readCursor(cursor)).code).toBe('invalid-request');
  });
});

describe('a route', () => {
  it('is found by the key that API Gateway names it by', () => {
    for (const { method, path, operation } of routes) expect(operationOf(`${method} ${path}`)).toBe(operation);
    expect(operationOf('$default')).toBeUndefined();
  });

  it('names the methods that its path takes', () => {
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

  it('keeps its cause for the log, and out of what is told', () => {
    const cause = new Error('inside');
    const problem = toProblem(cause);
    expect(problem.cause).toBe(cause);
    expect(JSON.stringify(problem)).not.toContain('inside');
  });
});
