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

describe('without a token', () => {
  const rule = createAccessRule('MyHost', undefined);
  const local = ['localhost', 'localhost:4100', 'LOCALHOST', 'a-1.b.localhost:1', '127.0.0.1', '127.10.200.3:65535'];

  it.each([...local, '[::1]', '[::1]:4100', 'myhost', 'MYHOST:4100'])(
    'the service answers to its own name %s',
    (host) => {
      expect(rule({ host })).toBeUndefined();
      expect(rule({ host, origin: `http://${host}` })).toBeUndefined();
      expect(rule({ host, origin: `HTTPS://${host}` })).toBeUndefined();
    },
  );

  const foreign = [
    ...['evil.example', 'evil-localhost', 'localhost.evil.example', 'xlocalhost', 'evil!.localhost', '.localhost.x'],
    ...['127.0.0.1.evil.example', '127.0.0', '127.0.0.1234', '1127.0.0.1', 'localhost:', 'localhost:123456', '[::1]x'],
    ...['localhost:a', 'myhost.evil', 'myhost:4100:x', '127x0x0x1', '::1'],
  ];

  it.each(foreign)('the service does not answer to %s', (host) => {
    const refusal = { status: 403, title: 'Forbidden', code: 'forbidden' };
    expect(rule({ host })).toMatchObject({
      ...refusal,
      detail: expect.stringContaining(`the Host header is "${host}"`),
    });
    const origin = `http://${host}`;
    expect(rule({ host: 'localhost', origin })).toMatchObject({
      ...refusal,
      detail: expect.stringContaining(`the Origin header is "${origin}"`),
    });
  });

  it('a request needs a name, and an origin must be an address of the web', () => {
    expect(rule({})?.detail).toContain('the Host header is missing');
    for (const origin of ['null', '', 'file://localhost', 'x http://localhost'])
      expect(rule({ host: 'localhost', origin })?.code).toBe('forbidden');
  });

  it('an IPv6 address is written in brackets', () => {
    expect(createAccessRule('fe80::1', '')({ host: '[fe80::1]:4100' })).toBeUndefined();
    expect(createAccessRule('fe80::1', '')({ host: 'fe80::1' })?.code).toBe('forbidden');
  });
});

describe('with a token', () => {
  const rule = createAccessRule('127.0.0.1', 'secret');

  it.each(['Bearer secret', 'bearer   secret'])('%s is let in, under any name', (authorization) => {
    expect(rule({ authorization, host: 'evil.example' })).toBeUndefined();
  });

  it.each([undefined, '', 'secret', 'Bearer', 'Bearer other', 'Bearer secret2', 'x Bearer secret', 'Basic secret'])(
    '%s is refused, and told how to send the token',
    (authorization) => {
      expect(rule({ authorization, host: 'localhost' })).toMatchObject({
        status: 401,
        title: 'Unauthorized',
        code: 'unauthorized',
        headers: { 'www-authenticate': 'Bearer' },
        detail: expect.stringContaining('Authorization: Bearer <token>'),
      });
    },
  );
});
