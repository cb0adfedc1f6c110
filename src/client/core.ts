import { nameRules } from '../contract/limits.ts';
import type { Turns } from '../tools/turns.ts';
import type { Caller, CallPolicy } from './caller.ts';
import { invalidField } from './errors.ts';
import type { Observe } from './observer.ts';
import type { Runtime } from './runtime.ts';
import type { Sockets } from './sockets.ts';
import type { Tracing } from './tracing.ts';
import type { Call, Transport } from './transport.ts';

/** How long the SDK tries and waits for answers. */
export interface Patience {
  /** For one answer. If its store does not answer, the service sends a 503 after about nine seconds, which still arrives. */
  readonly requestMs: number;
  /** For one call with all its retries, if it is not a wait for a lock. */
  readonly retryMs: number;
  /** For an acquire, after its wait: no retry begins later, and an answer that is on its way may take as long again. */
  readonly tryMs: number;
  /** For a release with its retries. After that, the lease expires by itself. */
  readonly releaseMs: number;
}

/**
 * A caller with `waitMs: 0` does not want to try for much more than a second. A cold start of the service takes less.
 * Five seconds are enough for a service that restarts, and short enough for a person who waits.
 */
export const patienceDefault: Patience = { requestMs: 10_000, retryMs: 5_000, tryMs: 1_000, releaseMs: 5_000 };

/** The options of every call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** The call ends within this time, retries included. By default the client's, else 5,000. */
  readonly deadlineMs?: number | undefined;
}

/** The policy of a call that does not wait. */
export const policyOf = (
  { patience }: Pick<Core, 'patience'>,
  { signal, deadlineMs }: CallOptions = {},
): CallPolicy => ({
  deadlineMs: deadlineMs ?? patience.retryMs,
  attemptMs: patience.requestMs,
  signal,
});

/** One request that does not wait, with its retries. Returns the body of the answer. */
export const ask = async <Body>(core: Core, call: Call, options?: CallOptions): Promise<Body> =>
  (await core.caller.call(call, policyOf(core, options))).body as Body;

/** The policy of a release. Its time is limited, because other calls may wait for its end. */
export function releasePolicyOf({ patience }: Pick<Core, 'patience'>, deadlineMs = patience.releaseMs): CallPolicy {
  return { deadlineMs, attemptMs: deadlineMs / 2, urgent: true };
}

export type Tier = 'correctness' | 'efficiency';

export interface Defaults {
  /**
   * Shown to others as the holder or waiter. By default the identity that the service sees. If it sees none, as on one
   * machine or in direct mode: the host and the process.
   */
  readonly owner?: string | undefined;
  readonly leaseMs?: number | undefined;
  readonly waitMs?: number | undefined;
  readonly tier?: Tier | undefined;
  readonly onUnavailable?: 'fail-closed' | 'fail-open' | undefined;
}

/** What the parts of one client share. */
export interface Core {
  readonly namespace: string;
  readonly transport: Transport;
  readonly caller: Caller;
  readonly sockets: Sockets;
  /** A thousand waits that park in the same moment would wait longer for their answers than a place in a queue lasts. */
  readonly parkTurns: Turns;
  readonly runtime: Runtime;
  readonly observe: Observe;
  readonly tracing: Tracing;
  readonly patience: Patience;
  readonly defaults: Defaults;
  /** Everything that is held or open now, and how `close` releases it. */
  readonly open: Map<object, () => Promise<unknown>>;
  /** What `close` waits for: waits, which then end, and requests that no caller waits for. */
  readonly background: Set<Promise<unknown>>;
  /** Fires when the client begins to close. Then waits end. */
  readonly closing: AbortSignal;
}

/** Only `close` waits for this work. It ends by its own policy, and its failure is ignored here. */
export function inBackground({ background }: Core, work: Promise<unknown>): Promise<unknown> {
  const done: Promise<unknown> = work
    .catch(() => undefined)
    .finally(() => {
      background.delete(done);
    });
  background.add(done);
  return done;
}

/** Names are parts of paths, so a wrong name could change the path. */
export function checkName(kind: string, name: string): string {
  const { pattern, allowed } = nameRules.resource;
  if (typeof name === 'string' && pattern.test(name)) return name;
  const message = `must be ${allowed}, got ${JSON.stringify(String(name).slice(0, 60))}`;
  throw invalidField(kind, message, `The name of a ${kind}`);
}

export function checkNamespace(namespace: string): string {
  const { pattern, allowed } = nameRules.namespace;
  if (typeof namespace === 'string' && pattern.test(namespace)) return namespace;
  throw invalidField('namespace', `must be ${allowed}`);
}
