/** The port between the SDK and the service: HTTP, the store itself in direct mode, or the twin. */

/** One request. It has the name of its operation, because a transport without URLs needs it. */
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
  /** The error behind a refusal, if it is known. A remote service never sends it. */
  readonly cause?: unknown;
}

/** Called by an open watch. Messages come in order. `closed` is the last call. */
export interface WatchHandlers {
  message(body: unknown): void;
  closed(cause: unknown): void;
}

/** Called by a WebSocket. `closed` is called once, even if the socket never opened. */
export interface SocketHandlers extends WatchHandlers {
  open(): void;
}

export interface OpenSocket {
  send(text: string): void;
  close(): void;
  /** Sets whether the open socket keeps the process alive. Returns false if that can't be changed. */
  keepsAlive(wanted: boolean): boolean;
}

/**
 * Sends requests to the service. It rejects only if no answer came. A refusal is an answer.
 *
 * @example
 * ```ts
 * const counting: Transport = { request: (call, signal) => { calls += 1; return inner.request(call, signal); } };
 * ```
 */
export interface Transport {
  /** Where requests go, for error messages: a URL, or the name of a table. */
  readonly target?: string | undefined;
  request(call: Call, signal: AbortSignal): Promise<Answer>;
  /** Opens a watch. The function that it returns closes the watch. Missing if watching is not possible. */
  watch?(query: Readonly<Record<string, string>>, handlers: WatchHandlers): () => void;
  /** Opens a WebSocket. Missing if that is not possible. Then waits are long polls. */
  socket?(url: string, query: Readonly<Record<string, string>>, handlers: SocketHandlers): OpenSocket;
  close?(): Promise<void> | void;
}

/**
 * The path of a call. RFC 3986 allows `: @ = + ~` in a path, so they are not escaped. An escaped character would be escaped
 * twice in the signature, but API Gateway may check the signature against the decoded path.
 */
export const pathOf = ({ route, parameters }: Call): string =>
  route.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(parameters[name] ?? '').replace(/%(3A|40|3D|2B)/g, (escaped) => decodeURIComponent(escaped)),
  );
