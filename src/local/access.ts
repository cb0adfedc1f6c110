import { hash, timingSafeEqual } from 'node:crypto';
import type { Refusal } from './http-answer.ts';

/** Decides which requests reach the gateway, before a handler runs. Undefined lets the request through. */
export type AccessRule = (headers: Readonly<Record<string, string | undefined>>) => Refusal | undefined;

export type SocketRule = (
  headers: Readonly<Record<string, string | undefined>>,
  hasTicket: boolean,
) => Refusal | undefined;

// Hashes have equal lengths, so the time of the comparison does not reveal how much of a guess was right.
const digest = (text: string): Buffer => hash('sha256', text, 'buffer');

function requireToken(token: string): AccessRule {
  const expected = digest(token);
  return (headers) => {
    const given = /^bearer +(.+)$/i.exec(headers.authorization ?? '')?.[1];
    if (given !== undefined && timingSafeEqual(digest(given), expected)) return undefined;
    return {
      status: 401,
      title: 'Unauthorized',
      code: 'unauthorized',
      headers: { 'www-authenticate': 'Bearer' },
      detail: 'Expected the header "Authorization: Bearer <token>" with the token that this service was started with.',
    };
  };
}

const loopbackPattern = /^(?:localhost|[a-z0-9.-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

const stripPort = (host: string): string => host.replace(/:\d{1,5}$/, '');

/**
 * Without a token, any program on this machine is trusted, and so is any page in its browser. A page can reach a
 * loopback port in two ways. Each shows in a header that pages can't set:
 *
 * - DNS rebinding: the page's own name is made to resolve to 127.0.0.1, so the browser takes this service for the
 *   page's origin. `Host` then has the foreign name.
 * - A cross-site request, or a WebSocket, which no same-origin policy stops. `Origin` then has the foreign origin.
 */
function requireLoopback(boundHost: string): AccessRule {
  const bound = boundHost.includes(':') ? `[${boundHost}]` : boundHost.toLowerCase();
  const isOurs = (host: string): boolean => loopbackPattern.test(host) || stripPort(host).toLowerCase() === bound;
  const refuse = (header: string, value: string | undefined): Refusal => ({
    status: 403,
    title: 'Forbidden',
    code: 'forbidden',
    detail: `Without a token this service answers only to loopback names, and the ${header} header is ${
      value === undefined ? 'missing' : JSON.stringify(value)
    }. Start it with a token to use another name.`,
  });
  return (headers) => {
    if (headers.host === undefined || !isOurs(headers.host)) return refuse('Host', headers.host);
    const { origin } = headers;
    if (origin === undefined) return undefined;
    const originHost = /^https?:\/\/(.+)$/i.exec(origin)?.[1];
    return originHost !== undefined && isOurs(originHost) ? undefined : refuse('Origin', origin);
  };
}

/**
 * For a WebSocket. A ticket may replace the token, because a browser can't send headers with a WebSocket. The service
 * itself checks the ticket. If no token is required, a page of another site is refused even with a ticket.
 */
export function createSocketRule(boundHost: string, token: string | undefined): SocketRule {
  const access = createAccessRule(boundHost, token);
  const asksToken = token !== undefined && token !== '';
  return (headers, hasTicket) => (hasTicket && asksToken ? undefined : access(headers));
}

export const createAccessRule = (boundHost: string, token: string | undefined): AccessRule =>
  token === undefined || token === '' ? requireLoopback(boundHost) : requireToken(token);
