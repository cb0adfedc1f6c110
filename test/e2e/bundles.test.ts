/**
 * The deployed code: the bundles, each in its own process, with the environment and the permissions that the template
 * gives them.
 */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import {
  DescribeStreamCommand,
  DynamoDBStreamsClient,
  GetRecordsCommand,
  GetShardIteratorCommand,
} from '@aws-sdk/client-dynamodb-streams';
import type {
  APIGatewayProxyStructuredResultV2,
  DynamoDBBatchResponse,
  DynamoDBRecord,
  SQSBatchResponse,
} from 'aws-lambda';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleFunctions } from '../../infra/bundle.ts';
import { type FunctionName, functionNames } from '../../infra/function-code.ts';
import { lockLimits } from '../../src/contract/limits.ts';
import { routes } from '../../src/contract/operations.ts';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { localCredentials } from '../../src/local/engine/endpoint.ts';
import { type Engine, startEngine } from '../../src/local/engine.ts';
import { toLambdaRecord } from '../../src/local/pump/event.ts';
import { ensureTable } from '../../src/local/table.ts';
import { notifierFilter, passesFilter, publisherFilter, type StreamFilter } from '../../src/notify/stream-filter.ts';
import { GuardedAws } from '../infra/guarded-aws.ts';
import { LambdaProcess } from '../infra/lambda-process.ts';
import { createStack, freshFolder, resourcesOf, spell, statementsOf, templateOf } from '../infra/synthesized.ts';

const region = 'us-east-1';
const tableName = 'holdfast-bundles';
const template = templateOf(createStack({ events: true }));
const folder = freshFolder();

let engine: Engine;
let streamArn: string;
const functions = {} as Record<FunctionName, { lambda: LambdaProcess; aws: GuardedAws }>;

beforeAll(async () => {
  engine = await startEngine({ engine: findDynoxide() ? 'dynoxide' : 'auto', memory: true, region });
  const client = new DynamoDBClient({ endpoint: engine.endpoint, region, credentials: localCredentials });
  streamArn = await ensureTable(client, tableName);
  client.destroy();
  await bundleFunctions(folder);
  await Promise.all(functionNames.map(async (name) => Object.assign(functions, { [name]: await startFunction(name) })));
});

afterAll(async () => {
  for (const { lambda, aws } of Object.values(functions)) {
    await lambda.stop();
    await aws.stop();
  }
  await engine?.stop();
});

async function startFunction(name: FunctionName) {
  const title = name.replace(/^./, (letter) => letter.toUpperCase());
  const found = resourcesOf(template, 'AWS::Lambda::Function').find(([id]) => id.includes(`${title}Function`));
  if (found === undefined) throw new Error(`The template has no ${name} function.`);
  const { Handler, Timeout, Environment } = found[1].Properties;
  const aws = await GuardedAws.start(statementsOf(template, `${title}Role`), engine.endpoint);
  const lambda = await LambdaProcess.start({
    name: name === 'acquire' ? 'http' : name,
    folder,
    handler: Handler,
    timeoutMs: Timeout * 1_000,
    environment: {
      ...Object.fromEntries(
        Object.entries(Environment.Variables).map(([variable, value]) => [variable, resolve(spell(value), aws)]),
      ),
      // The variables that Lambda itself sets, and one address for all services of AWS.
      AWS_REGION: region,
      AWS_ACCESS_KEY_ID: localCredentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: localCredentials.secretAccessKey,
      AWS_ENDPOINT_URL: aws.url,
    },
  });
  return { lambda, aws };
}

/** The value that CloudFormation would use for a reference. */
function resolve(value: string, aws: GuardedAws): string {
  if (/^<LocksTable\w+>$/.test(value)) return tableName;
  if (/^<LocksNotificationsBus\w+>$/.test(value)) return 'locks';
  if (/^<LocksExpiryTimers\w+>$/.test(value)) return `${aws.url}/111122223333/timers`;
  if (/^https:\/\/<LocksWatchApi\w+>/.test(value)) return aws.url;
  if (/^wss:\/\/<LocksWatchApi\w+>/.test(value)) return 'wss://def456.execute-api.us-east-1.amazonaws.com/v1';
  if (value.includes('<')) throw new Error(`Nothing is known about ${value}.`);
  return value;
}

