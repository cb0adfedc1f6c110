import { nameRules } from '../contract/limits.ts';
import type { Caller } from './caller.ts';
import { InvalidRequestError } from './errors.ts';
import type { Observe } from './observer.ts';
import type { Runtime } from './runtime.ts';
import type { Tracing } from './tracing.ts';
import type { Transport } from './transport.ts';

/** Times that bound the SDK's own patience. */
export interface Patience {
  /** For one answer. The service gives up on its store after about nine seconds, so that its 503 still arrives. */
  readonly requestMs: number;
  /** For one request with all its retries, if no wait was asked for: enough for two answers that never come. */
  readonly retryMs: number;
  /** For a release with its retries. After that, the lease expires by itself. */
  readonly releaseMs: number;
}

export const patienceDefault: Patience = { requestMs: 10_000, retryMs: 20_000, releaseMs: 5_000 };

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

/** Does it without having to be waited for. It is bounded by its own policy, and failing is nobody's error. */
export function inBackground({ background }: Core, work: Promise<unknown>): Promise<unknown> {
  const done: Promise<unknown> = work
    .catch(() => undefined)
    .finally(() => {
      background.delete(done);
    });
  background.add(done);
  return done;
}

/** Names stand in paths: one that isn't a name must not become another path. */
export function checkName(kind: string, name: string): string {
  const { pattern, allowed } = nameRules.resource;
  if (typeof name === 'string' && pattern.test(name)) return name;
  const message = `must be ${allowed}, got ${JSON.stringify(String(name).slice(0, 60))}`;
  throw new InvalidRequestError(`The name of a ${kind} ${message}.`, [{ field: kind, message }]);
}

export const checkNamespace = (namespace: string): string => {
  const { pattern, allowed } = nameRules.namespace;
  if (typeof namespace === 'string' && pattern.test(namespace)) return namespace;
  const message = `must be ${allowed}`;
  throw new InvalidRequestError(`namespace ${message}.`, [{ field: 'namespace', message }]);
};

/** Leaves out what was not given: the service refuses unknown fields, and JSON has no undefined. */
export const given = <T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
