import { describe, expect, it } from 'vitest';
import { openApiDocument } from '../../../src/http/openapi.ts';

// biome-ignore lint/suspicious/noExplicitAny: it is compared as the JSON that callers read.
type Json = any;

let version = 0;
/** The document is built once for a version. Each test asks for another one, so that it is built again. */
const documentOf = (): Json => openApiDocument(`1.0.${++version}`);

const problem = (codes: string[], titles: Record<string, { title: string }>) => ({
  description: codes.map((code) => `\`${code}\`: ${titles[code]?.title}.`).join(' '),
  'x-codes': codes,
  headers: expect.objectContaining({ 'x-request-id': { $ref: '#/components/headers/RequestId' } }),
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
});

describe('the OpenAPI document', () => {
  it('names the service, its version and its license', () => {
    expect(openApiDocument('7.8.9')).toMatchObject({
      openapi: '3.1.0',
      info: { title: 'Holdfast', version: '7.8.9', license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    });
  });

  it('is built once for a version', () => {
    const document = documentOf();
    expect(openApiDocument(document.info.version)).toBe(document);
    expect(documentOf()).not.toBe(document);
  });

  it('describes a read with everything that it takes and answers', () => {
    const { paths, 'x-problem-codes': titles } = documentOf();
    const { get } = paths['/v1/{ns}/records/{key}'];
    expect(get).toMatchObject({ operationId: 'getRecord', summary: 'Reads a record', tags: ['records'] });
    expect(get['x-access']).toBe('inspect');
    expect(get.parameters).toEqual([
      {
        name: 'ns',
        in: 'path',
        required: true,
        description: expect.any(String),
        schema: expect.objectContaining({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }),
      },
      {
        name: 'key',
        in: 'path',
        required: true,
        description: expect.any(String),
        schema: expect.objectContaining({ pattern: expect.stringContaining('A-Z') }),
      },
      {
        name: 'If-None-Match',
        in: 'header',
        required: false,
        description: expect.any(String),
        schema: { type: 'string', pattern: expect.any(String) },
      },
    ]);
    expect(get).not.toHaveProperty('requestBody');
    expect(Object.keys(get.responses)).toEqual(
      expect.arrayContaining(['200', '304', '400', '401', '403', '404', '429', '500', '503', 'default']),
    );
    expect(get.responses[304]).toMatchObject({ description: 'The record still has a version of If-None-Match.' });
    expect(get.responses[304]).not.toHaveProperty('content');
    expect(get.responses[200]).toMatchObject({
      description: 'Success.',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Record' } } },
    });
    expect(get.responses[404]).toEqual(problem(['not-found'], titles));
    expect(get.responses.default).toEqual({
      description: 'A problem.',
      content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
    });
  });

  it('describes a write with its body, its refusals by status, and what a wrong body is answered', () => {
    const { paths, components, 'x-problem-codes': titles } = documentOf();
    const { post } = paths['/v1/{ns}/locks/{name}/acquire'];
    expect(post.requestBody).toEqual({
      required: true,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/AcquireLockRequest' } } },
    });
    const schema = components.schemas.AcquireLockRequest;
    expect(schema).toMatchObject({ type: 'object', additionalProperties: false });
    expect(schema).not.toHaveProperty('$schema');
    const conflicts = ['lock-held', 'wait-timeout', 'lease-lost', 'limit-mismatch', 'deadlock'];
    expect(post.responses[409]).toEqual(problem(conflicts, titles));
    expect(post.responses[429]).toEqual(problem(['queue-full', 'throttled'], titles));
    expect(post.responses[415]).toEqual(problem(['unsupported-media-type'], titles));
    expect(paths['/v1/{ns}/locks'].get.responses).not.toHaveProperty('415');
  });

  it('says which parameters of a query are required', () => {
    const { paths } = documentOf();
    const inQuery = (path: string): Json[] =>
      paths[path].get.parameters.filter((parameter: Json) => parameter.in === 'query');
    expect(inQuery('/v1/{ns}/locks/{name}/check')).toMatchObject([
      { name: 'fence', required: true, schema: { type: 'integer', minimum: 0 } },
    ]);
    expect(inQuery('/v1/{ns}/locks').map(({ name, required }) => [name, required])).toEqual([
      ['prefix', false],
      ['state', false],
      ['limit', false],
      ['cursor', false],
    ]);
  });

  it('has each method of a path, and the shape of problems', () => {
    const { paths, components } = documentOf();
    expect(Object.keys(paths['/v1/{ns}/records/{key}'])).toEqual(['get', 'put', 'delete']);
    expect(components.schemas.Problem).toMatchObject({ type: 'object', properties: { code: { type: 'string' } } });
  });

  it('says where the service is, who may call it, and what to call next', () => {
    const { servers, security, components, paths } = documentOf();
    expect(servers).toMatchObject([{ url: 'http://127.0.0.1:4100' }, { url: expect.stringContaining('execute-api') }]);
    expect(security).toEqual([{ sigv4: [] }, { bearer: [] }, {}]);
    expect(Object.keys(components.securitySchemes)).toEqual(['sigv4', 'bearer']);
    const { 200: granted, 202: waiting } = paths['/v1/{ns}/locks/{name}/acquire'].post.responses;
    expect(granted.links.releaseLock).toEqual({
      operationId: 'releaseLock',
      parameters: { ns: '$request.path.ns', name: '$request.path.name' },
      requestBody: { leaseId: '$response.body#/leaseId' },
    });
    expect(waiting.headers).toHaveProperty('Retry-After');
    expect(paths['/v1/{ns}/sessions'].post.responses[201].links.endSession).toEqual({
      operationId: 'endSession',
      parameters: { ns: '$request.path.ns', id: '$response.body#/sessionId' },
    });
    expect(paths['/v1/{ns}/records/{key}'].put.responses[201].headers).toHaveProperty('ETag');
  });
});

/** What generators of clients in other languages fail on, or turn into wrong code. */
describe('the OpenAPI document for generators', () => {
  /** Every schema in the document, at any depth, with its path. */
  function* schemasIn(value: Json, path = ''): Generator<[string, Json]> {
    if (typeof value !== 'object' || value === null) return;
    if ('type' in value || 'oneOf' in value || 'anyOf' in value) yield [path, value];
    for (const [key, inner] of Object.entries(value)) yield* schemasIn(inner, `${path}/${key}`);
  }
  const every = () => [...schemasIn(documentOf())];

  it('says of each integer how many bits it needs, so that a fence fits', () => {
    const integers = every().filter(([, { type }]) => [type].flat().includes('integer'));
    expect(integers.length).toBeGreaterThan(20);
    for (const [path, { format, maximum, pattern }] of integers) {
      expect(format, path).toBe(maximum !== undefined && maximum < 2 ** 31 ? 'int32' : 'int64');
      expect(pattern, path).toBeUndefined();
    }
    const { components } = documentOf();
    expect(components.schemas.Grant.properties.fence).toMatchObject({ format: 'int64' });
  });

  it('has no default that a client would send and the service refuse', () => {
    const { AcquireLockRequest, AcquireLocksRequest } = documentOf().components.schemas;
    for (const { properties } of [AcquireLockRequest, AcquireLocksRequest]) {
      expect(properties.leaseMs).not.toHaveProperty('default');
      expect(properties.leaseMs.description).toContain('30000');
    }
  });

  it('requires every body', () => {
    const bodies = Object.values<Json>(documentOf().paths)
      .flatMap((methods) => Object.values<Json>(methods))
      .flatMap(({ requestBody }) => requestBody ?? []);
    expect(bodies.length).toBeGreaterThan(10);
    for (const body of bodies) expect(body.required).toBe(true);
  });

  it('uses no keyword that they do not know', () => {
    for (const [path, schema] of every())
      for (const word of ['const', 'not']) expect(schema, path).not.toHaveProperty(word);
  });

  it('does not describe a header that must not be sent', () => {
    const { delete: deletion, put } = documentOf().paths['/v1/{ns}/records/{key}'];
    const named = ({ parameters }: Json): string[] => parameters.map(({ name }: Json) => name);
    expect(named(deletion)).not.toContain('If-None-Match');
    expect(put.parameters.find(({ name }: Json) => name === 'If-None-Match').schema).toEqual({
      type: 'string',
      enum: ['*'],
    });
  });

  it('tells the ways of notifying apart by their type', () => {
    const { schemas } = documentOf().components;
    const { oneOf, discriminator } = schemas.AcquireLockRequest.properties.notify;
    expect(oneOf).toHaveLength(4);
    expect(discriminator.propertyName).toBe('type');
    for (const [type, ref] of Object.entries<string>(discriminator.mapping)) {
      expect(schemas[ref.split('/').at(-1) ?? ''].properties.type.enum).toEqual([type]);
    }
  });

  it('allows new fields in answers, and none in requests', () => {
    const { schemas } = documentOf().components;
    expect(schemas.Grant).not.toHaveProperty('additionalProperties');
    expect(schemas.RenewLocksRequest).toMatchObject({
      additionalProperties: false,
      properties: { locks: { uniqueItems: true, minItems: 1 } },
    });
  });
});
