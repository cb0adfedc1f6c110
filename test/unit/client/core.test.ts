/** What all parts of a client share: the limits of its calls, its background work and the check of names. */
import { describe, expect, it } from 'vitest';
import {
  ask,
  type Core,
  checkName,
  checkNamespace,
  inBackground,
  patienceDefault,
  policyOf,
  releasePolicyOf,
} from '../../../src/client/core.ts';
import { InvalidRequestError } from '../../../src/client/errors.ts';
import type { Call } from '../../../src/client/transport.ts';

const patience = { requestMs: 4_000, retryMs: 3_000, tryMs: 2_000, releaseMs: 1_000 };

describe('the policy of a call', () => {
  it('has the patience of the client, unless the call has its own deadline', () => {
    const { signal } = new AbortController();
    expect(policyOf({ patience })).toEqual({ deadlineMs: 3_000, attemptMs: 4_000, signal: undefined });
    expect(policyOf({ patience }, { signal, deadlineMs: 7 })).toEqual({ deadlineMs: 7, attemptMs: 4_000, signal });
  });

  it('has the defaults that the documentation names', () => {
    expect(patienceDefault).toEqual({ requestMs: 10_000, retryMs: 5_000, tryMs: 1_000, releaseMs: 5_000 });
  });

  it('leaves time for a second try of a release, which goes first', () => {
    expect(releasePolicyOf({ patience })).toEqual({ deadlineMs: 1_000, attemptMs: 500, urgent: true });
    expect(releasePolicyOf({ patience }, 300)).toEqual({ deadlineMs: 300, attemptMs: 150, urgent: true });
  });

  it('goes to the caller with the request, whose answer has the body', async () => {
    const sent: unknown[] = [];
    const caller = {
      call: async (...asked: unknown[]) => {
        sent.push(asked);
        return { status: 200, headers: {}, body: 'the body' };
      },
    };
    const call: Call = { operation: 'health', method: 'GET', route: '/v1/health', parameters: {} };
    expect(await ask({ caller, patience } as unknown as Core, call, { deadlineMs: 7 })).toBe('the body');
    expect(sent).toEqual([[call, { deadlineMs: 7, attemptMs: 4_000, signal: undefined }]]);
  });
});

describe('work in the background', () => {
  it('is known until it has ended, and its failure is nobody’s', async () => {
    const core = { background: new Set<Promise<unknown>>() } as unknown as Core;
    const { promise, reject } = Promise.withResolvers<void>();
    const done = inBackground(core, promise);
    expect([...core.background]).toEqual([done]);
    reject(new Error('broken'));
    expect(await done).toBeUndefined();
    expect(core.background.size).toBe(0);
  });
});

describe('a name', () => {
  it('may be part of a path as it is', () => {
    expect(checkName('lock', 'wallet:42@eu')).toBe('wallet:42@eu');
    expect(checkNamespace('payments')).toBe('payments');
  });

  it.each([
    ['../other', '"../other"'],
    ['', '""'],
    [7, '"7"'],
    [undefined, '"undefined"'],
    [`/${'x'.repeat(100)}`, `"/${'x'.repeat(59)}"`],
  ])('is refused before a request is sent: %s', (name, shown) => {
    const refused = () => checkName('lock', name as string);
    expect(refused).toThrow(InvalidRequestError);
    expect(refused).toThrow(/^The name of a lock must be .+, got /);
    expect(refused).toThrow(new RegExp(`got ${shown}`));
  });

  it.each(['a/b', '', undefined, ['payments']])('of a namespace is refused too: %s', (namespace) => {
    const refused = () => checkNamespace(namespace as string);
    expect(refused).toThrow(InvalidRequestError);
    expect(refused).toThrow(/namespace must be /);
  });
});
