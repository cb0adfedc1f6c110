import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type HttpRequest, readHeaders, toHttpEvent } from '../../../src/local/http-event.ts';
import { compileRoutes } from '../../../src/local/route-table.ts';
import { epochMs } from '../../../src/time/clock.ts';

const routes = compileRoutes([
  { method: 'GET', path: '/v1/health' },
  { method: 'GET', path: '/v1/{ns}/locks' },
  { method: 'GET', path: '/v1/{ns}/locks/{name}' },
  { method: 'POST', path: '/v1/{ns}/locks/{name}/acquire' },
  { method: 'POST', path: '/v1/{ns}/multi-locks/acquire' },
]);

interface Given {
  method?: string;
  headers?: string[];
  body?: Buffer | string;
}

function convert(target: string, given: Given = {}) {
  const request: HttpRequest = {
    method: given.method ?? 'GET',
    target,
    httpVersion: '1.1',
    sourceIp: '127.0.0.1',
    headers: readHeaders(given.headers ?? ['Host', 'localhost']),
    body: given.body === undefined ? undefined : Buffer.from(given.body),
  };
  return toHttpEvent(request, routes, 'QQCtFipSIAMEPNQ=', epochMs(Date.UTC(2022, 3, 8, 7, 31, 5, 999)));
}

