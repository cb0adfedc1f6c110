/** A network between a client and the service. It cuts, delays, repeats, reorders and silences, by a rule. */
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { patientServer } from '../support/patient-server.ts';

/** What the service answered, whether or not the client got it. */
export interface Upstream {
  readonly at: number;
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** One request as it came from the client. */
export interface Exchange {
  readonly at: number;
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** `acquire`, `renew`, `release`, or the last part of another path. */
  readonly action: string;
  readonly lock: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly leaseId: string;
  /** The service's answers. There are two if the request was repeated. */
  readonly upstream: Upstream[];
}

/** What happens to a request. Several may happen together. */
export interface Fault {
  /** The connection is cut: before the request reached the service, or after. */
  readonly cut?: 'before' | 'after';
  /** The request reaches the service this much later. */
  readonly delayMs?: number;
  /** The connection is cut at once, and the request reaches the service this much later, behind newer ones. */
  readonly lateMs?: number;
  /** The answer comes this much later. */
  readonly answerAfterMs?: number;
  /** The service gets the request once more, this much later. */
  readonly repeatAfterMs?: number;
  /** No answer comes, and the connection stays open. The request does not reach the service. */
  readonly silent?: boolean;
  /** The proxy answers in place of the service. */
  readonly answer?: { readonly status: number; readonly body: object };
}

/** Gets the request, and how many of the same action came before it. */
export type Rule = (exchange: Exchange, before: number) => Fault | undefined;

const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export class FaultyProxy {
  /** The faults from now on. */
  rule: Rule = () => undefined;
  readonly exchanges: Exchange[] = [];
  /** Requests on their way to the service. */
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #target: string;
  readonly #server: Server;

  constructor(target: string) {
    this.#target = target;
    this.#server = patientServer((request, response) => void this.#pass(request, response));
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Waits for requests that are still late, so that no effect comes after the checks. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#underWay);
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const at = Date.now();
    const parts: Buffer[] = [];
    try {
      for await (const part of request) parts.push(part as Buffer);
    } catch {
      return;
    }
    const exchange = exchangeOf(at, request, Buffer.concat(parts).toString());
    const before = this.exchanges.filter(({ action }) => action === exchange.action).length;
    this.exchanges.push(exchange);
    const fault = this.rule(exchange, before) ?? {};
    if (fault.silent) return;
    if (fault.answer !== undefined) {
      send(response, fault.answer.status, fault.answer.body);
      return;
    }
    if (fault.cut === 'before' || fault.lateMs !== undefined) request.socket.destroy();
    if (fault.cut === 'before') return;
    if (fault.repeatAfterMs !== undefined)
      void this.#track(later(fault.repeatAfterMs).then(() => this.#forward(exchange)));
    const answered = this.#track(later(fault.lateMs ?? fault.delayMs ?? 0).then(() => this.#forward(exchange)));
    const answer = await answered.catch(() => undefined);
    if (answer === undefined || fault.cut === 'after') {
      request.socket.destroy();
      return;
    }
    if (fault.answerAfterMs !== undefined) await later(fault.answerAfterMs);
    send(response, answer.status, answer.body);
  }

  #track<T>(work: Promise<T>): Promise<T> {
    const tracked = work.finally(() => this.#underWay.delete(tracked));
    this.#underWay.add(tracked);
    return tracked;
  }

  async #forward(exchange: Exchange): Promise<Upstream> {
    const { host: _, connection: __, 'content-length': ___, 'transfer-encoding': ____, ...headers } = exchange.headers;
    const answer = await fetch(`${this.#target}${exchange.url}`, {
      method: exchange.method,
      headers: headers as Record<string, string>,
      ...(exchange.text === '' ? {} : { body: exchange.text }),
    });
    const text = await answer.text();
    const upstream = { at: Date.now(), status: answer.status, body: text === '' ? {} : JSON.parse(text) };
    exchange.upstream.push(upstream);
    return upstream;
  }
}

function exchangeOf(at: number, { method = '', url = '', headers }: IncomingMessage, text: string): Exchange {
  const [, , , kind, lock = ''] = (url.split('?')[0] ?? '').split('/');
  const action = url.split('?')[0]?.split('/').at(-1) ?? '';
  const body = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  const leaseId = String(body.leaseId ?? '');
  return {
    at,
    method,
    url,
    headers,
    text,
    action,
    lock: kind === 'locks' ? lock : '',
    body,
    leaseId,
    upstream: [],
  };
}

function send(response: ServerResponse, status: number, body: object): void {
  const type = status < 400 ? 'application/json' : 'application/problem+json';
  response.writeHead(status, { 'content-type': type });
  response.end(JSON.stringify(body));
}
