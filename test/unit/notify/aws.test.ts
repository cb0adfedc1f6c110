import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ApiGatewayManagementApiClient } from '@aws-sdk/client-apigatewaymanagementapi';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { SFNClient } from '@aws-sdk/client-sfn';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ApiGatewayConnections, LambdaCallbacks, StepFunctionsTasks } from '../../../src/notify/aws/deliveries.ts';
import { EventBridgeBus } from '../../../src/notify/aws/event-bus.ts';
import type { BusEvent } from '../../../src/notify/ports.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { patientServer } from '../../support/patient-server.ts';

interface Heard {
  readonly path: string;
  readonly target: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: what a client sends is what the test checks.
  readonly body: any;
}

/** A server that answers what the test sets, and remembers its requests. */
let server: Server;
let heard: Heard[];
let answer: (request: Heard) => { status: number; body: unknown };

const setting = () => ({
  endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  maxAttempts: 1,
});

beforeEach(async () => {
  heard = [];
  answer = () => ({ status: 200, body: {} });
  server = patientServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      const target = request.headers['x-amz-target'] as string | undefined;
      const body = text.startsWith('{') ? JSON.parse(text) : text;
      const request_ = { path: decodeURIComponent(request.url ?? ''), target, body };
      heard.push(request_);
      const { status, body: said } = answer(request_);
      const { __type } = said as { __type?: string };
      response.writeHead(status, {
        'content-type': 'application/x-amz-json-1.1',
        ...(__type === undefined ? {} : { 'x-amzn-errortype': __type }),
      });
      response.end(JSON.stringify(said));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

/** Errors of AWS after which the same delivery would fail again, and errors after which it may succeed. */
const finalRefusals = [
  [400, 'AccessDeniedException'],
  [400, 'KmsAccessDeniedException'],
  [400, 'ValidationException'],
  [403, 'ForbiddenException'],
  [404, 'ResourceNotFoundException'],
  [413, 'PayloadTooLargeException'],
] as const;
const passingRefusals = [
  [400, 'ThrottlingException'],
  [400, 'ExpiredTokenException'],
  [400, 'KmsThrottlingException'],
  [408, 'RequestTimeout'],
  [408, 'SlowDown'],
  [429, 'LimitExceededException'],
  [429, 'TooManyRequestsException'],
  [500, 'InternalFailure'],
  [503, 'ServiceUnavailable'],
] as const;

const quiet = { info: () => {}, warn: () => {}, error: () => {} };
const event = (id: number): BusEvent => ({ detailType: 'granted', time: epochMs(1_800_000_000_000), detail: { id } });

describe('the event bus on EventBridge', () => {
  const bus = () => new EventBridgeBus({ client: new EventBridgeClient(setting()), busName: 'my-bus', log: quiet });
  const idsOf = ({ body }: Heard) => body.Entries.map(({ Detail }: { Detail: string }) => JSON.parse(Detail).id);

  it('sends ten events at once, each with source, type and time', async () => {
    answer = ({ body }) => ({ status: 200, body: { Entries: body.Entries.map(() => ({ EventId: 'x' })) } });
    expect(await bus().publish(Array.from({ length: 23 }, (_, index) => event(index)))).toEqual([]);
    expect(heard.map(({ body }) => body.Entries.length)).toEqual([10, 10, 3]);
    expect(heard[0]?.body.Entries[0]).toEqual({
      EventBusName: 'my-bus',
      Source: 'holdfast',
      DetailType: 'granted',
      Time: 1_800_000_000,
      Detail: '{"id":0}',
    });
  });

  it('sends again only those that were refused', async () => {
    answer = (request) => {
      const refused = heard.length === 1 ? [1, 4] : [];
      const entry = (id: number) => (refused.includes(id) ? { ErrorCode: 'ThrottlingException' } : { EventId: 'x' });
      return { status: 200, body: { FailedEntryCount: refused.length, Entries: idsOf(request).map(entry) } };
    };
    expect(await bus().publish([0, 1, 2, 3, 4].map(event))).toEqual([]);
    expect(heard.map(idsOf)).toEqual([
      [0, 1, 2, 3, 4],
      [1, 4],
    ]);
  });

  it('returns the events that it could not send, after a limited number of tries', async () => {
    answer = () => ({ status: 503, body: {} });
    expect(await bus().publish([event(1)])).toEqual([{ event: event(1), isFinal: false }]);
    expect(heard).toHaveLength(4);
  });

  it.each(finalRefusals)('gives up at once if %i %s refuses for good', async (status, type) => {
    answer = () => ({ status, body: { __type: type } });
    expect(await bus().publish([event(1)])).toEqual([{ event: event(1), isFinal: true }]);
    expect(heard).toHaveLength(1);
  });

  it('does not wait for one request before it sends the next', async () => {
    let open = 0;
    let most = 0;
    const client = {
      send: async ({ input }: { input: { Entries: unknown[] } }) => {
        open += 1;
        most = Math.max(most, open);
        await new Promise((resolve) => setImmediate(resolve));
        open -= 1;
        return { Entries: input.Entries.map(() => ({ EventId: 'x' })) };
      },
    };
    const parallel = new EventBridgeBus({ client: client as never, busName: 'my-bus', log: quiet });
    expect(await parallel.publish(Array.from({ length: 100 }, (_, index) => event(index)))).toEqual([]);
    expect(most).toBe(5);
  });
});

describe('callbacks on Lambda', () => {
  const callbacks = () => new LambdaCallbacks({ client: new LambdaClient(setting()) });

  it('sends success with its output, and failure with its name', async () => {
    expect(await callbacks().succeed('Ab/1+2=', { leaseId: 'lease', fence: 7 })).toBe('sent');
    expect(await callbacks().fail('Ab/2', 'Holdfast.WaitTimeout', 'because')).toBe('sent');
    expect(heard.map(({ path, body }) => [path, body])).toEqual([
      ['/2025-12-01/durable-execution-callbacks/Ab/1+2=/succeed', { leaseId: 'lease', fence: 7 }],
      [
        '/2025-12-01/durable-execution-callbacks/Ab/2/fail',
        { ErrorType: 'Holdfast.WaitTimeout', ErrorMessage: 'because' },
      ],
    ]);
  });

  it.each([
    [400, 'CallbackTimeoutException'],
    [404, 'ResourceNotFoundException'],
  ])('treats %i %s as a callback that is gone', async (status, type) => {
    answer = () => ({ status, body: { __type: type } });
    expect(await callbacks().succeed('id', {})).toBe('gone');
    expect(await callbacks().fail('id', 'Holdfast.WaitTimeout', 'because')).toBe('gone');
  });

  it('does not report a callback as gone if only its second try says so', async () => {
    const client = new LambdaClient({ ...setting(), maxAttempts: 2 });
    answer = () =>
      heard.length === 1 ? { status: 503, body: {} } : { status: 400, body: { __type: 'CallbackTimeoutException' } };
    await expect(new LambdaCallbacks({ client }).succeed('id', {})).rejects.toThrow();
    expect(heard).toHaveLength(2);
  });

  it.each([
    [429, 'TooManyRequestsException'],
    [500, 'ServiceException'],
  ])('throws %i %s, so it is tried again', async (status, type) => {
    answer = () => ({ status, body: { __type: type } });
    await expect(callbacks().succeed('id', {})).rejects.toThrow();
  });
});

describe('task tokens on Step Functions', () => {
  const tasks = () => new StepFunctionsTasks({ client: new SFNClient(setting()) });

  it('sends success with its output, and failure with its name', async () => {
    expect(await tasks().succeed('token-1', { leaseId: 'lease', fence: 7 })).toBe('sent');
    expect(await tasks().fail('token-2', 'Holdfast.WaitTimeout', 'because')).toBe('sent');
    expect(heard.map(({ target, body }) => [target, body])).toEqual([
      ['AWSStepFunctions.SendTaskSuccess', { taskToken: 'token-1', output: '{"leaseId":"lease","fence":7}' }],
      ['AWSStepFunctions.SendTaskFailure', { taskToken: 'token-2', error: 'Holdfast.WaitTimeout', cause: 'because' }],
    ]);
  });

  it.each(['TaskDoesNotExist', 'TaskTimedOut', 'InvalidToken'])('treats %s as a task that is gone', async (type) => {
    answer = () => ({ status: 400, body: { __type: type } });
    expect(await tasks().succeed('token', {})).toBe('gone');
  });

  it('does not report a task as gone if only its second try says so', async () => {
    const client = new SFNClient({ ...setting(), maxAttempts: 2 });
    answer = () => (heard.length === 1 ? { status: 503, body: {} } : { status: 400, body: { __type: 'TaskTimedOut' } });
    await expect(new StepFunctionsTasks({ client }).succeed('token', {})).rejects.toThrow();
    expect(heard).toHaveLength(2);
  });

  it.each(finalRefusals)('treats %i %s as final, so nobody waits behind it', async (status, type) => {
    answer = () => ({ status, body: { __type: type } });
    expect(await tasks().succeed('token', {})).toBe('gone');
  });

  it.each(passingRefusals)('throws %i %s, which may pass', async (status, type) => {
    answer = () => ({ status, body: { __type: type } });
    await expect(tasks().succeed('token', {})).rejects.toThrow();
  });
});

describe('connections on API Gateway', () => {
  const connections = () => new ApiGatewayConnections({ client: new ApiGatewayManagementApiClient(setting()) });

  it('posts the text to the connection', async () => {
    expect(await connections().post('id=', 'hello')).toBe('sent');
    expect(heard).toEqual([{ path: '/@connections/id=', target: undefined, body: 'hello' }]);
  });

  it.each([[410, 'GoneException'] as const, ...finalRefusals])('treats %i %s as final', async (status, type) => {
    answer = () => ({ status, body: { __type: type } });
    expect(await connections().post('id', 'hello')).toBe('gone');
  });

  it('does not report a connection as gone if only its second try says so', async () => {
    const client = new ApiGatewayManagementApiClient({ ...setting(), maxAttempts: 2 });
    answer = () =>
      heard.length === 1 ? { status: 503, body: {} } : { status: 410, body: { __type: 'GoneException' } };
    await expect(new ApiGatewayConnections({ client }).post('id', 'hello')).rejects.toThrow();
    expect(heard).toHaveLength(2);
  });

  it.each(passingRefusals)('throws %i %s, which may pass', async (status, type) => {
    answer = () => ({ status, body: { __type: type } });
    await expect(connections().post('id', 'hello')).rejects.toThrow();
  });
});
