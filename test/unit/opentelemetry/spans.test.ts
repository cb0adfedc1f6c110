import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { LockHeldError } from '../../../src/client/index.ts';
import { openTelemetry } from '../../../src/opentelemetry/index.ts';
import { Twin } from '../../../src/testing/index.ts';

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
});
afterAll(async () => {
  context.disable();
  trace.disable();
  await provider.shutdown();
});
beforeEach(() => exporter.reset());

const spans = (name: string): ReadableSpan[] => exporter.getFinishedSpans().filter((span) => span.name === name);
const attributesOf = (name: string) => spans(name).map(({ attributes }) => attributes);

function world() {
  const twin = new Twin();
  return { twin, one: twin.client({ tracing: openTelemetry() }), other: twin.client() };
}

describe('the spans of a lock', () => {
  it('show the lock, the fence and the outcome of the wait and of the hold', async () => {
    const { twin, one } = world();
    const lock = await twin.until(one.acquire('wallet:42'));
    expect(attributesOf('holdfast hold')).toEqual([]);
    await twin.until(lock.release());
    const subject = { 'holdfast.namespace': 'test', 'holdfast.lock': 'wallet:42', 'holdfast.fence': lock.fence };
    expect(attributesOf('holdfast wait')).toEqual([
      { ...subject, 'holdfast.waited_ms': 0, 'holdfast.outcome': 'granted' },
    ]);
    expect(attributesOf('holdfast hold')).toEqual([{ ...subject, 'holdfast.outcome': 'released' }]);
    expect(spans('holdfast hold')[0]?.links[0]?.context).toEqual(spans('holdfast wait')[0]?.spanContext());
    for (const { status, instrumentationScope } of exporter.getFinishedSpans())
      expect([status.code, instrumentationScope.name]).toEqual([SpanStatusCode.UNSET, 'holdfast']);
  });

  it('hold the spans that the work makes', async () => {
    const { twin, one } = world();
    await twin.until(one.withLock('wallet:42', async () => trace.getTracer('work').startSpan('debit').end()));
    const [debit] = spans('debit');
    expect(debit?.parentSpanContext?.spanId).toBe(spans('holdfast hold')[0]?.spanContext().spanId);
  });

  it('do not report a held lock as a failure', async () => {
    const { twin, one, other } = world();
    await twin.until(other.acquire('wallet:42'));
    await expect(twin.until(one.acquire('wallet:42', { waitMs: 0 }))).rejects.toThrow(LockHeldError);
    await expect(twin.until(one.acquire('wallet:42', { waitMs: 500 }))).rejects.toThrow('');
    expect(attributesOf('holdfast wait').map((attributes) => attributes['holdfast.outcome'])).toEqual([
      'lock-held',
      'wait-timeout',
    ]);
    for (const { status } of spans('holdfast wait')) expect(status.code).toBe(SpanStatusCode.UNSET);
    expect(spans('holdfast hold')).toEqual([]);
  });

  it('do not show the message of an error that is not ours', async () => {
    const { twin, one, other } = world();
    await twin.until(other.acquire('wallet:42'));
    const giveUp = new AbortController();
    const waiting = one.acquire('wallet:42', { signal: giveUp.signal }).catch(() => undefined);
    await twin.settle();
    giveUp.abort(new RangeError('card 4711 declined'));
    await twin.until(waiting);
    expect(spans('holdfast wait')[0]?.status).toEqual({ code: SpanStatusCode.ERROR, message: 'RangeError' });
    expect(attributesOf('holdfast wait')).toMatchObject([{ 'holdfast.outcome': 'failed' }]);
  });

  it('report a lost lock as lost, at the time of the loss', async () => {
    const { twin, one } = world();
    const lock = await twin.until(one.acquire('wallet:42', { leaseMs: 10_000 }));
    twin.partition(one);
    await twin.advance(11_000);
    expect(lock.signal.aborted).toBe(true);
    expect(attributesOf('holdfast hold')).toMatchObject([{ 'holdfast.outcome': 'lost' }]);
    expect(spans('holdfast hold')[0]?.status).toMatchObject({ code: SpanStatusCode.ERROR });
    // Later events do not make a second span.
    twin.heal(one);
    await twin.until(lock.release().catch(() => undefined));
    expect(spans('holdfast hold')).toHaveLength(1);
  });

  it.each([
    ['its caller ended', undefined],
    ['took longer than its caller allowed', new DOMException('too late', 'TimeoutError')],
    ['its caller ended without an error', 'enough'],
  ])('report a wait that %s as aborted, which is no failure', async (_, reason) => {
    const { twin, one, other } = world();
    await twin.until(other.acquire('wallet:42'));
    const stop = new AbortController();
    const waiting = one.acquire('wallet:42', { signal: stop.signal, waitMs: 10_000 }).catch(() => 'ended');
    await twin.advance(100);
    stop.abort(reason);
    expect(await twin.until(waiting)).toBe('ended');
    expect(attributesOf('holdfast wait')).toMatchObject([{ 'holdfast.outcome': 'aborted' }]);
    expect(spans('holdfast wait')[0]?.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('report a wait that ended with its client as closed, which is no failure', async () => {
    const { twin, one, other } = world();
    await twin.until(other.acquire('wallet:42'));
    const waiting = one.acquire('wallet:42', { waitMs: 10_000 }).catch(() => 'ended');
    await twin.advance(100);
    await twin.until(one.close());
    expect(await twin.until(waiting)).toBe('ended');
    expect(attributesOf('holdfast wait')).toMatchObject([{ 'holdfast.outcome': 'closed' }]);
    expect(spans('holdfast wait')[0]?.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('name every lock that is taken at once', async () => {
    const { twin, one } = world();
    const both = await twin.until(one.acquireAll(['a', 'b']));
    await twin.until(both.release());
    const names = { 'holdfast.locks': ['a', 'b'], 'holdfast.fences': [both.fence('a'), both.fence('b')] };
    expect(attributesOf('holdfast wait')).toMatchObject([names]);
    expect(attributesOf('holdfast hold')).toMatchObject([{ ...names, 'holdfast.outcome': 'released' }]);
  });

  it('end when another process goes on with the lease', async () => {
    const { twin, one } = world();
    const lock = await twin.until(one.acquire('wallet:42'));
    const { leaseId } = lock.detach();
    expect(attributesOf('holdfast hold')).toMatchObject([{ 'holdfast.outcome': 'detached' }]);
    const told = JSON.stringify(
      exporter.getFinishedSpans().map(({ name, attributes, status, events }) => ({ name, attributes, status, events })),
    );
    expect(told).toContain('wallet:42');
    expect(told).not.toContain(leaseId);
  });
});

describe('an adopted lease', () => {
  it('has its own hold', async () => {
    const { twin, one, other } = world();
    const lease = (await twin.until(other.acquire('wallet:42'))).detach();
    const lock = await twin.until(one.adopt(lease));
    await twin.until(lock.release());
    expect(attributesOf('holdfast hold')).toMatchObject([
      { 'holdfast.lock': 'wallet:42', 'holdfast.fence': lease.fence, 'holdfast.outcome': 'released' },
    ]);
    await expect(twin.until(one.adopt(lease))).rejects.toThrow();
    expect(attributesOf('holdfast wait').at(-1)).toMatchObject({ 'holdfast.outcome': 'lease-lost' });
  });
});

describe('a tracer that fails', () => {
  it('breaks no lock', async () => {
    const twin = new Twin();
    const broken = () => {
      throw new Error('the tracer is broken');
    };
    const never = twin.client({ tracing: { wait: broken } });
    const late = twin.client({ tracing: { wait: () => ({ granted: broken, failed: broken }) } });
    for (const locks of [never, late]) {
      expect(await twin.until(locks.withLock('wallet:42', ({ fence }) => fence))).toBeGreaterThan(0);
    }
  });
});
