import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readHeaders, requestOfNode } from '../../../src/http/node-http.ts';

interface Given {
  method?: string;
  headers?: string[];
  body?: Buffer | string;
}

const gone = new AbortController().signal;

const convert = (target: string, given: Given = {}) =>
  requestOfNode({
    id: 'QQCtFipSIAMEPNQ=',
    method: given.method ?? 'GET',
    target,
    headers: readHeaders(given.headers ?? ['Host', 'localhost']),
    body: given.body === undefined ? undefined : Buffer.from(given.body),
    gone: () => gone,
  });

describe('requestOfNode', () => {
  it('makes the request that operations see', () => {
    const request = convert('/v1/orders/locks/order-17/acquire?trace=1', {
      method: 'POST',
      headers: ['Host', 'localhost:4600', 'User-Agent', 'curl/8.2.1', 'Content-Type', 'application/json'],
      body: '{"leaseMs":1000}',
    });
    expect({ ...request, headers: { ...request.headers }, query: { ...request.query } }).toEqual({
      id: 'QQCtFipSIAMEPNQ=',
      operation: 'acquireLock',
      method: 'POST',
      path: '/v1/orders/locks/order-17/acquire',
      parameters: { ns: 'orders', name: 'order-17' },
      query: { trace: '1' },
      headers: { host: 'localhost:4600', 'user-agent': 'curl/8.2.1', 'content-type': 'application/json' },
      body: '{"leaseMs":1000}',
      caller: 'anonymous',
      signal: gone,
    });
  });

  it.each([
    ['a path without parameters', 'GET', '/v1/health', 'health', {}],
    ['a parameter', 'GET', '/v1/a/locks', 'listLocks', { ns: 'a' }],
    ['two parameters', 'GET', '/v1/a/locks/b', 'inspectLock', { ns: 'a', name: 'b' }],
    ['a literal where others have a parameter', 'POST', '/v1/a/multi-locks/acquire', 'acquireLocks', { ns: 'a' }],
    [
      'a name that is a word of the contract',
      'GET',
      '/v1/locks/locks/acquire',
      'inspectLock',
      { ns: 'locks', name: 'acquire' },
    ],
    ['an unknown path', 'GET', '/v2', undefined, {}],
    ['the root', 'GET', '/', undefined, {}],
    ['a wrong method', 'DELETE', '/v1/a/locks', undefined, {}],
    ['a HEAD, which is no GET', 'HEAD', '/v1/health', undefined, {}],
    ['a trailing slash', 'GET', '/v1/a/locks/', undefined, {}],
    ['an empty parameter', 'GET', '/v1//locks', undefined, {}],
    ['the asterisk of OPTIONS', 'OPTIONS', '*', undefined, {}],
  ])('names the operation of %s', (_title, method, target, operation, parameters) => {
    const request = convert(target, { method });
    expect(request.operation).toBe(operation);
    expect(request.parameters).toEqual(parameters);
  });

  it.each([
    ['an escaped space', '/v1/a/locks/x%20y', '/v1/a/locks/x y', 'x y'],
    ['escaped UTF-8', '/v1/a/locks/%C3%BCber%F0%9F%94%92', '/v1/a/locks/über🔒', 'über🔒'],
    ['a percent sign, once only', '/v1/a/locks/x%2520y', '/v1/a/locks/x%20y', 'x%20y'],
    ['a plus, which is no space in a path', '/v1/a/locks/x+y', '/v1/a/locks/x+y', 'x+y'],
    ['an escaped question mark', '/v1/a/locks/x%3Fy', '/v1/a/locks/x?y', 'x?y'],
    ['a broken escape, as it came', '/v1/a/locks/x%zz', '/v1/a/locks/x%zz', 'x%zz'],
    ['a broken UTF-8 sequence, as it came', '/v1/a/locks/x%C3', '/v1/a/locks/x%C3', 'x%C3'],
  ])('decodes the path and its parameters: %s', (_title, target, path, name) => {
    const request = convert(target);
    expect(request.path).toBe(path);
    expect(request.parameters.name).toBe(name);
  });

  it('splits segments at an escaped slash too, because an HTTP API decodes before it routes', () => {
    expect(convert('/v1/a/locks/x%2Fy')).toMatchObject({ operation: undefined, path: '/v1/a/locks/x/y' });
  });

  it.each([
    ['http://localhost:4600/v1/health?a=1', '/v1/health', { a: '1' }],
    ['http://localhost:4600', '/', {}],
    ['http://localhost?a=1', '/', { a: '1' }],
  ])('takes the path out of the absolute form %s', (target, path, query) => {
    const request = convert(target);
    expect([request.path, { ...request.query }]).toEqual([path, query]);
  });

  it.each([
    ['repeated values', 'a=1&b=2&a=3', { a: '1,3', b: '2' }],
    ['escapes and pluses', 'a=x%20y+z&%C3%BC=%F0%9F%94%92', { a: 'x y z', ü: '🔒' }],
    ['names without a value', 'a&b=', { a: '', b: '' }],
    ['a broken escape', 'a=%zz', { a: '%zz' }],
    ['names that objects have by themselves', 'constructor=1&constructor=2', { constructor: '1,2' }],
  ])('reads the query: %s', (_title, query, parameters) => {
    expect({ ...convert(`/v1/health?${query}`).query }).toEqual(parameters);
  });

  it('lower-cases header names and joins repeated ones by a comma', () => {
    const { headers } = convert('/v1/health', { headers: ['X-A', '1', 'x-a', '2', 'Constructor', 'c'] });
    expect({ ...headers }).toEqual({ 'x-a': '1,2', constructor: 'c' });
  });

  it('has no body if the body is empty', () => {
    expect(convert('/', { method: 'POST', body: '' }).body).toBeUndefined();
  });

  it('gives back any name that a client escapes, unless it has a slash', () => {
    const names = fc.string({ unit: 'grapheme', minLength: 1 }).filter((name) => !name.includes('/'));
    fc.assert(
      fc.property(names, names, (ns, name) => {
        const request = convert(`/v1/${encodeURIComponent(ns)}/locks/${encodeURIComponent(name)}`);
        expect(request.parameters).toEqual({ ns, name });
      }),
    );
  });
});
