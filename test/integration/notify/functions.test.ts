import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { marshall } from '@aws-sdk/util-dynamodb';
import type { APIGatewayProxyEventV2, Context, DynamoDBStreamEvent, SQSEvent } from 'aws-lambda';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import { memoryCheckpoints, type Pump, startPump } from '../../../src/local/pump.ts';
import type { ReaperEvent } from '../../../src/notify/aws/reaper-handler.ts';
import { HandOffs } from '../../../src/notify/hand-offs.ts';
import { toLockItem } from '../../../src/queue/lock-item.ts';
import { apply } from '../../../src/service/apply.ts';
import type { LockContext } from '../../../src/service/context.ts';
import { systemLockContext } from '../../../src/service/context.ts';
import { HistoryStore } from '../../../src/store/history.ts';
import { SdkTable } from '../../../src/table/aws/table.ts';
import type { TableAccess } from '../../../src/table/item-table.ts';
import { engineClient, freshTable } from '../../support/engine.ts';
import { eventually } from '../../support/eventually.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { storesOn } from '../../support/memory-table.ts';
import { patientServer } from '../../support/patient-server.ts';

const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
const context = { getRemainingTimeInMillis: () => 30_000 } as Context;
const silent = { info: () => {}, warn: () => {}, error: () => {} };

let queue: FauxqsServer;
let bus: Server;
let pump: Pump;
let locks: LockContext;
let sqs: SQSClient;
let queueUrl: string;
/** To look at the table itself, also if the suite runs through a harsh one. */
let own: TableAccess;
const published: { DetailType: string; Detail: string; Time: number }[] = [];

/** The functions as they are deployed: wired only by their environment, with AWS at other addresses. */
beforeAll(async () => {
  const table = await freshTable();
  queue = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
  queue.createQueue('timers');
  queueUrl = `http://127.0.0.1:${queue.port}/000000000000/timers`;
  bus = patientServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      const { Entries } = JSON.parse(text);
      published.push(...Entries);
      bus.emit('published');
      response.end(JSON.stringify({ FailedEntryCount: 0, Entries: Entries.map(() => ({ EventId: 'id' })) }));
    });
  }).listen(0, '127.0.0.1');
  await once(bus, 'listening');
  const at = (port: number) => `http://127.0.0.1:${port}`;
  const environment = {
    AWS_REGION: table.region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    AWS_ENDPOINT_URL_EVENTBRIDGE: at((bus.address() as AddressInfo).port),
    AWS_ENDPOINT_URL_SQS: at(queue.port),
    HOLDFAST_ENDPOINT: table.endpoint,
    HOLDFAST_TABLE: table.tableName,
    HOLDFAST_BUS: 'holdfast',
    HOLDFAST_TIMER_QUEUE_URL: queueUrl,
    HOLDFAST_WEBSOCKET_ENDPOINT: at(9),
    POWERTOOLS_LOG_LEVEL: 'SILENT',
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  own = { table: new SdkTable(engineClient(inject('engine').behind)), tableName: table.tableName };
  locks = systemLockContext({ ...storesOn(table.access), alone: false });
  sqs = new SQSClient({ endpoint: at(queue.port), region: table.region, credentials });
  const { handler } = await import('../../../functions/notifier.ts');
  pump = startPump({
    client: new DynamoDBStreamsClient({ endpoint: table.endpoint, region: table.region, credentials }),
    streamArn: table.streamArn,
    handler: (event) => handler(event, { getRemainingTimeInMillis: () => 30_000 } as Context),
    checkpoints: memoryCheckpoints(),
    startAt: 'TRIM_HORIZON',
    onDeadLetter: () => {},
    logger: silent,
  });
  await pump.ready;
});

