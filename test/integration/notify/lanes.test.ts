/** Deliveries and history have a pump each: an engine that writes the history slowly delays no delivery. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type Server, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { patientServer } from '../../support/patient-server.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../../support/service.ts';
import { startTasks } from './sink.ts';

let gate: PromiseWithResolvers<void>;
let held = 0;
let proxy: Server;
let tasks: Awaited<ReturnType<typeof startTasks>>;
let service: TestService;

const isOfHistory = ({ headers }: IncomingMessage) => String(headers['x-amz-target']).endsWith('.BatchWriteItem');

beforeAll(async () => {
  gate = Promise.withResolvers();
  const engine = new URL(inject('engine').endpoint);
  proxy = patientServer(async (request, response) => {
    if (isOfHistory(request)) {
      held += 1;
      await gate.promise;
    }
    const { method, url: path, headers } = request;
    const forwarded = send({ host: engine.hostname, port: engine.port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  tasks = await startTasks();
  const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` as const;
  service = await startService({ engine: endpoint, tasksUrl: tasks.url });
});

afterAll(async () => {
  gate.resolve();
  await service.stop();
  proxy.closeAllConnections();
  proxy.close();
  await tasks[Symbol.asyncDispose]();
});

describe('a delivery', () => {
  it('goes before the history of other locks', async () => {
    const other = lockAt(service.call, randomUUID());
    const leaseId = newLeaseId();
    await other.acquire({ leaseId });
    await other.release(leaseId);
    await eventually(async () => expect(held).toBeGreaterThan(0));
    const token = randomUUID();
    await lockAt(service.call, randomUUID()).acquire({
      waitMs: 600_000,
      leaseMs: 600_000,
      notify: { type: 'task-token', token, always: true },
    });
    expect(await tasks.calls.until(({ taskToken }) => taskToken === token)).toMatchObject({
      action: 'SendTaskSuccess',
    });
    gate.resolve();
  });
});
