import { AsyncLocalStorage } from 'node:async_hooks';

/** Why the service does something: a request of a client, or time. Every write to the store is checked against its cause. */
export interface Cause {
  readonly operation: string;
  readonly client: string;
  readonly host: string;
  /** True time at which the request arrived. */
  readonly arrivedAt: number;
  readonly leaseId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly fence?: number | undefined;
  readonly waitMs?: number | undefined;
  /** True if the request says that its lease was never sent before. */
  readonly isNew?: boolean;
  /** Locks that it names. */
  readonly names: readonly string[];
  /** If a timer is the cause: the cause that set the timer. */
  readonly setBy?: Cause | undefined;
  /** Fires when the caller is gone. */
  readonly gone?: AbortSignal | undefined;
  /** Sessions of which this cause already knows that they are over. */
  readonly knownDead: Set<string>;
}

const current = new AsyncLocalStorage<Cause>();

export const runAs = <T>(cause: Cause, run: () => T): T => current.run(cause, run);

/** Work that a timer starts has no client, but perhaps a request that set the timer. */
export function causeOfTimer(host: string, at: number): Cause {
  const by = current.getStore();
  const setBy = by?.setBy ?? by;
  return { operation: 'time', client: '', host, arrivedAt: at, names: [], knownDead: new Set(), setBy };
}

export const causeNow = (host: string, at: number): Cause => current.getStore() ?? causeOfTimer(host, at);
