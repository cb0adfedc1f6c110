import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { routes } from '../../src/contract/operations.ts';
import { createHandler } from '../../src/http/handler.ts';
import { dynamoDbLocalCommand, findJar, findJava } from '../../src/local/engine/dynamodb-local.ts';
import { dynoxideCommand, findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { answersWithin, freePort, localCredentials } from '../../src/local/engine/endpoint.ts';
import { type GuardedEngine, spawnGuarded } from '../../src/local/engine/guarded.ts';
import { type Gateway, startGateway } from '../../src/local/gateway.ts';
import { defaultOptions, type EngineChoice } from '../../src/local/options.ts';
import { type Running, serve } from '../../src/local/serve.ts';
import { serviceOn } from '../../src/process/wiring.ts';
import { awsTable } from '../../src/table/aws/table.ts';
import { defaultTableName } from '../../src/table/shape.ts';
import { eventually } from '../support/eventually.ts';
import { patientServer } from '../support/patient-server.ts';
import { type Answer, type Call, callAt, lockAt, newLeaseId } from '../support/service.ts';

const region = 'us-east-1';
const silent = { info: () => {}, warn: () => {}, error: () => {} };
/** The longest that a caller waits for a 503: three tries of five seconds, and the pauses between them. */
const unavailableWithinMs = 29_000;

/** For a lease that must outlast a test, also on a busy machine. */
const long = { leaseMs: 300_000 };

/** An engine on a fixed port and in a kept folder, so that it can be stopped and started again. */
async function engineAt(port: number, folder: string): Promise<GuardedEngine> {
  const dynoxide = findDynoxide();
  const java = await findJava();
  const jar = findJar();
  const command =
    dynoxide !== undefined
      ? dynoxideCommand(dynoxide, { port, folder })
      : java !== undefined && jar !== undefined
        ? dynamoDbLocalCommand(java, jar, { port, folder })
        : undefined;
  if (command === undefined) throw new Error('No engine is installed: run npm ci, and install Java 17.');
  const engine = await spawnGuarded(command);
  const at = { endpoint: `http://127.0.0.1:${port}`, region, credentials: localCredentials };
  expect(await answersWithin(at, 30_000, () => false)).toBe(true);
  return engine;
}

const serveOn = (endpoint: string, table = defaultTableName): Promise<Running> =>
  serve({ ...defaultOptions, port: 0, engine: endpoint as EngineChoice, memory: true, table }, silent);

/** A second process like a deployed function: nobody notifies its waiters, so they poll. */
function pacedServiceOn(endpoint: string): Promise<Gateway> {
  const { table } = awsTable({ endpoint, region, credentials: localCredentials });
  const service = serviceOn({ access: { table, tableName: defaultTableName }, alone: false, engine: 'dynamodb' });
  return startGateway({ host: '127.0.0.1', port: 0, handler: createHandler(service, silent) });
}

function expectUnavailable({ status, headers, body }: Answer, what: string): void {
  expect({ what, status, code: body.code }).toEqual({ what, status: 503, code: 'unavailable' });
  expect(body.retryAfterMs).toBeGreaterThan(0);
  expect(headers.get('retry-after')).toBe(String(Math.ceil(body.retryAfterMs / 1_000)));
}

/** One valid request to every route that needs the store. */
function everyOperation(call: Call): { what: string; answer: Promise<Answer> }[] {
  const leaseId = newLeaseId();
  const bodies: Partial<Record<(typeof routes)[number]['operation'], object>> = {
    acquireLock: { leaseId, waitMs: 5_000 },
    renewLock: { leaseId },
    releaseLock: { leaseId },
    revokeLock: { fence: 1, reason: 'test' },
    acquireLocks: { leaseId, locks: ['one', 'two'] },
    renewLocks: { leaseId, locks: ['one', 'two'] },
    releaseLocks: { leaseId, locks: ['one', 'two'] },
    createSession: {},
    keepSessionAlive: {},
    putRecord: { value: 1 },
  };
  return routes
    .filter(({ operation }) => operation !== 'openapi')
    .map(({ operation, method, path }) => {
      const target = path.replace('{ns}', 'test').replaceAll(/\{\w+\}/g, 'some-name');
      const query = operation === 'checkFence' ? '?fence=1' : '';
      const headers = method === 'PUT' || method === 'DELETE' ? { 'if-match': '*' } : {};
      return { what: operation, answer: call(method, `${target}${query}`, bodies[operation], { headers }) };
    });
}

describe.concurrent('an engine that goes away and comes back', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-faults-'));
  let port: number;
  let engine: GuardedEngine;
  let service: Running;
  let paced: Gateway;
  beforeAll(async () => {
    port = await freePort();
    engine = await engineAt(port, folder);
    service = await serveOn(`http://127.0.0.1:${port}`);
    paced = await pacedServiceOn(`http://127.0.0.1:${port}`);
  });
  afterAll(async () => {
    await paced?.close();
    await service?.stop();
    await engine?.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  });

  it('is answered 503 while the engine is away, and then everything goes on', async () => {
    const call = callAt(service.url);
    const lock = lockAt(call, 'outlasting');
    const holder = newLeaseId();
    const { body: grant } = await lock.acquire({ leaseId: holder, leaseMs: 60_000, owner: 'holder' });
    const first = newLeaseId();
    const firstWait = lock.acquire({ leaseId: first, waitMs: 60_000, owner: 'first' });
    await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBe(1));
    const elsewhere = lockAt(callAt(paced.url), 'outlasting');
    const second = { leaseId: newLeaseId(), waitMs: 60_000, owner: 'second' };
    const secondWait = elsewhere.acquire(second);
    await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBe(2));
    const impatient = { leaseId: newLeaseId(), waitMs: 5_000, owner: 'impatient' };
    const impatientWait = lock.acquire(impatient);
    await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBe(3));

    await engine.stop();
    const beganAt = performance.now();
    const answers = everyOperation(call).map(async ({ what, answer }) => expectUnavailable(await answer, what));
    await Promise.all(answers);
    expect(performance.now() - beganAt).toBeLessThan(unavailableWithinMs);
    expectUnavailable(await secondWait, 'a waiter that looks for itself');
    // The end of its wait could not be written, so the answer must not say that it has left the queue.
    expectUnavailable(await impatientWait, 'a wait that ends meanwhile');
    const late = { leaseId: newLeaseId(), waitMs: 60_000, owner: 'late' };
    expectUnavailable(await lock.acquire(late), 'a waiter that arrives meanwhile');

    engine = await engineAt(port, folder);
    await eventually(async () => expect((await call('GET', '/v1/health')).status).toBe(200));
    const { fence } = grant;
    const seen = (await lock.inspect()).body;
    expect(seen).toMatchObject({ state: 'held', fence, holders: [{ owner: 'holder', fence }] });
    expect(seen.queue.map(({ owner }: { owner: string }) => owner)).toEqual(['first', 'second']);

    const secondAgain = elsewhere.acquire(second);
    expect((await lock.acquire(impatient)).body.code, 'repeated, it is told what became of it').toBe('wait-timeout');
    const lateWait = lock.acquire(late);
    await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBe(3));
    expect((await lock.renew({ leaseId: holder })).body.fence).toBe(fence);
    expect((await lock.release(holder)).body).toEqual({ released: true, reason: 'ok' });
    expect((await firstWait).body).toMatchObject({ status: 'granted', leaseId: first, fence: fence + 1 });
    await lock.release(first);
    expect((await secondAgain).body).toMatchObject({ status: 'granted', leaseId: second.leaseId, fence: fence + 2 });
    await lock.release(second.leaseId);
    expect((await lateWait).body).toMatchObject({ status: 'granted', leaseId: late.leaseId, fence: fence + 3 });
  });
});

