import { ApiGatewayManagementApiClient } from '@aws-sdk/client-apigatewaymanagementapi';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { SFNClient } from '@aws-sdk/client-sfn';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { boundedRequests, isFinalRefusal, outcomeOf } from '../../../src/notify/aws/calls.ts';
import { ApiGatewayConnections, LambdaCallbacks, StepFunctionsTasks } from '../../../src/notify/aws/deliveries.ts';
import { EventBridgeBus } from '../../../src/notify/aws/event-bus.ts';
import { EmbeddedMeter } from '../../../src/notify/aws/meter.ts';
import { awsHandOffs, awsNotifierPorts, awsPublisherPorts, awsReaperPorts } from '../../../src/notify/aws/ports.ts';
import { SqsTimers } from '../../../src/notify/aws/timers.ts';
import { HandOffs } from '../../../src/notify/hand-offs.ts';
import type { BusEvent } from '../../../src/notify/ports.ts';
import { HistoryStore } from '../../../src/store/history.ts';
import { AwaitedLocks, DeliveryStore } from '../../../src/store/notices.ts';
import { WatcherStore } from '../../../src/store/watchers.ts';
import type { TablePort } from '../../../src/table/port.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { epochMs, systemClock } from '../../../src/time/clock.ts';
import { systemTimers } from '../../../src/time/timers.ts';
import { memoryStores } from '../../support/memory-table.ts';
import { createWorld, lockKey } from './world.ts';

const access = { table: { call: () => Promise.reject(new Error('Nothing is asked.')) }, tableName: 'locks' };
const table = { access, log: { info: () => {}, warn: () => {}, error: () => {} } };
const websocketEndpoint = 'http://127.0.0.1:1';

describe('the ports on AWS', () => {
  it('of the notifier deliver by each way that AWS has', () => {
    const { locks } = createWorld();
    const names = { busName: 'bus', timerQueueUrl: 'http://127.0.0.1:1/queue' };
    const ports = awsNotifierPorts({ ...table, ...names, locks, websocketEndpoint });
    expect(ports).toEqual({
      locks,
      bus: expect.any(EventBridgeBus),
      tasks: expect.any(StepFunctionsTasks),
      callbacks: expect.any(LambdaCallbacks),
      connections: expect.any(ApiGatewayConnections),
      timers: expect.any(SqsTimers),
      deliveries: expect.any(DeliveryStore),
      meter: expect.any(EmbeddedMeter),
      log: table.log,
    });
    expect(awsReaperPorts({ ...table, locks, timerQueueUrl: names.timerQueueUrl })).toEqual({
      locks,
      timers: expect.any(SqsTimers),
      awaited: expect.any(AwaitedLocks),
      log: table.log,
    });
    expect(awsHandOffs({ ...table, locks, websocketEndpoint })).toBeInstanceOf(HandOffs);
  });

  it.each([
    [{ busName: 'bus', keepsHistory: true }, true, true],
    [{ busName: undefined, keepsHistory: true }, false, true],
    [{ busName: 'bus', keepsHistory: false }, true, false],
  ])('of the publisher have what the deployment asks for: %j', (asked, hasBus, hasHistory) => {
    const ports = awsPublisherPorts({ ...table, ...asked, websocketEndpoint, metricNamespaces: ['test'] });
    expect([ports.bus instanceof EventBridgeBus, ports.history instanceof HistoryStore]).toEqual([hasBus, hasHistory]);
    expect(ports).toMatchObject({ clock: systemClock, pauses: systemTimers, log: table.log });
    expect([ports.watchers, ports.connections, ports.meter]).toEqual([
      expect.any(WatcherStore),
      expect.any(ApiGatewayConnections),
      expect.any(EmbeddedMeter),
    ]);
  });
});

