import { describe, expect, it } from 'vitest';
import { createAccessRule, createSocketRule } from '../../../src/local/access.ts';

const ours = { host: '127.0.0.1:4100' };
const foreign = { ...ours, origin: 'https://evil.example' };
const withToken = { ...foreign, authorization: 'Bearer s3cret' };

describe('access to a WebSocket', () => {
  it.each([
    ['without a token, to a program of this machine', undefined, ours, false, undefined],
    ['without a token, to the page of another site', undefined, foreign, false, 403],
    ['without a token, to the page of another site with a ticket', undefined, foreign, true, 403],
    ['with a token, to a page that has only a ticket', 's3cret', foreign, true, undefined],
    ['with a token, to a caller that has neither', 's3cret', ours, false, 401],
    ['with a token, to a caller that has it', 's3cret', withToken, false, undefined],
  ])('%s', (_, token, headers, hasTicket, status) => {
    expect(createSocketRule('127.0.0.1', token)(headers, hasTicket)?.status).toBe(status);
  });
});

describe('access to the service', () => {
  it('is checked by address if the token is empty: an empty token would let everybody in', () => {
    const rule = createAccessRule('127.0.0.1', '');
    expect([rule(ours), rule(foreign)?.status]).toEqual([undefined, 403]);
    expect(rule({ host: 'evil.example' })?.status).toBe(403);
  });
});
