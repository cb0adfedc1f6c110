import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { routes } from '../../src/contract/operations.ts';
import { problemTypes } from '../../src/contract/problems.ts';
import { handlers } from '../../src/http/operations.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { multiLimits } from '../../src/multi/plan.ts';
import { sessionLimits } from '../../src/session/state.ts';
import { startService, type TestService } from '../support/service.ts';

interface Schema {
  readonly [key: string]: unknown;
  readonly properties?: Record<string, Schema>;
  readonly items?: Schema;
}
interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: Schema;
}
interface Described {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: Record<string, { readonly schema: Schema }> };
  readonly responses: Record<string, { readonly description: string; readonly content?: Record<string, unknown> }>;
}
interface Document {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly paths: Record<string, Record<string, Described>>;
  readonly 'x-problem-codes': Record<string, { readonly status: number }>;
}

let service: TestService;
let document: Document;
let described: Map<string, Described>;
beforeAll(async () => {
  service = await startService();
  const answer = await service.call('GET', '/v1/openapi.json');
  expect(answer.status).toBe(200);
  document = answer.body;
  described = new Map(
    Object.values(document.paths)
      .flatMap((methods) => Object.values(methods))
      .map((operation) => [operation.operationId, operation]),
  );
});
afterAll(() => service.stop());

const operationOf = (id: string): Described => {
  const found = described.get(id);
  if (found === undefined) throw new Error(`${id} is not described.`);
  return found;
};
/** With every reference replaced by what it refers to. */
function inlined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inlined);
  if (typeof value !== 'object' || value === null) return value;
  if ('$ref' in value) return inlined(resolve(String(value.$ref)));
  const { discriminator: _, ...schema } = value as Record<string, unknown>;
  return Object.fromEntries(Object.entries(schema).map(([key, inner]) => [key, inlined(inner)]));
}

const bodyOf = (id: string): Schema =>
  inlined(operationOf(id).requestBody?.content['application/json']?.schema ?? {}) as Schema;

/** Every value in the document under a key, at any depth. */
function valuesOf(value: unknown, key: string): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [...(name === key ? [inner] : []), ...valuesOf(inner, key)]);
}

function resolve(pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((at, part) => (at as Record<string, unknown> | undefined)?.[part], document);
}

describe('the OpenAPI document', () => {
  it('is OpenAPI 3.1 and names the service and its version', async () => {
    expect(document.openapi).toMatch(/^3\.1\.\d+$/);
    const { body } = await service.call('GET', '/v1/health');
    expect(document.info).toMatchObject({ title: 'Holdfast', version: body.version });
  });

  it('describes exactly the routes, which are exactly the operations', () => {
    const inDocument = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => `${method.toUpperCase()} ${path} ${operationId}`),
    );
    const inTable = routes.map(({ method, path, operation }) => `${method} ${path} ${operation}`);
    expect(inDocument.sort()).toEqual(inTable.sort());
    expect(Object.keys(handlers).sort()).toEqual(routes.map(({ operation }) => operation).sort());
  });

  it('names each operation once, with a summary', () => {
    expect(described.size).toBe(routes.length);
    for (const { summary } of described.values()) expect(summary.length).toBeGreaterThan(10);
  });

  it('describes exactly the parameters of each path', () => {
    for (const [path, methods] of Object.entries(document.paths)) {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      for (const { parameters } of Object.values(methods)) {
        const described = parameters.filter((parameter) => parameter.in === 'path');
        expect(described.map(({ name }) => name)).toEqual(inPath);
        expect(described.every(({ required }) => required)).toBe(true);
        const named = parameters.map(({ name, in: where }) => `${where} ${name.toLowerCase()}`);
        expect(new Set(named).size).toBe(named.length);
      }
    }
  });

  it('has no reference without a target', () => {
    const references = valuesOf(document, '$ref') as string[];
    expect(references.length).toBeGreaterThan(0);
    for (const reference of references) {
      expect(reference).toMatch(/^#\//);
      expect(resolve(reference), reference).toBeDefined();
    }
  });

  it('has an answer of success and one for problems for each operation', () => {
    for (const [id, { responses }] of described) {
      const statuses = Object.keys(responses);
      expect(statuses, id).toContain('default');
      expect(
        statuses.some((status) => /^2\d\d$/.test(status)),
        id,
      ).toBe(true);
      for (const { description } of Object.values(responses)) expect(description).toMatch(/.+/);
    }
  });

  it('publishes every code that a problem can have, with its status', () => {
    expect(document['x-problem-codes']).toEqual(problemTypes);
  });
});