describe('the calls of the ports on AWS', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  /** Every request, with the service that gets it, and for how many tries. */
  function world() {
    const sent: { to: string; input: Record<string, unknown>; tries?: number }[] = [];
    const endpoints: unknown[] = [];
    for (const Client of [ApiGatewayManagementApiClient, EventBridgeClient, LambdaClient, SFNClient, SQSClient]) {
      const send = async function (this: unknown, { input }: { input: Record<string, unknown> }) {
        const { config } = this as {
          config: { maxAttempts: () => Promise<number>; endpoint?: () => Promise<unknown> };
        };
        sent.push({ to: Client.name, input, tries: await config.maxAttempts() });
        if (config.endpoint !== undefined) endpoints.push(await config.endpoint());
        return {};
      };
      vi.spyOn(Client.prototype, 'send').mockImplementation(send as never);
    }
    const { access: memory } = memoryStores();
    const call: TablePort['call'] = (operation, input) => {
      sent.push({ to: 'DynamoDB', input: { ...input } });
      return memory.table.call(operation, { ...input, TableName: memory.tableName });
    };
    const lines: string[] = [];
    vi.spyOn(process.stdout, 'write').mockImplementation((line) => lines.push(String(line)) > 0);
    const { locks, ...lockWorld } = createWorld();
    const names = { busName: 'bus', timerQueueUrl: 'http://127.0.0.1:1/queue' };
    const setting = { ...table, ...names, access: { ...access, table: { call } }, locks, websocketEndpoint };
    return { sent, endpoints, lines, locks, lockWorld, setting };
  }
  const grant = { namespace: 'test', name: 'Grants', unit: 'Count', value: 1 } as const;

  it('of the notifier go to the bus, the tasks, the callbacks, the connections, the queue and the table', async () => {
    const { sent, endpoints, lines, setting } = world();
    const ports = awsNotifierPorts(setting);
    await ports.bus?.publish([{ detailType: 'granted', time: epochMs(0), detail: {} }]);
    await ports.tasks.succeed('token', {});
    await ports.callbacks.succeed('callback', {});
    await ports.connections.post('connection', 'text');
    await ports.deliveries.read(lockKey, 7);
    const asked = sent.map(({ to, input, tries }) => [to, tries, input.TableName]);
    expect(asked).toEqual([
      ['EventBridgeClient', 2, undefined],
      ['SFNClient', 2, undefined],
      ['LambdaClient', 2, undefined],
      ['ApiGatewayManagementApiClient', 2, undefined],
      ['DynamoDB', undefined, 'locks'],
    ]);
    expect(sent[0]?.input).toMatchObject({ Entries: [{ EventBusName: 'bus' }] });
    expect(endpoints.at(-1)).toMatchObject({ hostname: '127.0.0.1', port: 1 });
    ports.meter.record([grant]);
    ports.meter.flush();
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ service: 'notifier', Grants: [1] }]);
  });

  it('of a timer go to the queue, and its note to the table', async () => {
    const { sent, setting } = world();
    const { timers, awaited } = awsReaperPorts(setting);
    await timers.arm(lockKey, epochMs(Date.now() + 5_000));
    expect(sent.map(({ to, tries, input }) => [to, tries, input.TableName ?? input.QueueUrl])).toEqual([
      ['DynamoDB', undefined, 'locks'],
      ['SQSClient', 2, 'http://127.0.0.1:1/queue'],
      ['DynamoDB', undefined, 'locks'],
    ]);
    await awaited.forget(lockKey);
    expect(sent.at(-1)).toMatchObject({ to: 'DynamoDB', input: { TableName: 'locks' } });
  });

  it('of a hand-off go to the table and to the connection', async () => {
    const { sent, lockWorld, setting } = world();
    const handOffs = awsHandOffs(setting);
    await lockWorld.acquire('lease-holder-00001');
    await lockWorld.park('lease-waiter-00001', { type: 'websocket', connectionId: 'c=' });
    await lockWorld.release('lease-holder-00001');
    await handOffs.settle();
    expect(new Set(sent.map(({ to, input }) => `${to} ${input.TableName ?? input.ConnectionId}`))).toEqual(
      new Set(['DynamoDB locks', 'ApiGatewayManagementApiClient c=']),
    );
  });

  it('of the publisher go to the table, and its metrics have the namespaces that the deployment names', async () => {
    const { sent, lines, setting } = world();
    const ports = awsPublisherPorts({ ...setting, keepsHistory: true, metricNamespaces: ['test'] });
    await ports.watchers.remove('c=');
    await ports.history?.page(lockKey, { limit: 1, standing: [] });
    expect(sent.length).toBeGreaterThanOrEqual(2);
    for (const { to, input } of sent) expect([to, input.TableName]).toEqual(['DynamoDB', 'locks']);
    ports.meter.record([grant]);
    ports.meter.flush();
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ service: 'publisher', namespace: 'test' }]);
  });
});

