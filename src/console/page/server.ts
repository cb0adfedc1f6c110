/** Speaks to the server part, which speaks to the service. */
import type { LockEvent, LockSummary, LockView } from '../../client/index.ts';

export interface About {
  readonly namespace: string;
  readonly namespaces: readonly string[];
  readonly serviceUrl: string;
  readonly auth: 'none' | 'bearer' | 'sigv4';
  readonly allowRevoke: boolean;
}

export interface RecordShown {
  readonly key: string;
  readonly value: unknown;
  readonly version: number;
  readonly fence: number | null;
  readonly updatedAt: string;
}

export class AskError extends Error {
  readonly code: string;
  readonly status: number;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

type At = { readonly at: number };

/** The server part answers within this time, or says that the service does not. */
const answerMs = 15_000;

async function ask<T>(path: string, body?: object): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/console/api/${path}`, {
      signal: AbortSignal.timeout(answerMs),
      ...(body === undefined
        ? {}
        : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
  } catch {
    throw new AskError(0, 'console-gone', 'The console does not answer. Is it still running?');
  }
  const answer = (await response.json().catch(() => ({}))) as { error?: { code: string; message: string } };
  if (response.ok) return answer as T;
  const { code = 'unexpected', message = `The console answered with status ${response.status}.` } = answer.error ?? {};
  throw new AskError(response.status, code, message);
}

const part = encodeURIComponent;

export const server = {
  about: () => ask<About>('about'),
  list: (ns: string) => ask<{ locks: LockSummary[]; complete: boolean } & At>(`${part(ns)}/locks`),
  inspect: (ns: string, lock: string) => ask<LockView & At>(`${part(ns)}/locks/${part(lock)}`),
  look: (ns: string, locks: readonly string[]) =>
    ask<{ locks: LockView[] } & At>(`${part(ns)}/look?${new URLSearchParams(locks.map((lock) => ['lock', lock]))}`),
  history: (ns: string, lock: string, limit: number) =>
    ask<{ events: LockEvent[] } & At>(`${part(ns)}/locks/${part(lock)}/history?limit=${limit}`),
  record: (ns: string, key: string) => ask<RecordShown & At>(`${part(ns)}/records/${part(key)}`),
  revoke: (ns: string, lock: string, body: { fence: number; reason: string }) =>
    ask<{ revoked: true }>(`${part(ns)}/locks/${part(lock)}/revoke`, body),
};

/** `lost`: the console itself is out of reach. `reconnecting`: the console is there, the service is not. */
export type LinkState = 'connecting' | 'live' | 'reconnecting' | 'unwatched' | 'lost';

export interface LinkListener {
  events(events: readonly (LockEvent & { lock: string })[]): void;
  /** `missed` where events may have been lost to this page. */
  state(state: LinkState, missed: boolean): void;
}

/** A beat comes every 10 s. After three that did not, the connection is taken for gone. */
const silenceMs = 35_000;
const retryMsMin = 500;
const retryMsMax = 8_000;

/** The stream of events, over as many connections as it takes. */
export class Link {
  readonly #listener: LinkListener;
  readonly #namespace: string;
  #source: EventSource | undefined;
  #last: string | undefined;
  #failures = 0;
  #wasOpen = false;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;

  constructor(namespace: string, listener: LinkListener) {
    this.#namespace = namespace;
    this.#listener = listener;
    this.#open();
  }

  close(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#source?.close();
    this.#source = undefined;
  }

  #open(): void {
    const after = this.#last === undefined ? '' : `?after=${part(this.#last)}`;
    const source = new EventSource(`/console/api/${part(this.#namespace)}/events${after}`);
    this.#source = source;
    const heard = () => {
      this.#failures = 0;
      clearTimeout(this.#silence);
      this.#silence = setTimeout(() => this.#fail(), silenceMs);
    };
    source.addEventListener('open', heard);
    source.addEventListener('beat', heard);
    source.addEventListener('events', (message) => {
      heard();
      this.#last = message.lastEventId;
      this.#listener.events(JSON.parse(message.data));
    });
    source.addEventListener('link', (message) => {
      heard();
      const { state, missed } = JSON.parse(message.data) as { state: LinkState; missed: boolean };
      // A page that never saw an event can't say where it stopped.
      const unknown = this.#wasOpen && this.#last === undefined && state === 'live';
      this.#listener.state(state, missed || unknown);
      if (state === 'live') this.#wasOpen = true;
    });
    source.addEventListener('error', () => this.#fail());
  }

  #fail(): void {
    this.close();
    this.#listener.state('lost', false);
    const delayMs = Math.min(retryMsMax, retryMsMin * 2 ** this.#failures++);
    this.#retry = setTimeout(() => this.#open(), delayMs);
  }
}
