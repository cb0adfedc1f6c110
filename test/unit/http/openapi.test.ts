import { describe, expect, it } from 'vitest';
import { openApiDocument } from '../../../src/http/openapi.ts';

// biome-ignore lint/suspicious/noExplicitAny: it is compared as the JSON that callers read.
type Json = any;

let version = 0;
/** The document is built once for a version. Each test asks for another one, so that it is built again. */
const documentOf = (): Json => openApiDocument(`1.0.${++version}`);

const problem = (codes: string[], titles: Record<string, { title: string }>) => ({
  description: codes.map((code) => `\`${code}\`: ${titles[code]?.title}.`).join(' '),
  content: {
    'application/problem+json': {
      schema: { allOf: [{ $ref: '#/components/schemas/Problem' }, { properties: { code: { enum: codes } } }] },
    },
  },
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
    expect(get).toMatchObject({ operationId: 'getRecord', summary: 'Reads a record. Its version is also in ETag.' });
    expect(get['x-access']).toBe('inspect');
    expect(get.parameters).toEqual([
      {
        name: 'ns',
        in: 'path',
        required: true,
        schema: expect.objectContaining({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }),
      },
      {
        name: 'key',
        in: 'path',
        required: true,
        schema: expect.objectContaining({ pattern: expect.stringContaining('A-Z') }),
      },
      { name: 'If-None-Match', in: 'header', required: false, schema: expect.objectContaining({ type: 'string' }) },
    ]);
    expect(get).not.toHaveProperty('requestBody');
    expect(Object.keys(get.responses)).toEqual(
      expect.arrayContaining(['200', '304', '400', '401', '403', '404', '429', '500', '503', 'default']),
    );
    expect(get.responses[304]).toEqual({ description: 'The record still has a version of If-None-Match.' });
    expect(get.responses[200]).toMatchObject({
      description: 'Success.',
      content: { 'application/json': { schema: { type: 'object', properties: { version: { type: 'integer' } } } } },
    });
    expect(get.responses[404]).toEqual(problem(['not-found'], titles));
    expect(get.responses.default).toEqual({
      description: 'A problem.',
      content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
    });
  });

  it('describes a write with its body, its refusals by status, and what a wrong body is answered', () => {
    const { paths, 'x-problem-codes': titles } = documentOf();
    const { post } = paths['/v1/{ns}/locks/{name}/acquire'];
    const { schema } = post.requestBody.content['application/json'];
    expect(schema).toMatchObject({ type: 'object', properties: { leaseMs: { default: 30_000 } } });
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
});