describe('toHttpEvent', () => {
  it('makes the event that an HTTP API makes of a JSON request', () => {
    const event = convert('/v1/orders/locks/order-17/acquire?trace=1', {
      method: 'POST',
      headers: ['Host', 'localhost:4600', 'User-Agent', 'curl/8.2.1', 'Content-Type', 'application/json'],
      body: '{"leaseMs":1000}',
    });
    expect(event).toEqual({
      version: '2.0',
      routeKey: 'POST /v1/{ns}/locks/{name}/acquire',
      rawPath: '/v1/orders/locks/order-17/acquire',
      rawQueryString: 'trace=1',
      headers: {
        host: 'localhost:4600',
        'user-agent': 'curl/8.2.1',
        'content-type': 'application/json',
        'content-length': '16',
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-proto': 'http',
      },
      queryStringParameters: { trace: '1' },
      requestContext: {
        accountId: 'anonymous',
        apiId: 'local',
        domainName: 'localhost',
        domainPrefix: 'localhost',
        http: {
          method: 'POST',
          path: '/v1/orders/locks/order-17/acquire',
          protocol: 'HTTP/1.1',
          sourceIp: '127.0.0.1',
          userAgent: 'curl/8.2.1',
        },
        requestId: 'QQCtFipSIAMEPNQ=',
        routeKey: 'POST /v1/{ns}/locks/{name}/acquire',
        stage: '$default',
        time: '08/Apr/2022:07:31:05 +0000',
        timeEpoch: 1649403065999,
      },
      pathParameters: { ns: 'orders', name: 'order-17' },
      body: '{"leaseMs":1000}',
      isBase64Encoded: false,
    });
  });

  it('leaves out what the request does not have', () => {
    const event = convert('/v1/health');
    for (const absent of ['body', 'cookies', 'pathParameters', 'queryStringParameters', 'stageVariables']) {
      expect(event).not.toHaveProperty(absent);
    }
    expect(event.rawQueryString).toBe('');
    expect(event.requestContext.http.userAgent).toBe('');
  });

  it.each([
    ['a route without parameters', 'GET', '/v1/health', 'GET /v1/health', undefined],
    ['a parameter', 'GET', '/v1/a/locks', 'GET /v1/{ns}/locks', { ns: 'a' }],
    [
      'a literal before a parameter',
      'POST',
      '/v1/a/multi-locks/acquire',
      'POST /v1/{ns}/multi-locks/acquire',
      { ns: 'a' },
    ],
    ['an unknown path', 'GET', '/v2', '$default', undefined],
    ['the root', 'GET', '/', '$default', undefined],
    ['a wrong method', 'DELETE', '/v1/a/locks', '$default', undefined],
    ['a HEAD, which is no GET', 'HEAD', '/v1/health', '$default', undefined],
    ['a trailing slash', 'GET', '/v1/a/locks/', '$default', undefined],
    ['an empty parameter', 'GET', '/v1//locks', '$default', undefined],
    ['the asterisk of OPTIONS', 'OPTIONS', '*', '$default', undefined],
  ])('names the route of %s', (_title, method, target, routeKey, pathParameters) => {
    const event = convert(target, { method });
    expect([event.routeKey, event.requestContext.routeKey]).toEqual([routeKey, routeKey]);
    expect(event.pathParameters).toEqual(pathParameters);
  });

  it.each([
    ['an escaped space', '/v1/a/locks/x%20y', '/v1/a/locks/x y', 'x y'],
    ['escaped UTF-8', '/v1/a/locks/%C3%BCber%F0%9F%94%92', '/v1/a/locks/über🔒', 'über🔒'],
    ['a percent sign, once only', '/v1/a/locks/x%2520y', '/v1/a/locks/x%20y', 'x%20y'],
    ['a plus, which is no space in a path', '/v1/a/locks/x+y', '/v1/a/locks/x+y', 'x+y'],
    ['an escaped question mark', '/v1/a/locks/x%3Fy', '/v1/a/locks/x?y', 'x?y'],
    ['a broken escape, as it came', '/v1/a/locks/x%zz', '/v1/a/locks/x%zz', 'x%zz'],
    ['a broken UTF-8 sequence, as it came', '/v1/a/locks/x%C3', '/v1/a/locks/x%C3', 'x%C3'],
  ])('decodes the path and its parameters: %s', (_title, target, rawPath, name) => {
    const event = convert(target);
    expect(event.rawPath).toBe(rawPath);
    expect(event.requestContext.http.path).toBe(rawPath);
    expect(event.pathParameters?.name).toBe(name);
  });

  it('parts segments at an escaped slash too, because an HTTP API decodes before it routes', () => {
    expect(convert('/v1/a/locks/x%2Fy')).toMatchObject({ routeKey: '$default', rawPath: '/v1/a/locks/x/y' });
  });

  it.each([
    ['http://localhost:4600/v1/health?a=1', '/v1/health', 'a=1'],
    ['http://localhost:4600', '/', ''],
    ['http://localhost?a=1', '/', 'a=1'],
  ])('takes the path out of the absolute form %s', (target, rawPath, rawQueryString) => {
    expect(convert(target)).toMatchObject({ rawPath, rawQueryString });
  });

  it.each([
    ['repeated values', 'a=1&b=2&a=3', { a: '1,3', b: '2' }],
    ['escapes and pluses', 'a=x%20y+z&%C3%BC=%F0%9F%94%92', { a: 'x y z', ü: '🔒' }],
    ['names without a value', 'a&b=', { a: '', b: '' }],
    ['a broken escape', 'a=%zz', { a: '%zz' }],
    ['names that objects have by themselves', 'constructor=1&constructor=2', { constructor: '1,2' }],
  ])('reads the query: %s', (_title, query, parameters) => {
    const event = convert(`/v1/health?${query}`);
    expect(event.rawQueryString).toBe(query);
    expect({ ...event.queryStringParameters }).toEqual(parameters);
  });

  it('lower-cases header names, joins repeated ones by a comma and drops those of the connection', () => {
    const { headers } = convert('/v1/health', {
      headers: ['X-A', '1', 'x-a', '2', 'Constructor', 'c', 'Connection', 'keep-alive', 'Transfer-Encoding', 'chunked'],
    });
    expect({ ...headers }).toEqual({
      'x-a': '1,2',
      constructor: 'c',
      'content-length': '0',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'http',
    });
  });

  it('appends the sender to the proxies that already handed the request on', () => {
    const { headers } = convert('/', { headers: ['X-Forwarded-For', '10.0.0.9'] });
    expect(headers['x-forwarded-for']).toBe('10.0.0.9, 127.0.0.1');
  });

  it('moves cookies out of the headers', () => {
    const event = convert('/', { headers: ['Cookie', 'a=1; b=2;', 'cookie', 'c=3'] });
    expect(event.cookies).toEqual(['a=1', 'b=2', 'c=3']);
    expect(event.headers).not.toHaveProperty('cookie');
  });

  it.each([
    ['application/json', false],
    ['Application/JSON; charset=utf-8', false],
    ['text/plain', false],
    ['text/html;charset=utf-8', false],
    ['application/xml', false],
    ['application/javascript', false],
    ['application/problem+json', true],
    ['application/jsonl', true],
    ['application/x-www-form-urlencoded', true],
    ['application/octet-stream', true],
    ['image/png', true],
    [undefined, true],
  ])('passes a body of type %s as base64: %s', (contentType, isBase64Encoded) => {
    const headers = contentType === undefined ? [] : ['content-type', contentType];
    const event = convert('/', { method: 'POST', headers, body: 'grüße 🔒' });
    expect(event.isBase64Encoded).toBe(isBase64Encoded);
    expect(Buffer.from(event.body ?? '', isBase64Encoded ? 'base64' : 'utf8').toString()).toBe('grüße 🔒');
    expect(event.headers['content-length']).toBe('12');
  });

  it('has no body where the body is empty', () => {
    const event = convert('/', { method: 'POST', headers: ['content-type', 'image/png'], body: '' });
    expect(event).not.toHaveProperty('body');
    expect(event.isBase64Encoded).toBe(false);
  });

  it('gives back any name that a client escapes, unless it has a slash', () => {
    const names = fc.string({ unit: 'grapheme', minLength: 1 }).filter((name) => !name.includes('/'));
    fc.assert(
      fc.property(names, names, (ns, name) => {
        const event = convert(`/v1/${encodeURIComponent(ns)}/locks/${encodeURIComponent(name)}`);
        expect(event.pathParameters).toEqual({ ns, name });
      }),
    );
  });

  it('gives back any bytes of a binary body', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1 }), (bytes) => {
        const event = convert('/', { method: 'POST', body: Buffer.from(bytes) });
        expect(Buffer.from(event.body ?? '', 'base64')).toEqual(Buffer.from(bytes));
      }),
    );
  });
});

describe('compileRoutes', () => {
  it('tries a parameter where the literal leads nowhere', () => {
    const table = compileRoutes([
      { method: 'GET', path: '/a/b' },
      { method: 'GET', path: '/{x}/c' },
    ]);
    expect(table.match('GET', '/a/c')).toEqual({ routeKey: 'GET /{x}/c', pathParameters: { x: 'a' } });
  });

  it('refuses a greedy parameter rather than never matching it', () => {
    expect(() => compileRoutes([{ method: 'GET', path: '/{proxy+}' }])).toThrow('/{proxy+}');
  });
});