describe('a call to AWS', () => {
  const refusal = (httpStatusCode: number, name = 'SomeException', more: object = {}) =>
    Object.assign(new Error('refused'), { name, $metadata: { httpStatusCode, attempts: 1 }, ...more });

  it('ends in bounded time, after two tries', () => {
    expect(boundedRequests).toEqual({
      maxAttempts: 2,
      requestHandler: { connectionTimeout: 1_000, requestTimeout: 2_000, throwOnRequestTimeout: true },
    });
  });

  it.each([
    [399, false],
    [400, true],
    [407, true],
    [408, false],
    [409, true],
    [428, true],
    [429, false],
    [430, true],
    [499, true],
    [500, false],
  ])('that is answered %i is refused for good: %s', (status, isFinal) => {
    expect(isFinalRefusal(refusal(status))).toBe(isFinal);
  });

  it.each([
    'ThrottlingException',
    'TooManyRequestsException',
    'KmsThrottlingException',
    'ThrottledException',
    'RequestTimeout',
    'RequestTimeTooSkewed',
    'RequestExpired',
    'ExpiredTokenException',
  ])('may succeed later after %s, although its status is 400', (name) => {
    expect(isFinalRefusal(refusal(400, name))).toBe(false);
  });

  it('may succeed later if the client says that it was throttled, or if nobody knows why it failed', () => {
    expect(isFinalRefusal(refusal(400, 'Some', { $retryable: { throttling: true } }))).toBe(false);
    expect(isFinalRefusal(refusal(400, 'Some', { $retryable: { throttling: false } }))).toBe(true);
    for (const unknown of [new Error('no route'), 'no error', { $metadata: { httpStatusCode: 400 } }])
      expect(isFinalRefusal(unknown)).toBe(false);
  });

  it('found nobody only if its first try was refused for good', async () => {
    expect(await outcomeOf(Promise.resolve())).toBe('sent');
    expect(await outcomeOf(Promise.reject(refusal(404)))).toBe('gone');
    const second = refusal(404, 'Some', { $metadata: { httpStatusCode: 404, attempts: 2 } });
    for (const failure of [second, refusal(500)])
      await expect(outcomeOf(Promise.reject(failure))).rejects.toBe(failure);
  });
});

describe('the event bus', () => {
  const event = (id: number): BusEvent => ({ detailType: 'granted', time: epochMs(1_800_000_000_000), detail: { id } });

  function busThatAnswers(codes: (string | undefined)[][]) {
    const time = new VirtualTime();
    const sentAt: number[] = [];
    const send = async ({ input }: { input: { Entries: unknown[] } }) => {
      sentAt.push(time.now() - time.startAt);
      const answer = codes.shift() ?? [];
      return { Entries: input.Entries.map((_, index) => ({ ErrorCode: answer[index] })) };
    };
    const parts = { timers: time, random: () => 0.5, log: table.log };
    return { time, sentAt, bus: new EventBridgeBus({ client: { send } as never, busName: 'bus', ...parts }) };
  }

  it.each([
    'NotAuthorizedForSourceException',
    'NotAuthorizedForDetailTypeException',
    'InvalidArgument',
    'MalformedDetail',
  ])('does not send an event again that was refused with %s', async (code) => {
    const { bus, sentAt } = busThatAnswers([[code, undefined]]);
    expect(await bus.publish([event(1), event(2)])).toEqual([{ event: event(1), isFinal: true }]);
    expect(sentAt).toHaveLength(1);
  });

  it('sends the others again after a pause, up to four times in all', async () => {
    const busy = ['InternalFailure', undefined];
    const { time, bus, sentAt } = busThatAnswers([busy, busy, busy, busy, busy]);
    const published = bus.publish([event(1), event(2)]);
    await time.advance(10_000);
    expect(await published).toEqual([{ event: event(1), isFinal: false }]);
    expect(sentAt).toHaveLength(4);
    expect(sentAt[0]).toBe(0);
    for (const [index, at] of sentAt.slice(1).entries()) expect(at).toBeGreaterThan(sentAt[index] ?? 0);
  });

  it('counts an event as taken if the answer has no entry for it', async () => {
    const client = { send: async () => ({ Entries: [] }) } as never;
    const bus = new EventBridgeBus({ client, busName: 'bus', log: table.log });
    expect(await bus.publish([event(1)])).toEqual([]);
  });

  it('logs how many events a failed request had, and why it failed', async () => {
    const logged: unknown[] = [];
    const warn = (...line: unknown[]) => void logged.push(line);
    const failure = Object.assign(new Error('denied'), { $metadata: { httpStatusCode: 403 } });
    const client = { send: () => Promise.reject(failure) } as never;
    const bus = new EventBridgeBus({ client, busName: 'bus', log: { ...table.log, warn } });
    expect(await bus.publish([event(1), event(2)])).toHaveLength(2);
    const fields = { events: 2, error: expect.stringContaining('denied') };
    expect(logged).toEqual([['EventBridge did not take a batch.', fields]]);
  });

  it('sends nothing if there is nothing to send', async () => {
    const { bus, sentAt } = busThatAnswers([]);
    expect(await bus.publish([])).toEqual([]);
    expect(sentAt).toEqual([]);
  });
});
