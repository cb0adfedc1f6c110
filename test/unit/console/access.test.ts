import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import { checkOrigin, TokenAccess } from '../../../src/console/server/access.ts';

const request = (headers: Record<string, string>, remoteAddress = '127.0.0.1'): IncomingMessage =>
  ({ headers: { host: 'localhost:4100', ...headers }, socket: { remoteAddress } }) as unknown as IncomingMessage;

describe('the console', () => {
  it.each(['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1'])('answers a peer on this machine: %s', (address) => {
    expect(checkOrigin(request({}, address))).toBeUndefined();
  });

  it.each(['192.168.1.5', '::ffff:10.0.0.1', '128.0.0.1', ''])('refuses a peer from elsewhere: %j', (address) => {
    expect(checkOrigin(request({}, address))).toMatchObject({ status: 403, code: 'forbidden' });
  });

  it('has another cookie on each port, because browsers send a cookie to all of them', () => {
    const access = new TokenAccess('secret');
    const cookieAt = (host: string) => access.admit(request({ host }), 'secret')?.split(';')[0] ?? '';
    expect(cookieAt('localhost:4100')).toMatch(/^holdfast-console-4100=/);
    expect(cookieAt('localhost')).toMatch(/^holdfast-console-80=/);
    const cookie = `a=b; ${cookieAt('localhost:4100')}; c=d`;
    expect(access.check(request({ cookie }))).toBeUndefined();
    expect(access.check(request({ cookie, host: 'localhost:4200' }))).toMatchObject({ status: 401 });
    expect(new TokenAccess('other').check(request({ cookie }))).toMatchObject({ status: 401 });
  });

  it('never gives its token away in the cookie', () => {
    expect(new TokenAccess('secret').admit(request({}), 'secret')).not.toContain('secret');
    expect(new TokenAccess('secret').admit(request({}), 'guess')).toBeUndefined();
    expect(new TokenAccess('secret').admit(request({}), null)).toBeUndefined();
  });
});
