/** Events as API Gateway's HTTP API sends them (payload format 2.0), with names and secrets changed. */
import { readdirSync, readFileSync } from 'node:fs';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { apiGatewayHandler, requestOf } from '../../../src/http/api-gateway.ts';
import { createHandler } from '../../../src/http/handler.ts';
import type { Service } from '../../../src/http/service.ts';

const folder = new URL('api-gateway-events/', import.meta.url);
const recorded = (name: string): APIGatewayProxyEventV2 =>
  JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8')) as APIGatewayProxyEventV2;

describe('a request made of a recorded event', () => {
  it('has the operation, the parameters, the body and the caller that IAM vouches for', () => {
    const request = requestOf(recorded('acquire-iam'));
    expect(request).toMatchObject({
      id: 'QQCtFipSIAMEPNQ=',
      operation: 'acquireLock',
      method: 'POST',
      path: '/v1/orders/locks/wallet:42/acquire',
      parameters: { ns: 'orders', name: 'wallet:42' },
      query: {},
      headers: { 'content-type': 'application/json' },
      body: '{"leaseMs":30000,"waitMs":0,"owner":"ü"}',
      caller: 'arn:aws:sts::111122223333:assumed-role/worker/worker-7',
    });
    expect(request.signal).toBeUndefined();
  });

  it('has its body decoded from base64, its headers, and the subject of the token', () => {
    expect(requestOf(recorded('put-record-jwt-base64'))).toMatchObject({
      operation: 'putRecord',
      parameters: { ns: 'orders', key: 'wallet:42' },
      headers: { 'if-match': '"3"', 'fence-token': '7' },
      body: '{"value":{"owner":"ü"}}',
      caller: 'user-7',
    });
  });

  it('has the query decoded, with repeated values joined', () => {
    expect(requestOf(recorded('list-query'))).toMatchObject({
      operation: 'listLocks',
      query: { prefix: 'wallet:', limit: '10,20' },
      body: undefined,
    });
  });

  it('has no operation if API Gateway found none, whatever the path looks like', () => {
    const event = recorded('default-wrong-method');
    expect(requestOf(event).operation).toBeUndefined();
    // The caller was authorized for the route that the gateway chose, so the route counts and not the path.
    const rawPath = '/v1/orders/locks/wallet:42/revoke';
    expect(requestOf({ ...event, rawPath, routeKey: 'POST /v1/{ns}/locks/{name}/release' }).operation).toBe(
      'releaseLock',
    );
  });

  it('takes a name in its path escaped too', () => {
    const event = recorded('acquire-iam');
    expect(requestOf({ ...event, pathParameters: { ns: 'orders', name: 'wallet%3A42' } }).parameters.name).toBe(
      'wallet:42',
    );
    expect(requestOf({ ...event, pathParameters: { ns: 'orders', name: 'wallet%zz' } }).parameters.name).toBe(
      'wallet%zz',
    );
  });
});

describe('the caller', () => {
  const callerOf = (authorizer: object | undefined) => {
    const event = recorded('health-open');
    return requestOf({ ...event, requestContext: { ...event.requestContext, authorizer } as never }).caller;
  };

  it('is anonymous if nothing authenticates it', () => {
    expect(callerOf(undefined)).toBe('anonymous');
    expect(callerOf({ jwt: { claims: { sub: '' } } })).toBe('anonymous');
  });

  it('fits into an owner: a long one keeps its end, which distinguishes two roles', () => {
    const arn = `arn:aws:sts::1:assumed-role/${'x'.repeat(200)}/worker-7`;
    expect(callerOf({ iam: { userArn: arn } })).toHaveLength(128);
    expect(callerOf({ iam: { userArn: arn } })).toMatch(/worker-7$/);
  });
});

describe('the namespaces of a token', () => {
  const namespacesOf = (claims: object | undefined, namespacesClaim?: string) => {
    const event = recorded('health-open');
    const authorizer = claims === undefined ? undefined : { jwt: { claims } };
    const requestContext = { ...event.requestContext, authorizer } as never;
    return requestOf({ ...event, requestContext }, { namespacesClaim }).namespaces;
  };

  it('are not checked unless a claim is named', () => {
    expect(namespacesOf({ namespaces: 'orders' })).toBeUndefined();
  });

  it.each([
    ['[orders jobs]', ['orders', 'jobs']],
    ['orders jobs', ['orders', 'jobs']],
    ['orders,jobs', ['orders', 'jobs']],
    ['["orders","jobs"]', ['orders', 'jobs']],
    [
      ['orders', 'jobs', 7],
      ['orders', 'jobs'],
    ],
    ['*', ['*']],
    ['', []],
    [undefined, []],
    [{ orders: true }, []],
  ])('are read from %j', (claim, expected) => {
    expect(namespacesOf({ 'locks:namespaces': claim }, 'locks:namespaces')).toEqual(expected);
  });

  it('are none if nobody sent a token', () => {
    expect(namespacesOf(undefined, 'locks:namespaces')).toEqual([]);
  });
});

describe('the handler of API Gateway events', () => {
  const service = { probe: async () => {}, engine: 'test', version: '1.2.3' } as unknown as Service;
  const silent = { info: () => {}, error: () => {} };
  const handle = apiGatewayHandler(createHandler(service, silent));

  it('answers in payload format 2.0', async () => {
    expect(await handle(recorded('health-open'))).toEqual({
      statusCode: 200,
      headers: { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-request-id': 'QQCtFipSIAMEPNQ=' },
      body: '{"status":"ok","version":"1.2.3","engine":"test"}',
    });
  });

  it('answers a wrong method with the methods of the path', async () => {
    const answer = await handle(recorded('default-wrong-method'));
    expect(answer).toMatchObject({ statusCode: 405, headers: { allow: 'POST' } });
  });

  it('answers every recorded event', async () => {
    for (const file of readdirSync(folder)) {
      const { statusCode } = await handle(recorded(file.replace('.json', '')));
      expect(statusCode, file).toBeGreaterThanOrEqual(200);
    }
  });
});
