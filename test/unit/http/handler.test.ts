import { describe, expect, it } from 'vitest';
import { routes } from '../../../src/contract/operations.ts';
import { operationOf } from '../../../src/http/api-gateway.ts';
import { createHandler } from '../../../src/http/handler.ts';
import type { Request } from '../../../src/http/request.ts';
import { serviceOn } from '../../../src/process/wiring.ts';
import { StoreError } from '../../../src/table/store-error.ts';
import { memoryStores } from '../../support/memory-table.ts';

const leaseId = 'a-lease-nobody-sees-01';
const sessionId = 'session-nobody-sees-01';

interface Line {
  readonly level: string;
  readonly fields: Record<string, unknown>;
}

/** The handler on a service whose table and probe always behave as given, and its log. */
function handlerWith(probe: () => Promise<void>) {
  const lines: Line[] = [];
  const write =
    (level: string) =>
    (_message: string, fields: Record<string, unknown> = {}) => {
      lines.push({ level, fields });
    };
  const { access } = memoryStores({ before: probe });
  const { locks, ...rest } = serviceOn({ access, alone: true, engine: 'test' });
  const service = { ...rest, locks: { ...locks, newLeaseId: () => leaseId }, probe, version: '1.2.3' };
  const log = { info: write('info'), error: write('error') };
  const handle = createHandler(service, log);
  const request = (routeKey: string, more: Partial<Request> = {}): Request => {
    const [method, path] = routeKey.split(' ') as [string, string];
    return {
      id: 'request-7',
      operation: operationOf(routeKey),
      method,
      path,
      parameters: {},
      query: {},
      headers: { 'content-type': 'application/json' },
      body: undefined,
      caller: 'anonymous',
      ...more,
    };
  };
  const call = async (routeKey: string, more: Partial<Request> = {}) => {
    const { status, headers, body } = await handle(request(routeKey, more));
    return { status, headers, body: JSON.parse(body ?? 'null') };
  };
  return { call, lines, request, service, log };
}

const works = async () => {};
const failsWith = (error: Error) => () => Promise.reject(error);
const release = {
  parameters: { ns: 'test', name: 'lock' },
  body: JSON.stringify({ leaseId }),
};

describe('a token that is bound to namespaces', () => {
  const nameOf = (path: string) => ({
    ...(path.includes('{ns}') ? { ns: 'orders' } : {}),
    name: 'a',
    id: 'a',
    key: 'a',
  });

  it.each(routes.filter(({ path }) => path.includes('{ns}')))(
    'is refused on $method $path of another',
    async (route) => {
      const routeKey = `${route.method} ${route.path}`;
      const call = (namespaces: readonly string[]) =>
        handlerWith(works).call(routeKey, { parameters: nameOf(route.path), namespaces });
      for (const foreign of [[], ['jobs'], ['orders-2', 'order']]) {
        expect(await call(foreign)).toMatchObject({ status: 403, body: { code: 'forbidden' } });
      }
      for (const own of [['jobs', 'orders'], ['*']]) expect((await call(own)).status).not.toBe(403);
    },
  );

  it('may ask for health, which has no namespace', async () => {
    expect((await handlerWith(works).call('GET /v1/health', { namespaces: [] })).status).toBe(200);
  });
});

