import type { Caller } from './caller.ts';
import { InvalidRequestError } from './errors.ts';
import type { Observe } from './observer.ts';
import type { Runtime } from './runtime.ts';
import type { Tracing } from './tracing.ts';
import type { Call, Transport } from './transport.ts';

/** Times that bound the SDK's own patience. */
export interface Patience {
  /** For one answer. The service gives up on its store after about nine seconds, so that its 503 still arrives. */
  readonly requestMs: number;
  /** For one request with all its retries, where no wait was asked for. Two answers that never come fit into it. */
  readonly retryMs: number;
  /** For a release with its retries: after that the lease runs out by itself. */
  readonly releaseMs: number;
}

export const patienceDefault: Patience = { requestMs: 10_000, retryMs: 20_000, releaseMs: 5_000 };

/** The longest that the service keeps one waiting request open: API Gateway ends it after 30 s. */
export const pollMsMax = 30_000;

export type Tier = 'correctness' | 'efficiency';

export interface Defaults {
  readonly owner?: string | undefined;
  readonly leaseMs?: number | undefined;
  readonly waitMs?: number | undefined;
  readonly tier?: Tier | undefined;
  readonly onUnavailable?: 'fail-closed' | 'fail-open' | undefined;
}

/** Something that `close` gives back. */
export interface Closable {
  giveBack(): Promise<unknown>;
}

/** What the parts of one client share. */
export interface Core {
  readonly namespace: string;
  readonly transport: Transport;
  readonly caller: Caller;
  readonly runtime: Runtime;
  readonly observe: Observe;
  readonly tracing: Tracing;
  readonly patience: Patience;
  readonly defaults: Defaults;
  /** What is held or open now. */
  readonly open: Set<Closable>;
  /** Requests that nobody waits for, but that `close` does. */
  readonly background: Set<Promise<unknown>>;
  /** Fires when the client begins to close: waits end. */
  readonly closing: AbortSignal;
}

/** Does it without being waited for. It is bounded by its own policy, and failing is nobody's error. */
export function inBackground({ background }: Core, work: Promise<unknown>): void {
  const done: Promise<unknown> = work
    .catch(() => undefined)
    .finally(() => {
      background.delete(done);
    });
  background.add(done);
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._:@=+~-]{0,254}$/;

/** Names stand in paths: one that isn't a name must not become another path. */
export function checkName(kind: string, name: string): string {
  if (typeof name === 'string' && namePattern.test(name)) return name;
  const allowed = '1 to 255 of A-Z, a-z, 0-9 and . _ : @ = + ~ -, starting with a letter or digit';
  const message = `must be ${allowed}, got ${JSON.stringify(String(name).slice(0, 60))}`;
  throw new InvalidRequestError(`The name of a ${kind} ${message}.`, [{ field: kind, message }]);
}

export const checkNamespace = (namespace: string): string => {
  if (typeof namespace === 'string' && /^[a-z0-9][a-z0-9-]{0,62}$/.test(namespace)) return namespace;
  const message = 'must be 1 to 63 of a-z, 0-9 and -, not starting with -';
  throw new InvalidRequestError(`namespace ${message}.`, [{ field: 'namespace', message }]);
};

/** A call about one lock. */
export const lockCall = (
  { namespace }: Core,
  call: Pick<Call, 'operation' | 'method' | 'body' | 'query'> & { name: string; action?: string },
): Call => ({
  operation: call.operation,
  method: call.method,
  route: `/v1/{ns}/locks/{name}${call.action === undefined ? '' : `/${call.action}`}`,
  parameters: { ns: namespace, name: call.name },
  ...(call.query === undefined ? {} : { query: call.query }),
  ...(call.body === undefined ? {} : { body: call.body }),
});

/** Leaves out what was not given: the service refuses unknown fields, and JSON has no undefined. */
export const given = <T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
