/** Decides who may come in: this machine, through this page, with the token. */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export interface Refusal {
  readonly status: 401 | 403;
  readonly code: string;
  readonly message: string;
}

const loopbackAddress = /^(?:::ffff:)?127(?:\.\d{1,3}){3}$|^::1$/i;
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::(\d{1,5}))?$/i;

const forbidden = (message: string): Refusal => ({ status: 403, code: 'forbidden', message });

/**
 * Checks what a browser says by itself and a page can't change. Undefined means: go on.
 *
 * - The peer's address: the console is for this machine, also where the service listens on others.
 * - `Host`: a foreign name that was made to resolve to 127.0.0.1 (DNS rebinding) stands there.
 * - `Origin` and `Sec-Fetch-Site`: a page from elsewhere stands there. Another port of this machine is elsewhere too, although it
 *   counts as the same site and its requests carry the cookie.
 */
export function checkOrigin({ headers, socket }: IncomingMessage): Refusal | undefined {
  if (!loopbackAddress.test(socket.remoteAddress ?? '')) {
    return forbidden('The console answers only to the machine that it runs on.');
  }
  const { host = '', origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode } = headers;
  if (!loopbackHost.test(host)) {
    return forbidden(`The console answers only to loopback names, and the Host header is ${JSON.stringify(host)}.`);
  }
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`) {
    return forbidden(`The console answers only to its own page, and the Origin header is ${JSON.stringify(origin)}.`);
  }
  // A link from elsewhere may open the page. It shows nothing before it has asked, and then it is its own origin.
  const foreign = site !== undefined && site !== 'same-origin' && site !== 'none' && mode !== 'navigate';
  return foreign ? forbidden('The console answers only to its own page.') : undefined;
}

// Hashes have equal lengths, so that neither the time nor an early return tells how much of a guess was right.
const equal = (one: string, other: string): boolean =>
  timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'));

/** Knows the token of the first visit, and the cookie that it is exchanged for. */
export class Door {
  readonly #token: string;
  /** Made from the token, so that it stays good where the token does, such as over a restart. */
  readonly #pass: string;

  constructor(token: string) {
    this.#token = token;
    this.#pass = createHmac('sha256', token).update('holdfast-console').digest('base64url');
  }

  /** The cookie for a visitor with the right token in the address. */
  admit(request: IncomingMessage, token: string | null): string | undefined {
    if (token === null || !equal(token, this.#token)) return undefined;
    // Scripts can't read it, other sites can't send it, and other paths of this port never see it.
    return `${cookieName(request)}=${this.#pass}; Path=/console; HttpOnly; SameSite=Strict`;
  }

  /** Undefined means: this visitor was admitted. */
  check(request: IncomingMessage): Refusal | undefined {
    const name = `${cookieName(request)}=`;
    const given = (request.headers.cookie ?? '')
      .split(/; */)
      .find((cookie) => cookie.startsWith(name))
      ?.slice(name.length);
    if (given !== undefined && equal(given, this.#pass)) return undefined;
    return {
      status: 401,
      code: 'no-token',
      message: 'Open the address that was printed when the console started: it carries the token.',
    };
  }
}

/** Cookies don't know ports: two consoles on one machine must not take each other's. */
const cookieName = ({ headers }: IncomingMessage): string =>
  `holdfast-console-${loopbackHost.exec(headers.host ?? '')?.[1] ?? '80'}`;