interface Answered {
  readonly status: number;
  readonly type: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: answers are read by what the contract says of them.
  readonly body: any;
}

const answeredRoutes = new Set<string>();

/** Chooses a route as API Gateway does: the one that matches, or the default route. */
function routeOf(method: string, path: string): { routeKey: string; pathParameters?: Record<string, string> } {
  for (const route of routes) {
    const pattern = new RegExp(`^${route.path.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`);
    const fits = route.method === method ? pattern.exec(path) : null;
    if (fits !== null)
      return { routeKey: `${method} ${route.path}`, ...(fits.groups && { pathParameters: { ...fits.groups } }) };
  }
  return { routeKey: '$default' };
}

interface Asked {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An event of payload format 2.0, as an HTTP API with IAM sends it. */
async function call(method: string, path: string, { body, headers = {} }: Asked = {}): Promise<Answered> {
  const [rawPath = '', rawQueryString = ''] = path.split('?');
  const { routeKey, pathParameters } = routeOf(method, rawPath);
  answeredRoutes.add(routeKey);
  const { lambda } = functions[routeKey.endsWith('/acquire') ? 'acquire' : 'http'];
  const answer = await lambda.invoke<APIGatewayProxyStructuredResultV2>({
    version: '2.0',
    routeKey,
    rawPath,
    rawQueryString,
    headers: { host: 'abc123.execute-api.us-east-1.amazonaws.com', 'content-type': 'application/json', ...headers },
    ...(rawQueryString === ''
      ? {}
      : { queryStringParameters: Object.fromEntries(new URLSearchParams(rawQueryString)) }),
    ...(pathParameters && { pathParameters }),
    requestContext: {
      accountId: '111122223333',
      apiId: 'abc123',
      authentication: null,
      authorizer: { iam: { accountId: '111122223333', userArn: 'arn:aws:sts::111122223333:assumed-role/worker/i-1' } },
      domainName: 'abc123.execute-api.us-east-1.amazonaws.com',
      domainPrefix: 'abc123',
      http: { method, path: rawPath, protocol: 'HTTP/1.1', sourceIp: '192.0.2.1', userAgent: 'test' },
      requestId: 'JKJaXmPLvHcESHA=',
      routeKey,
      stage: '$default',
      time: '16/Nov/2026:12:00:00 +0000',
      timeEpoch: 1_794_830_400_000,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    isBase64Encoded: false,
  });
  return {
    status: answer.statusCode ?? 0,
    type: answer.headers?.['content-type'] as string | undefined,
    body: answer.body === undefined ? undefined : JSON.parse(answer.body),
  };
}

const post = (path: string, body: unknown = {}): Promise<Answered> => call('POST', path, { body });

const connect = (
  routeKey: '$connect' | '$disconnect' | '$default',
  connectionId: string,
  query: Record<string, string> = {},
) =>
  functions.websocket.lambda.invoke<APIGatewayProxyStructuredResultV2>({
    headers: { Host: 'def456.execute-api.us-east-1.amazonaws.com' },
    ...(routeKey === '$connect' ? { queryStringParameters: query } : {}),
    ...(routeKey === '$default' ? { body: 'still here' } : {}),
    requestContext: {
      routeKey,
      eventType: { $connect: 'CONNECT', $disconnect: 'DISCONNECT', $default: 'MESSAGE' }[routeKey],
      extendedRequestId: 'JKJaXmPLvHcESHA=',
      requestTime: '16/Nov/2026:12:00:00 +0000',
      messageDirection: 'IN',
      stage: 'v1',
      connectedAt: Date.now(),
      requestTimeEpoch: Date.now(),
      requestId: 'JKJaXmPLvHcESHA=',
      domainName: 'def456.execute-api.us-east-1.amazonaws.com',
      connectionId,
      apiId: 'def456',
      identity: { sourceIp: '192.0.2.1' },
    },
    isBase64Encoded: false,
  });

/** All records of the table's stream, filtered as the mapping does. */
async function streamRecords(filter: StreamFilter): Promise<DynamoDBRecord[]> {
  const client = new DynamoDBStreamsClient({ endpoint: engine.endpoint, region, credentials: localCredentials });
  const { StreamDescription } = await client.send(new DescribeStreamCommand({ StreamArn: streamArn }));
  const records: DynamoDBRecord[] = [];
  for (const { ShardId } of StreamDescription?.Shards ?? []) {
    const where = { StreamArn: streamArn, ShardId, ShardIteratorType: 'TRIM_HORIZON' as const };
    let { ShardIterator: next } = await client.send(new GetShardIteratorCommand(where));
    while (next !== undefined) {
      const page = await client.send(new GetRecordsCommand({ ShardIterator: next }));
      if (page.Records === undefined || page.Records.length === 0) break;
      records.push(...page.Records.map((record) => toLambdaRecord(record, streamArn)));
      next = page.NextShardIterator;
    }
  }
  client.destroy();
  return records.filter((record) => passesFilter(record, filter));
}

const notify = async () =>
  functions.notifier.lambda.invoke<DynamoDBBatchResponse>({ Records: await streamRecords(notifierFilter) });
const publish = async () =>
  functions.publisher.lambda.invoke<DynamoDBBatchResponse>({ Records: await streamRecords(publisherFilter) });

describe('the http bundle', () => {
  it('says that it can read its store, and which version it is', async () => {
    expect(await call('GET', '/v1/health')).toMatchObject({
      status: 200,
      body: { status: 'ok', engine: 'dynamodb', version: expect.stringMatching(/^\d+\.\d+\.\d+/) },
    });
    expect(await call('GET', '/v1/openapi.json')).toMatchObject({ status: 200, body: { openapi: '3.1.0' } });
  });

  it('grants, refuses, renews and hands over', async () => {
    const first = await post('/v1/orders/locks/a/acquire', { leaseId: 'first-lease-0000001' });
    expect(first).toMatchObject({ status: 200, body: { status: 'granted', lock: 'a' } });
    expect(await post('/v1/orders/locks/a/acquire')).toMatchObject({
      status: 409,
      type: 'application/problem+json',
      body: { code: 'lock-held', holders: [{ owner: 'arn:aws:sts::111122223333:assumed-role/worker/i-1' }] },
    });
    expect(await post('/v1/orders/locks/a/renew', { leaseId: 'first-lease-0000001' })).toMatchObject({ status: 200 });
    const parked = { leaseId: 'parked-lease-000001', waitMs: 60_000, notify: { type: 'event', ref: 'order-1' } };
    expect(await post('/v1/orders/locks/a/acquire', parked)).toMatchObject({ status: 202, body: { position: 1 } });
    expect(await post('/v1/orders/locks/a/release', { leaseId: 'first-lease-0000001' })).toMatchObject({
      status: 200,
      body: { released: true },
    });
    const { body } = await call('GET', '/v1/orders/locks/a');
    expect(body).toMatchObject({ state: 'held', queueDepth: 0 });
    expect(body.fence).toBeGreaterThan(first.body.fence);
    expect((await call('GET', `/v1/orders/locks/a/check?fence=${body.fence}`)).body).toMatchObject({ valid: true });
    expect((await call('GET', '/v1/orders/locks')).body.locks).toMatchObject([{ lock: 'a', state: 'held' }]);
  });

  it('takes several locks under a session, and gives them back with it', async () => {
    const opened = await post('/v1/jobs/sessions', { ttlMs: 30_000 });
    expect(opened.status).toBe(201);
    const session = `/v1/jobs/sessions/${opened.body.sessionId}`;
    const asked = { locks: ['x', 'y'], leaseId: 'many-lease-00000001' };
    expect(await post('/v1/jobs/multi-locks/acquire', { ...asked, sessionId: opened.body.sessionId })).toMatchObject({
      status: 200,
      body: { grants: [{ lock: 'x' }, { lock: 'y' }] },
    });
    expect((await post(`${session}/keepalive`)).status).toBe(200);
    expect((await call('GET', session)).body.locks).toHaveLength(2);
    expect((await call('DELETE', session)).body).toMatchObject({ ended: true });
    expect(
      await post('/v1/jobs/multi-locks/acquire', { locks: ['x', 'y'], leaseId: 'more-lease-00000001' }),
    ).toMatchObject({ status: 200 });
    const again = { locks: ['x', 'y'], leaseId: 'more-lease-00000001' };
    expect((await post('/v1/jobs/multi-locks/renew', again)).status).toBe(200);
    expect((await post('/v1/jobs/multi-locks/release', again)).body.released).toHaveLength(2);
  });

  it('keeps records, and revokes the leases of others', async () => {
    const record = '/v1/jobs/records/cursor';
    const written = await call('PUT', record, { body: { value: 1 }, headers: { 'if-none-match': '*' } });
    expect(written.status).toBe(201);
    expect((await call('GET', record)).body).toMatchObject({ value: 1 });
    expect((await call('DELETE', record, { headers: { 'if-match': `"${written.body.version}"` } })).status).toBe(200);
    const { body } = await post('/v1/jobs/locks/stuck/acquire');
    expect((await post('/v1/jobs/locks/stuck/revoke', { fence: body.fence, reason: 'test' })).body).toEqual({
      revoked: true,
    });
  });

  it('answers a request without a route as a problem', async () => {
    expect(await call('GET', '/v1/orders/nothing')).toMatchObject({
      status: 404,
      type: 'application/problem+json',
      body: { code: 'not-found' },
    });
    expect(await call('DELETE', '/v1/orders/locks/a')).toMatchObject({ status: 405 });
  });
});

describe('the websocket, notifier and publisher bundles', () => {
  it('welcome a watcher, notify a parked waiter and publish the events, without a lease', async () => {
    expect(await connect('$connect', 'watcher-1=', { namespace: 'orders', prefix: '' })).toMatchObject({
      statusCode: 401,
    });
    const { body } = await post('/v1/orders/tickets');
    expect(body.url).toMatch(/^wss:/);
    const query = { ticket: body.ticket, prefix: '' };
    expect(await connect('$connect', 'watcher-1=', query)).toMatchObject({ statusCode: 200 });
    expect(await connect('$connect', 'watcher-2=', query)).toMatchObject({ statusCode: 403 });
    expect(await connect('$default', 'watcher-1=')).toMatchObject({ statusCode: 200 });
    expect(await notify(), functions.notifier.lambda.log.join('\n')).toEqual({ batchItemFailures: [] });
    expect(await publish(), functions.publisher.lambda.log.join('\n')).toEqual({ batchItemFailures: [] });
    const posted = functions.publisher.aws.callsOf('execute-api:ManageConnections');
    expect(posted[0]).toMatchObject({ connectionId: 'watcher-1=', type: 'connected' });
    const entriesOf = ({ aws }: { aws: GuardedAws }) =>
      aws.callsOf('events:PutEvents').flatMap(({ Entries }) => Entries);
    const delivered = entriesOf(functions.notifier);
    expect(delivered.map(({ DetailType }) => DetailType)).toEqual(['granted-to-waiter']);
    expect(JSON.parse(delivered[0].Detail)).toMatchObject({ namespace: 'orders', lock: 'a', ref: 'order-1' });
    const entries = [...delivered, ...entriesOf(functions.publisher)];
    expect(entries.map(({ DetailType }) => DetailType)).toEqual(
      expect.arrayContaining(['queued', 'granted', 'released']),
    );
    expect(JSON.stringify(entries)).not.toContain('lease-0000');
    expect((await call('GET', '/v1/orders/locks/a/history')).body.events).toHaveLength(4);
  });

  it('forget a watcher that left', async () => {
    expect(await connect('$disconnect', 'watcher-1=')).toMatchObject({ statusCode: 200 });
    const removals = functions.websocket.aws.callsOf('dynamodb:BatchWriteItem');
    expect(removals[0].RequestItems[tableName]).toHaveLength(2);
  });
});

describe('the http and websocket bundles', () => {
  it('deliver a hand-off to the connection of its waiter right after the write, and make a wait absent that lost it', async () => {
    const { body: ticket } = await post('/v1/orders/tickets');
    expect(await connect('$connect', 'waiter-1=', { ticket: ticket.ticket })).toMatchObject({ statusCode: 200 });
    const { body: held } = await post('/v1/orders/locks/pushed/acquire');
    const leaseId = 'lease-of-the-waiter-1';
    const notify = { type: 'websocket', connectionId: 'waiter-1=' };
    const parked = await post('/v1/orders/locks/pushed/acquire', { leaseId, waitMs: 600_000, notify });
    expect(parked, functions.http.lambda.log.join('\n')).toMatchObject({ status: 202 });
    await post('/v1/orders/locks/pushed/release', { leaseId: held.leaseId });
    const posted = functions.http.aws.callsOf('execute-api:ManageConnections');
    expect(posted).toMatchObject([{ connectionId: 'waiter-1=', type: 'granted', lock: 'pushed', leaseId }]);

    // More than the lock's own item takes, so the last of them waits in a page.
    const others = Array.from(
      { length: lockLimits.frontLengthMax + 1 },
      (_, index) => `lease-of-the-waiter-${index + 2}`,
    );
    for (const leaseId of others) {
      const asked = { leaseId, waitMs: 600_000, notify };
      expect(await post('/v1/orders/locks/pushed/acquire', asked)).toMatchObject({ status: 202 });
    }
    expect(await connect('$disconnect', 'waiter-1='), functions.websocket.lambda.log.join('\n')).toMatchObject({
      statusCode: 200,
    });
    const [other] = others;
    expect(await post('/v1/orders/locks/pushed/acquire', { leaseId: other, waitMs: 600_000, notify })).toMatchObject({
      status: 403,
    });
    const written = functions.websocket.aws.callsOf('dynamodb:UpdateItem').map(({ Key }) => Key.pk.S as string);
    expect(written.filter((pk) => pk.startsWith('orders/page/pushed#'))).toHaveLength(1);
  });
});

describe('the reaper bundle', () => {
  it('looks at a lock when its timer fires, and arms the next one while somebody waits', async () => {
    await post('/v1/orders/locks/b/acquire', { leaseMs: 60_000 });
    await post('/v1/orders/locks/b/acquire', { waitMs: 600_000, notify: { type: 'event', ref: 'order-2' } });
    await notify();
    // The batch has changes of other locks too. Timers of different locks are armed in parallel, in any order.
    const armed = functions.notifier.aws
      .callsOf('sqs:SendMessage')
      .find(({ MessageBody }) => JSON.parse(MessageBody).lock === 'b');
    expect(JSON.parse(armed.MessageBody)).toMatchObject({ namespace: 'orders', lock: 'b' });
    const fired = await functions.reaper.lambda.invoke<SQSBatchResponse>({
      Records: [
        {
          messageId: '059f36b4-87a3-44ab-83d2-661975830a7d',
          receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
          body: armed.MessageBody,
          attributes: {
            ApproximateReceiveCount: '1',
            SentTimestamp: '1794830400000',
            SenderId: 'AIDAIENQZJOLO23YVJ4VO',
            ApproximateFirstReceiveTimestamp: '1794830460000',
          },
          messageAttributes: {},
          md5OfBody: '098f6bcd4621d373cade4e832627b4f6',
          eventSource: 'aws:sqs',
          eventSourceARN: 'arn:aws:sqs:us-east-1:111122223333:timers',
          awsRegion: region,
        },
      ],
    });
    expect(fired).toEqual({ batchItemFailures: [] });
    expect(
      functions.reaper.aws.callsOf('sqs:SendMessage').map(({ MessageBody }) => JSON.parse(MessageBody).lock),
    ).toEqual(['b']);
  });

  it('sweeps the awaited locks when the minute is over', async () => {
    await functions.reaper.lambda.invoke({
      version: '0',
      id: '53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa',
      'detail-type': 'Scheduled Event',
      source: 'aws.events',
      account: '111122223333',
      time: '2026-11-16T12:00:00Z',
      region,
      resources: ['arn:aws:events:us-east-1:111122223333:rule/each-minute'],
      detail: {},
    });
    const swept = functions.reaper.lambda.log.find((line) => line.includes('swept'));
    expect(JSON.parse(swept ?? '{}')).toMatchObject({ failed: 0, complete: true });
    expect(JSON.parse(swept ?? '{}').looked).toBeGreaterThanOrEqual(1);
  });
});

describe('every bundle', () => {
  it('got a request for every route', () => {
    const all = routes.map(({ method, path }) => `${method} ${path}`);
    expect(all.filter((key) => !answeredRoutes.has(key))).toEqual([]);
  });

  it('writes JSON, and no lease, to its log', () => {
    for (const [name, { lambda }] of Object.entries(functions)) {
      for (const line of lambda.log) {
        expect(() => JSON.parse(line), `${name}: ${line}`).not.toThrow();
        expect(line).not.toContain('lease-0000');
      }
    }
  });
});
