/** The port between the SDK and the service: HTTP, the store itself in direct mode, or the twin. */

/** One request. It names its operation, so that a transport without URLs can find it. */
export interface Call {
  /** As the OpenAPI document names it: `acquireLock`, `getRecord`, … */
  readonly operation: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** The route, such as `/v1/{ns}/locks/{name}/acquire`. */
  readonly route: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>> | undefined;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
}

export interface Answer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  /** What was underneath a refusal, where it is known: never from a remote service. */
  readonly cause?: unknown;
}

/** An open watch. Messages come in order; `closed` ends it. */
export interface WatchHandlers {
  message(body: unknown): void;
  closed(cause: unknown): void;
}

/** A WebSocket as it opens, speaks and ends. `closed` comes once, also where it never opened. */
export interface SocketHandlers extends WatchHandlers {
  open(): void;
}

export interface OpenSocket {
  send(text: string): void;
  close(): void;
  /** Whether the open socket keeps the process alive. False comes back where it does in any case. */
  keepsAlive(wanted: boolean): boolean;
}

/**
 * Carries requests to the service. It rejects only when no answer came; a refusal is an answer.
 *
 * @example
 * ```ts
 * const counting: Transport = { request: (call, signal) => { calls += 1; return inner.request(call, signal); } };
 * ```
 */
export interface Transport {
  /** Where requests go, for messages: a URL, or the name of a table. */
  readonly target?: string | undefined;
  request(call: Call, signal: AbortSignal): Promise<Answer>;
  /** Opens a watch; what it returns closes it. Absent if there is nothing to watch by. */
  watch?(query: Readonly<Record<string, string>>, handlers: WatchHandlers): () => void;
  /** Opens a WebSocket. Absent where there is none: then waits are long polls. */
  socket?(url: string, query: Readonly<Record<string, string>>, handlers: SocketHandlers): OpenSocket;
  close?(): Promise<void> | void;
}

/**
 * The path of a call. RFC 3986 allows `: @ = + ~` in a path as they are, and so they are sent: an escaped one is signed twice escaped,
 * and API Gateway may check the signature against the decoded path.
 */
export const pathOf = ({ route, parameters }: Call): string =>
  route.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(parameters[name] ?? '').replace(/%(3A|40|3D|2B)/g, (escaped) => decodeURIComponent(escaped)),
  );