describe('a request body as published', () => {
  const leaseId = 'a-lease-of-mine-0001';

  it.each([
    ['acquireLock', {}],
    [
      'acquireLock',
      { leaseMs: 1_000, waitMs: 900_000, leaseId, owner: 'me', limit: 3, permits: 2, tier: 'efficiency' },
    ],
    ['acquireLock', { mode: 'shared', metadata: { job: 'nightly' }, lockDelayMs: 60_000 }],
    ['acquireLock', { waitMs: 86_400_000, notify: { type: 'event', ref: 'mine' } }],
    ['renewLock', { leaseId, leaseMs: 1_000 }],
    ['releaseLock', { leaseId }],
    ['revokeLock', { fence: 7, reason: 'stuck' }],
    ['acquireLocks', { locks: ['a', { name: 'b', limit: 3, permits: 2 }], leaseId }],
    ['releaseLocks', { locks: ['a'], leaseId }],
    ['createSession', { ttlMs: 1_000, owner: 'me' }],
    ['putRecord', { value: { any: ['json'] } }],
  ])('of %s takes %o', (id, example) => {
    expect(z.fromJSONSchema(bodyOf(id)).safeParse(example)).toMatchObject({ success: true });
  });

  it.each([
    ['acquireLock', { leaseMs: 999 }],
    ['acquireLock', { leaseMs: '1000' }],
    ['acquireLock', { leaseId: 'short' }],
    ['acquireLock', { nonsense: 1 }],
    ['acquireLock', { waitMs: 5, notify: { type: 'pigeon' } }],
    ['releaseLock', {}],
    ['revokeLock', { fence: 0, reason: 'stuck' }],
    ['acquireLocks', { locks: [], leaseId }],
    ['createSession', { ttlMs: 3_600_001 }],
  ])('of %s refuses %o', (id, example) => {
    expect(z.fromJSONSchema(bodyOf(id)).safeParse(example).success).toBe(false);
  });

  it('has exactly the limits of the rules', () => {
    const { properties: acquire = {} } = bodyOf('acquireLock');
    expect(acquire).toMatchObject({
      leaseMs: { minimum: lockLimits.leaseMsMin, maximum: lockLimits.leaseMsMax },
      waitMs: { minimum: 0, maximum: lockLimits.parkedWaitMsMax, default: 0 },
      leaseId: { pattern: expect.stringContaining('{16,128}') },
      owner: { minLength: 1, maxLength: lockLimits.ownerLengthMax },
      limit: { minimum: 1, maximum: lockLimits.limitMax },
      permits: { minimum: 1, maximum: lockLimits.limitMax },
      lockDelayMs: { minimum: 0, maximum: lockLimits.lockDelayMsMax, default: 0 },
      tier: { enum: ['correctness', 'efficiency'], default: 'correctness' },
      mode: { enum: ['exclusive', 'shared'] },
    });
    expect(bodyOf('revokeLock').properties).toMatchObject({ reason: { maxLength: lockLimits.reasonLengthMax } });
    expect(bodyOf('createSession').properties).toMatchObject({
      ttlMs: { minimum: sessionLimits.ttlMsMin, maximum: sessionLimits.ttlMsMax, default: sessionLimits.ttlMsDefault },
    });
    expect(bodyOf('acquireLocks').properties).toMatchObject({
      locks: { minItems: 1, maxItems: multiLimits.locksMax },
      waitMs: { maximum: lockLimits.waitMsMax },
    });
  });

  it('allows no unknown field, and says what each field means', () => {
    for (const [id, operation] of described) {
      const body = operation.requestBody === undefined ? undefined : bodyOf(id);
      if (body === undefined) continue;
      expect(body.additionalProperties, id).toBe(false);
    }
    const { properties: acquire = {} } = bodyOf('acquireLock');
    for (const field of ['leaseMs', 'waitMs', 'leaseId', 'owner', 'limit', 'permits', 'mode', 'sessionId', 'notify'])
      expect(acquire[field]?.description, field).toMatch(/.+/);
  });

  it('is described for every operation that reads one, and for no other', () => {
    for (const { method, operation } of routes) {
      const reads = method === 'POST' || method === 'PUT';
      expect(operationOf(operation).requestBody !== undefined, operation).toBe(reads);
    }
  });
});
