/** Sends requests to the server part, which asks the service. */
import type { LockEvent, LockSummary, LockView } from '../../client/index.ts';

export interface About {
  readonly namespace: string;
  readonly namespaces: readonly string[];
  readonly serviceUrl: string;
  readonly auth: 'none' | 'bearer' | 'sigv4';
  readonly mayChange: boolean;
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

/** How far deliveries were behind at the last answer, if they were. */
export let behindMs: number | undefined;

/** The server part answers within this time, even if the service does not. */
const answerMs = 15_000;

const pathOf = (parts: readonly string[]): string => `/console/api/${parts.map(encodeURIComponent).join('/')}`;

export async function ask<T>(parts: readonly string[], search: unknown = '', more: RequestInit = {}): Promise<T> {
  const response = await fetch(`${pathOf(parts)}?${search}`, { signal: AbortSignal.timeout(answerMs), ...more }).catch(
    () => {
      throw new AskError(0, 'console-gone', 'The console does not answer. Is it still running?');
    },
  );
  const answer = (await response.json().catch(() => ({}))) as {
    error?: { code: string; message: string };
    behindMs?: number;
  };
  behindMs = answer.behindMs;
  if (response.ok) return answer as T;
  const { status } = response;
  const { code = 'unexpected', message = `The console answered with status ${status}.` } = answer.error ?? {};
  throw new AskError(status, code, message);
}

export const askAbout = () => ask<About>(['about']);

export const askList = (ns: string) => ask<{ locks: LockSummary[]; complete: boolean } & At>([ns, 'locks']);

export const askLook = (ns: string, locks: readonly string[]) =>
  ask<{ locks: LockView[] } & At>([ns, 'look'], new URLSearchParams(locks.map((lock) => ['lock', lock])));

export const askHistory = (ns: string, lock: string, limit: number) =>
  ask<{ events: LockEvent[] } & At>([ns, 'locks', lock, 'history'], `limit=${limit}`);

export const askRecord = (ns: string, key: string) => ask<RecordShown & At>([ns, 'records', key]);

/** `lost`: the console can't be reached. `reconnecting`: the console answers, but the service does not. */
export type LinkState = 'connecting' | 'live' | 'reconnecting' | 'unwatched' | 'lost';

/** The server part sends a message at least every 10 s. If three are missing, the connection counts as broken. */
const silenceMs = 35_000;
const retryMsMin = 500;
const retryMsMax = 8_000;

/**
 * Listens to the stream of events, over as many connections as needed. It calls `onState` with `missed` if this page may have
 * missed events. The function that it returns ends it.
 */
export function listen(
  namespace: string,
  onEvents: (events: readonly (LockEvent & { lock: string })[]) => void,
  onState: (state: LinkState, missed: boolean) => void,
): () => void {
  let source: EventSource;
  let last = '';
  let failures = 0;
  let wasOpen = false;
  let retry: ReturnType<typeof setTimeout>;
  let silence: ReturnType<typeof setTimeout>;
  const close = () => {
    clearTimeout(retry);
    clearTimeout(silence);
    source.close();
  };
  const fail = () => {
    close();
    onState('lost', false);
    retry = setTimeout(open, Math.min(retryMsMax, retryMsMin * 2 ** failures++));
  };
  const open = () => {
    source = new EventSource(`${pathOf([namespace, 'events'])}${last && `?after=${encodeURIComponent(last)}`}`);
    const on = (type: string, heard: (message: MessageEvent) => void) =>
      source.addEventListener(type, (message) => {
        failures = 0;
        clearTimeout(silence);
        silence = setTimeout(fail, silenceMs);
        heard(message as MessageEvent);
      });
    on('open', () => {});
    on('beat', () => {});
    on('events', ({ lastEventId, data }) => {
      last = lastEventId;
      onEvents(JSON.parse(data));
    });
    on('link', ({ data }) => {
      const { state, missed } = JSON.parse(data) as { state: LinkState; missed: boolean };
      const isLive = state === 'live';
      // A page that never got an event can't say which one was its last.
      onState(state, missed || (wasOpen && !last && isLive));
      wasOpen ||= isLive;
    });
    source.onerror = fail;
  };
  open();
  return close;
}
