/** Decides which requests are allowed: from this machine, from this page, and with the token. */
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
 * Checks what the browser itself sends and a page can't change. Undefined if the request is allowed.
 *
 * - The address of the peer: the console is only for this machine, even if the service listens on other addresses.
 * - `Host`: shows a foreign name that resolves to 127.0.0.1 (DNS rebinding).
 * - `Origin` and `Sec-Fetch-Site`: show a foreign page. A page on another port of this machine is foreign too, although browsers
 *   count it as the same site and send the cookie.
 */
export function checkOrigin({ headers, socket }: IncomingMessage): Refusal | undefined {
  if (!loopbackAddress.test(socket.remoteAddress ?? '')) {
    return forbidden('The console answers only on the machine that it runs on.');
  }
  const { host = '', origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode } = headers;
  if (!loopbackHost.test(host)) {
    return forbidden(`The console answers only to loopback names, and the Host header is ${JSON.stringify(host)}.`);
  }
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`) {
    return forbidden(`The console answers only to its own page, and the Origin header is ${JSON.stringify(origin)}.`);
  }
  // A link on another site may open the page. The page shows nothing until it asks the server, and those requests have its own origin.
  const foreign = site !== undefined && site !== 'same-origin' && site !== 'none' && mode !== 'navigate';
  return foreign ? forbidden('The console answers only to its own page.') : undefined;
}

// Hashes have equal lengths, so the time of the comparison does not show how much of a guess was right.
const equal = (one: string, other: string): boolean =>
  timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'));

/** Checks the token at the first visit, and then the cookie that the browser got for it. */
export class TokenAccess {
  readonly #token: string;
  /** Made from the token, so it stays valid as long as the token, even after a restart. */
  readonly #pass: string;

  constructor(token: string) {
    this.#token = token;
    this.#pass = createHmac('sha256', token).update('holdfast-console').digest('base64url');
  }

  /** The cookie for a browser that has the right token in the address. */
  admit(request: IncomingMessage, token: string | null): string | undefined {
    if (token === null || !equal(token, this.#token)) return undefined;
    // Scripts can't read it, other sites can't send it, and other paths of this port never see it.
    return `${cookieName(request)}=${this.#pass}; Path=/console; HttpOnly; SameSite=Strict`;
  }

  /** Undefined if this browser was admitted. */
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
      message: 'Open the address that was printed when the console started: it contains the token.',
    };
  }
}

/** Cookies are the same for all ports. So each console of a machine has its own cookie name. */
const cookieName = ({ headers }: IncomingMessage): string =>
  `holdfast-console-${loopbackHost.exec(headers.host ?? '')?.[1] ?? '80'}`;
