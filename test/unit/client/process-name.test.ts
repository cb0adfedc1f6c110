import { hostname } from 'node:os';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Holdfast } from '../../../src/client/index.ts';
import { processName } from '../../../src/client/process-name.ts';

afterEach(() => vi.unstubAllGlobals());

describe('the owner of a client without one', () => {
  it('is the host and the process', () => {
    expect(processName()).toBe(`${hostname()}:${process.pid}`);
  });

  it('is the function and its log stream in Lambda', () => {
    const env = {
      AWS_LAMBDA_FUNCTION_NAME: 'settle',
      AWS_LAMBDA_LOG_STREAM_NAME: '2026/01/01/[$LATEST]0123456789abcdef',
    };
    vi.stubGlobal('process', { pid: 8, env });
    expect(processName()).toBe('settle:89abcdef');
  });

  it('is left to the service in a browser', () => {
    vi.stubGlobal('process', undefined);
    expect(processName()).toBeUndefined();
  });

  it.each([
    ['is sent if nobody is authenticated', {}, `${hostname()}:${process.pid}`],
    ['is not sent if the service knows the caller', { auth: () => ({ authorization: 'Bearer secret' }) }, undefined],
    ['is the one that was given', { owner: 'me' }, 'me'],
  ])('%s', async (_, options, owner) => {
    const bodies: { owner?: string }[] = [];
    const fetch = (_: unknown, { body }: RequestInit = {}) => {
      bodies.push(JSON.parse(String(body)));
      return Promise.resolve(Response.json({ status: 'granted', fence: 1, leaseMs: 5_000, remainingMs: 5_000 }));
    };
    const locks = new Holdfast({
      url: 'http://127.0.0.1:1',
      namespace: 'a',
      fetch: fetch as typeof globalThis.fetch,
      ...options,
    });
    await locks.acquire('a', { autoRenew: false });
    expect(bodies[0]?.owner).toBe(owner);
  });
});