afterAll(async () => {
  await pump.stop();
  sqs.destroy();
  await queue.stop();
  bus.closeAllConnections();
  bus.close();
  // Other files run in the same process.
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

async function toldRefs(count: number): Promise<string[]> {
  for (;;) {
    const told = published.filter(({ DetailType }) => DetailType === 'granted-to-waiter');
    if (told.length >= count) return told.map(({ Detail }) => JSON.parse(Detail).ref);
    await once(bus, 'published');
  }
}

describe('the deployed functions', () => {
  const key = { namespace: 'test', name: 'wallet' };
  const parked = (leaseId: string, ref: string) =>
    acquireOf(leaseId, { leaseMs: 4_000, waitMs: 60_000, attendMs: null, notify: { type: 'event', ref } });

  it('notify a parked waiter by timer, and the next by schedule, even if every holder dies', async () => {
    const { handler: reaper } = await import('../../../functions/reaper.ts');
    const settle = vi.spyOn(HandOffs.prototype, 'settle');
    // It must still be held when the others have queued, also on a busy machine.
    await apply(locks, key, acquireOf('lease-holder-00001', { leaseMs: 4_000 }));
    await apply(locks, key, parked('lease-waiter-00001', 'by timer'));
    await apply(locks, key, parked('lease-waiter-00002', 'by schedule'));
    const received = await sqs.send(new ReceiveMessageCommand({ QueueUrl: queueUrl, WaitTimeSeconds: 20 }));
    const Records = (received.Messages ?? []).map(({ MessageId, Body }) => ({ messageId: MessageId, body: Body }));
    expect(Records).toHaveLength(1);
    expect(await reaper({ Records } as SQSEvent, context)).toEqual({ batchItemFailures: [] });
    // Lambda stops a function after its answer, so what it began to deliver must be over by then.
    expect(settle).toHaveBeenCalledTimes(1);
    expect(await toldRefs(1)).toEqual(['by timer']);

    await vi.waitUntil(() => Date.now() > Math.min(...expiries()), { timeout: 120_000 });
    const scheduled = { source: 'aws.events', 'detail-type': 'Scheduled Event', detail: {} } as ReaperEvent;
    expect(await reaper(scheduled, context)).toEqual({ batchItemFailures: [] });
    expect(await toldRefs(2)).toEqual(['by timer', 'by schedule']);
  });

  /** When the lease of the latest notified waiter may be taken over. `Time` is in whole seconds. */
  const expiries = () =>
    published.slice(-1).map(({ Detail, Time }) => (Time + 1) * 1_000 + JSON.parse(Detail).remainingMs + locks.graceMs);

  it('answer the routes of a WebSocket API', async () => {
    const { handler: websocket } = await import('../../../functions/websocket.ts');
    const call = (routeKey: string, query?: Record<string, string>) =>
      websocket(
        {
          requestContext: { routeKey, connectionId: 'id=', connectedAt: Date.now(), requestId: 'request' },
          queryStringParameters: query,
        },
        context,
      );
    expect((await call('$connect', { namespace: 'test', lock: 'a' })).statusCode).toBe(401);
    expect((await call('$connect', { ticket: 'made-up' })).statusCode).toBe(403);
    expect((await call('$default')).body).toBe('{"type":"connected","connectionId":"id="}');
    expect((await call('$disconnect')).statusCode).toBe(200);
  });

  it('let a token use only the namespaces that its claim lists, and answer when all is delivered', async () => {
    vi.stubEnv('HOLDFAST_NAMESPACES_CLAIM', 'locks');
    const { handler: http } = await import('../../../functions/http.ts');
    const settle = vi.spyOn(HandOffs.prototype, 'settle').mockClear();
    const inspect = (ns: string) =>
      http(
        {
          routeKey: 'GET /v1/{ns}/locks/{name}',
          rawPath: `/v1/${ns}/locks/a`,
          pathParameters: { ns, name: 'a' },
          headers: {},
          requestContext: {
            requestId: 'request',
            http: { method: 'GET' },
            authorizer: { jwt: { claims: { sub: 'somebody', locks: '[orders jobs]' } } },
          },
        } as unknown as APIGatewayProxyEventV2,
        context,
      );
    expect((await inspect('orders')).statusCode).toBe(200);
    expect((await inspect('wallets')).statusCode).toBe(403);
    expect(settle).toHaveBeenCalledTimes(2);
  });

  it('keep a history, unless the stack has none', async () => {
    const history = new HistoryStore(own);
    const typesOf = async (name: string) =>
      (await history.page({ namespace: 'test', name }, { limit: 10, standing: [] })).events.map(({ type }) => type);
    const publish = async (name: string) => {
      const lock = { namespace: 'test', name };
      const leaseId = `lease-of-${name}-000`;
      const held = await apply(locks, lock, acquireOf(leaseId));
      const free = await apply(locks, lock, { kind: 'release', leaseId });
      const [OldImage, NewImage] = [held, free].map(({ state }) => marshall(toLockItem(lock, state, 86_400_000)));
      // Each name loads the file anew, as a new process would: it reads its environment when it is loaded.
      const file = `../../../functions/publisher.ts?${name}`;
      const { handler: publisher } = (await import(file)) as typeof import('../../../functions/publisher.ts');
      const record = { eventName: 'MODIFY', dynamodb: { SequenceNumber: '1', Keys: NewImage, OldImage, NewImage } };
      // As Lambda does, until nothing is left of the batch.
      await eventually(async () => {
        const { batchItemFailures } = await publisher({ Records: [record] } as unknown as DynamoDBStreamEvent, context);
        expect(batchItemFailures).toEqual([]);
      });
    };
    await publish('kept');
    vi.stubEnv('HOLDFAST_HISTORY', 'off');
    await publish('unkept');
    expect([await typesOf('kept'), await typesOf('unkept')]).toEqual([['released', 'granted'], []]);
  });
});
