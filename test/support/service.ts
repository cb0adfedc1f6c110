import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import type { Patience } from '../../src/client/core.ts';
import type { LocalOptions } from '../../src/local/options.ts';
import { type Running, serve } from '../../src/local/serve.ts';
import './engine.setup.ts';

const silent = { info: () => {}, warn: () => {}, error: () => {} };

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // Tests read answers as their callers would: by field, without a schema in between.
  // biome-ignore lint/suspicious/noExplicitAny: what a JSON answer holds is what the test checks.
  readonly body: any;
}

export type Call = (method: string, path: string, body?: unknown, init?: RequestInit) => Promise<Answer>;

export interface TestService extends Running {
  readonly table: string;
  readonly call: Call;
}

export const callAt =
  (url: string): Call =>
  async (method, path, body, init = {}) => {
    const response = await fetch(`${url}${path}`, {
      method,
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...init,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(init.headers as Record<string, string>),
      },
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) };
  };

/** A caller gets 503 if the outcome is unknown, and sends the same request again. A harsh table makes this happen. */
const triesMax = 3;
const repeating =
  (call: Call): Call =>
  async (...request) => {
    for (let tries = 1; ; tries++) {
      const answer = await call(...request);
      if (answer.status !== 503 || tries >= triesMax) return answer;
    }
  };

/** The whole service in this process, on the shared engine. It has its own table unless one is named. */
export async function startService(more: Partial<LocalOptions> = {}): Promise<TestService> {
  const { endpoint, region } = inject('engine');
  const table = more.table ?? `holdfast-test-${randomUUID()}`;
  const options: LocalOptions = {
    port: 0,
    host: '127.0.0.1',
    dataFolder: '.unused',
    memory: true,
    engine: endpoint as `http://${string}`,
    region,
    pollMs: 20_000,
    consoleMayChange: false,
    ...more,
    table,
  };
  const running = await serve(options, silent);
  const call = callAt(running.url);
  return { ...running, table, call: inject('engine').harsh ? repeating(call) : call };
}

/**
 * For clients of tests that are not about time. By default an acquire that does not wait gives up after two seconds,
 * and a busy machine may need longer for an answer.
 */
export const patient: Patience = { requestMs: 60_000, retryMs: 60_000, tryMs: 30_000, releaseMs: 60_000 };

/** Calls on one lock, as one client makes them. */
export function lockAt(call: Call, name: string, namespace = 'test') {
  const path = `/v1/${namespace}/locks/${name}`;
  return {
    acquire: (body: object = {}, init?: RequestInit) => call('POST', `${path}/acquire`, body, init),
    renew: (body: object) => call('POST', `${path}/renew`, body),
    release: (leaseId: string) => call('POST', `${path}/release`, { leaseId }),
    revoke: (body: object) => call('POST', `${path}/revoke`, body),
    inspect: () => call('GET', path),
    check: (fence: number) => call('GET', `${path}/check?fence=${fence}`),
  };
}

export const newLeaseId = (): string => randomUUID();