describe('a body', () => {
  it.each([
    ['{"metadata":{"__proto__":"x"}}', 'metadata.__proto__'],
    ['{"metadata":{"\\u005f_proto__":"x"}}', 'metadata.__proto__'],
    ['{"__proto__":{"leaseMs":5000}}', '__proto__'],
    ['{"notify":{"type":"event","ref":"r","__proto__":1}}', 'notify.__proto__'],
  ])('with a key that a copy would lose is refused: %s', async (body, field) => {
    const parameters = { ns: 'test', name: 'lock' };
    const answer = await handlerWith(works).call('POST /v1/{ns}/locks/{name}/acquire', { parameters, body });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid-request', errors: [{ field }] } });
  });

  it.each(['no spaces', '../other', 'a/b', 'a%2Fb', '', 'x'.repeat(129)])(
    'that parks on what is no connection id is refused: %j',
    async (connectionId) => {
      const parameters = { ns: 'test', name: 'lock' };
      const body = JSON.stringify({ waitMs: 1_000, notify: { type: 'websocket', connectionId } });
      const answer = await handlerWith(works).call('POST /v1/{ns}/locks/{name}/acquire', { parameters, body });
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ field: 'notify.connectionId' }] } });
    },
  );
});

describe('the handler', () => {
  it('answers health with its version and engine, under the id of the request', async () => {
    const answer = await handlerWith(works).call('GET /v1/health');
    expect(answer).toMatchObject({ status: 200, body: { status: 'ok', version: '1.2.3', engine: 'test' } });
    expect(answer.headers).toMatchObject({ 'x-request-id': 'request-7', 'cache-control': 'no-store' });
  });

  it('answers only after the deliveries of the request have settled, because Lambda stops a function that answered', async () => {
    const { request, service, log } = handlerWith(works);
    const steps: string[] = [];
    const settle = async () => {
      await new Promise((resolve) => setImmediate(resolve));
      steps.push('settled');
    };
    await createHandler(service, log, { handOffs: { settle } })(request('GET /v1/health'));
    steps.push('answered');
    expect(steps).toEqual(['settled', 'answered']);
  });

  it('answers an unknown path 404, and 405 if the path is known with other methods', async () => {
    const { call } = handlerWith(works);
    expect(await call('GET /v1/none')).toMatchObject({
      status: 404,
      body: { code: 'not-found' },
    });
    expect(await call('DELETE /v1/health')).toMatchObject({
      status: 405,
      headers: { allow: 'GET' },
      body: { code: 'method-not-allowed' },
    });
  });

  it.each([
    ['unavailable', 503, 'unavailable', '1'],
    ['throttled', 429, 'throttled', '1'],
    ['conflict', 429, 'throttled', '1'],
    ['too-large', 429, 'queue-full', '1'],
  ] as const)('answers a store that is %s with %i %s', async (code, status, problem, retryAfter) => {
    const { call } = handlerWith(failsWith(new StoreError(code, 'The store said so.')));
    const answer = await call('POST /v1/{ns}/locks/{name}/release', release);
    expect(answer).toMatchObject({ status, body: { code: problem, retryAfterMs: expect.any(Number) } });
    expect(answer.headers).toMatchObject({ 'retry-after': retryAfter, 'content-type': 'application/problem+json' });
  });

  it('reveals nothing of an unexpected error to a caller, and logs all of it', async () => {
    const { call, lines } = handlerWith(failsWith(new TypeError('the secret plan failed')));
    const answer = await call('GET /v1/health');
    expect(answer).toMatchObject({
      status: 500,
      body: { code: 'internal', instance: expect.stringContaining('request-7') },
    });
    expect(JSON.stringify(answer.body)).not.toContain('secret plan');
    expect(lines).toMatchObject([{ level: 'error', fields: { error: { message: 'the secret plan failed' } } }]);
  });

  it('answers 400 if the store itself does not take the request, so that nobody repeats it, and logs it as a fault', async () => {
    const { call, lines } = handlerWith(failsWith(new StoreError('refused', 'The store does not take this request.')));
    const { status, body, headers } = await call('GET /v1/health');
    expect([status, body.code, headers['retry-after']]).toEqual([400, 'invalid-request', undefined]);
    expect(body.detail).toContain('A repetition does not help');
    expect(lines).toMatchObject([{ level: 'error' }]);
  });

  it('logs one line per request, by its route and without its secrets', async () => {
    const { call, lines } = handlerWith(failsWith(new StoreError('unavailable', 'The store said so.')));
    await call('POST /v1/{ns}/locks/{name}/release', release);
    await call('DELETE /v1/{ns}/sessions/{id}', {
      parameters: { ns: 'test', id: sessionId },
      path: `/v1/test/sessions/${sessionId}`,
    });
    await call('POST /v1/{ns}/locks/{name}/renew', { ...release, body: JSON.stringify({ leaseId: `${leaseId}!` }) });
    expect(lines.map(({ fields }) => [fields.status, fields.route])).toEqual([
      [503, 'POST /v1/{ns}/locks/{name}/release'],
      [503, 'DELETE /v1/{ns}/sessions/{id}'],
      [400, 'POST /v1/{ns}/locks/{name}/renew'],
    ]);
    expect(JSON.stringify(lines)).not.toContain(leaseId);
    expect(JSON.stringify(lines)).not.toContain(sessionId);
  });

  it('logs the route, the names, the status and the code of a request, and the level says whether it failed', async () => {
    const { call, lines } = handlerWith(works);
    const parameters = { ns: 'test', name: 'lock' };
    await call('GET /v1/health');
    await call('POST /v1/{ns}/locks/{name}/release', { parameters, body: '{}' });
    await call('GET /v1/none');
    const line = { requestId: 'request-7', tookMs: expect.any(Number) };
    expect(lines).toStrictEqual([
      { level: 'info', fields: { ...line, route: 'GET /v1/health', status: 200 } },
      {
        level: 'info',
        fields: {
          ...line,
          route: 'POST /v1/{ns}/locks/{name}/release',
          status: 400,
          namespace: 'test',
          name: 'lock',
          code: 'invalid-request',
        },
      },
      { level: 'info', fields: { ...line, route: 'GET $default', status: 404, code: 'not-found' } },
    ]);
  });

  it('logs the causes of a failure, down to the request of AWS', async () => {
    const refused = Object.assign(new Error('refused'), { $metadata: { requestId: 'aws-1' } });
    const { call, lines } = handlerWith(failsWith(new StoreError('unavailable', 'No answer came.', refused)));
    await call('POST /v1/{ns}/locks/{name}/release', release);
    const error = lines[0]?.fields.error as { name: string; message: string; stack: string; cause: object };
    expect(error).toMatchObject({ name: 'StoreError', message: 'No answer came.' });
    expect(error).not.toHaveProperty('awsRequestId');
    expect(error.stack).toContain('StoreError');
    expect(error.cause).toMatchObject({ message: 'refused', awsRequestId: 'aws-1' });
    expect(error.cause).not.toHaveProperty('cause');
  });

  it('logs a failure that is no error as text', async () => {
    const { call, lines } = handlerWith(() => Promise.reject('a text'));
    expect((await call('GET /v1/health')).status).toBe(500);
    expect(lines[0]?.fields.error).toBe('a text');
  });

  it('tells of each refusal, with the request that was refused', async () => {
    const { request, service, log } = handlerWith(works);
    const told: string[] = [];
    const handle = createHandler(service, log, { onProblem: ({ code }, { id }) => told.push(`${code} ${id}`) });
    await handle(request('GET /v1/health'));
    await handle(request('GET /v1/none'));
    expect(told).toEqual(['not-found request-7']);
  });

  it('says which route is missing, and which methods a path takes', async () => {
    const { call } = handlerWith(works);
    expect((await call('GET /v1/none')).body.detail).toBe('Nothing answers GET at this path.');
    const wrong = await call('PUT /v1/test/sessions/some-id');
    expect(wrong.body.detail).toBe('This path takes GET, DELETE, but got PUT.');
    expect(wrong.headers.allow).toBe('GET, DELETE');
    expect((await call('POST /v1/{ns}/tickets', { parameters: { ns: 'test' }, namespaces: [] })).body.detail).toBe(
      'The token does not list this namespace.',
    );
  });
});