/**
 * What happens to a request on its way to the engine and back. `lose`: the engine executes it, and its answer is
 * dropped.
 */
type Fate = 'pass' | 'lose' | 'hang' | { readonly error: string };

/** A proxy between the service and its engine. */
class FaultyLine {
  readonly #server: Server;
  readonly #hanging = new Set<ServerResponse>();
  /**
   * Decides about each request of the store by its operation, such as `UpdateItem`. Requests of the stream always pass.
   */
  fate: (operation: string) => Fate = () => 'pass';
  /** Operations that reached the engine. */
  carriedOut: string[] = [];

  private constructor(engineUrl: string) {
    this.#server = patientServer((request, response) => void this.#carry(engineUrl, request, response));
  }

  static async to(engineUrl: string): Promise<FaultyLine> {
    const line = new FaultyLine(engineUrl);
    line.#server.listen(0, '127.0.0.1');
    await once(line.#server, 'listening');
    return line;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  /** Sets what happens to the next requests of an operation. All others pass. */
  next(operation: string, fate: Fate, times = 1): void {
    let left = times;
    this.fate = (asked) => {
      if (asked !== operation || left === 0) return 'pass';
      left -= 1;
      return fate;
    };
  }

  heal(): void {
    this.fate = () => 'pass';
    this.carriedOut = [];
    for (const response of this.#hanging) response.destroy();
    this.#hanging.clear();
  }

  close(): void {
    this.heal();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #carry(engineUrl: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = Buffer.concat(await request.toArray());
    const [api, operation = ''] = String(request.headers['x-amz-target']).split('.');
    const fate = api === 'DynamoDB_20120810' ? this.fate(operation) : 'pass';
    if (fate === 'hang') {
      this.#hanging.add(response);
      return;
    }
    if (typeof fate === 'object') {
      const type = `com.amazonaws.dynamodb.v20120810#${fate.error}`;
      response.writeHead(400, { 'content-type': 'application/x-amz-json-1.0' });
      response.end(JSON.stringify({ __type: type, message: 'Made up for a test.' }));
      return;
    }
    // A connection of its own: the engine may close an idle one just when the next request is sent.
    const upstream = httpRequest(engineUrl, { method: request.method, headers: request.headers, agent: false });
    upstream.on('error', () => response.destroy());
    upstream.end(body);
    const [answer] = (await once(upstream, 'response').catch(() => [])) as [IncomingMessage?];
    if (answer === undefined) return;
    const content = Buffer.concat(await answer.toArray());
    if (api === 'DynamoDB_20120810') this.carriedOut.push(operation);
    if (fate === 'lose') {
      response.destroy();
      return;
    }
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    response.end(content);
  }
}

describe.concurrent('a line to the engine', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-faults-'));
  let engine: GuardedEngine;
  let engineUrl: string;
  beforeAll(async () => {
    const port = await freePort();
    engine = await engineAt(port, folder);
    engineUrl = `http://127.0.0.1:${port}`;
  });
  afterAll(async () => {
    await engine?.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  });

  /** Each test has its own line, with a service and a table behind it. So the faults of one test don't reach another. */
  async function newLine({ onTestFinished }: TestContext) {
    const line = await FaultyLine.to(engineUrl);
    const service = await serveOn(line.url, randomUUID());
    onTestFinished(async () => {
      await service.stop();
      line.close();
    });
    const call = callAt(service.url);
    return { line, call, lock: lockAt(call, 'lock') };
  }
  type Lock = ReturnType<typeof lockAt>;
  const fenceOf = async (lock: Lock): Promise<number> => (await lock.inspect()).body.fence;
  const queued = (lock: Lock, depth: number) =>
    eventually(async () => expect((await lock.inspect()).body.queueDepth).toBe(depth));

  describe('that loses a response after the write', () => {
    it('grants an acquire once, under one fence', async (context) => {
      const { line, lock } = await newLine(context);
      const leaseId = newLeaseId();
      line.next('UpdateItem', 'lose');
      const granted = await lock.acquire({ leaseId });
      expect(
        line.carriedOut.filter((each) => each === 'UpdateItem'),
        'it was sent twice',
      ).toHaveLength(2);
      expect(granted).toMatchObject({ status: 200, body: { leaseId } });
      expect(await fenceOf(lock)).toBe(granted.body.fence);
      expect((await lock.acquire({ leaseId })).body.fence).toBe(granted.body.fence);
    });

    it('answers that the result of an acquire is unknown, and a repeat finds the result', async (context) => {
      const { line, lock } = await newLine(context);
      const leaseId = newLeaseId();
      line.next('UpdateItem', 'lose', 3);
      expectUnavailable(await lock.acquire({ leaseId, leaseMs: 60_000 }), 'acquire');
      const fence = await fenceOf(lock);
      expect(fence, 'the first try had taken effect').toBeGreaterThan(0);
      expect((await lock.acquire({ leaseId, leaseMs: 60_000 })).body).toMatchObject({ status: 'granted', fence });
    });

    it('queues a waiter once', async (context) => {
      const { line, lock } = await newLine(context);
      const { body: held } = await lock.acquire(long);
      let updates = 0;
      // Every update is answered only when it is repeated, whether it tries the lock or queues.
      line.fate = (operation) => {
        updates += operation === 'UpdateItem' ? 1 : 0;
        return operation === 'UpdateItem' && updates % 2 === 1 ? 'lose' : 'pass';
      };
      const leaseId = newLeaseId();
      const waiting = lock.acquire({ leaseId, waitMs: 30_000 });
      await eventually(() => expect(updates).toBeGreaterThan(1));
      await queued(lock, 1);
      await lock.release(held.leaseId);
      expect((await waiting).body).toMatchObject({ status: 'granted', leaseId, fence: held.fence + 1 });
      expect((await lock.inspect()).body.queueDepth).toBe(0);
    });

    it('renews under the same fence', async (context) => {
      const { line, lock } = await newLine(context);
      const { body: grant } = await lock.acquire({ leaseMs: 30_000 });
      line.next('UpdateItem', 'lose');
      const renewed = await lock.renew({ leaseId: grant.leaseId, leaseMs: 60_000 });
      expect(renewed).toMatchObject({ status: 200, body: { fence: grant.fence, leaseMs: 60_000 } });
      expect(await fenceOf(lock)).toBe(grant.fence);
    });

    it('releases once, and answers as if nothing had been lost', async (context) => {
      const { line, lock } = await newLine(context);
      const { body: grant } = await lock.acquire(long);
      line.next('UpdateItem', 'lose');
      expect((await lock.release(grant.leaseId)).body).toEqual({ released: true, reason: 'ok' });
      expect((await lock.release(grant.leaseId)).body).toEqual({ released: false, reason: 'already_released' });
    });

    it('hands over once', async (context) => {
      const { line, lock } = await newLine(context);
      const { body: grant } = await lock.acquire(long);
      const waiters = [newLeaseId(), newLeaseId()];
      const [first, second] = waiters.map((leaseId) => lock.acquire({ leaseId, waitMs: 30_000 }));
      await queued(lock, 2);
      line.next('UpdateItem', 'lose');
      expect((await lock.release(grant.leaseId)).body).toEqual({ released: true, reason: 'ok' });
      const next = await Promise.race([first, second]);
      expect(next?.body.fence).toBe(grant.fence + 1);
      expect((await lock.inspect()).body).toMatchObject({ fence: grant.fence + 1, queueDepth: 1 });
      for (const leaseId of waiters) await lock.release(leaseId);
      await Promise.all([first, second]);
    });

    it('revokes once', async (context) => {
      const { line, lock } = await newLine(context);
      const { body: grant } = await lock.acquire(long);
      line.next('PutItem', 'lose');
      expect((await lock.revoke({ fence: grant.fence, reason: 'stuck' })).body).toEqual({ revoked: true });
    });

    it('takes several locks once', async (context) => {
      const { line, call } = await newLine(context);
      line.next('TransactWriteItems', 'lose');
      const leaseId = newLeaseId();
      const granted = await call('POST', '/v1/test/multi-locks/acquire', { leaseId, locks: ['multi-a', 'multi-b'] });
      expect(granted, JSON.stringify(granted.body)).toMatchObject({ status: 200, body: { leaseId } });
      for (const { lock, fence } of granted.body.grants) expect(await fenceOf(lockAt(call, lock))).toBe(fence);
    });

    it('opens and ends a session once', async (context) => {
      const { line, call } = await newLine(context);
      line.next('PutItem', 'lose');
      const opened = await call('POST', '/v1/test/sessions', {});
      expect(opened.status).toBe(201);
      const path = `/v1/test/sessions/${opened.body.sessionId}`;
      line.next('UpdateItem', 'lose');
      expect((await call('POST', `${path}/keepalive`, {})).status).toBe(200);
      line.next('UpdateItem', 'lose');
      expect((await call('DELETE', path)).body).toEqual({ ended: true, released: 0 });
      expect((await call('DELETE', path)).body).toEqual({ ended: false });
    });
  });

  describe('that hangs', () => {
    it('is answered 503 in bounded time, and grants nothing', async (context) => {
      const { line, call, lock } = await newLine(context);
      line.fate = () => 'hang';
      const beganAt = performance.now();
      const [acquired, health] = await Promise.all([lock.acquire(), call('GET', '/v1/health')]);
      expectUnavailable(acquired, 'acquire');
      expectUnavailable(health, 'health');
      expect(performance.now() - beganAt).toBeLessThan(unavailableWithinMs);
      line.heal();
      expect((await lock.inspect()).body).toMatchObject({ state: 'free', fence: 0 });
    });
  });

  describe.each([
    'ProvisionedThroughputExceededException',
    'ThrottlingException',
    'RequestLimitExceeded',
    'TransactionConflictException',
  ])('that answers %s', (error) => {
    it('gets a retry, so that a caller notices nothing if it happens a few times', async (context) => {
      const { line, lock } = await newLine(context);
      line.next('UpdateItem', { error }, 2);
      const granted = await lock.acquire(long);
      expect(granted.status).toBe(200);
      line.next('UpdateItem', { error }, 2);
      expect((await lock.release(granted.body.leaseId)).body).toEqual({ released: true, reason: 'ok' });
    });

    it('makes a caller wait if it lasts, and never says that the lock is held or lost', async (context) => {
      const { line, lock } = await newLine(context);
      const { body: grant } = await lock.acquire(long);
      line.fate = () => ({ error });
      const answers = await Promise.all([
        lock.acquire(),
        lock.acquire({ waitMs: 5_000 }),
        lock.renew({ leaseId: grant.leaseId }),
        lock.release(grant.leaseId),
        lock.revoke({ fence: grant.fence, reason: 'test' }),
      ]);
      for (const { status, headers, body } of answers) {
        expect({ status, code: body.code }).toEqual({ status: 429, code: 'throttled' });
        expect(body.retryAfterMs).toBeGreaterThan(0);
        expect(headers.get('retry-after')).toBe('1');
      }
      line.heal();
      expect((await lock.inspect()).body).toMatchObject({ state: 'held', fence: grant.fence, queueDepth: 0 });
    });
  });
});
