/**
 * One signal that fires with the first of several signals, with its reason. Unlike `AbortSignal.any`, it can be detached:
 * a request that has ended must leave no listener on a signal that lives as long as the process.
 */
export function joinSignals(...signals: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal;
  readonly abort: (reason: unknown) => void;
  readonly letGo: () => void;
} {
  const joined = new AbortController();
  const attached: [AbortSignal, () => void][] = [];
  const letGo = () => {
    for (const [signal, listener] of attached.splice(0)) signal.removeEventListener('abort', listener);
  };
  for (const signal of signals) {
    if (signal === undefined) continue;
    if (signal.aborted) joined.abort(signal.reason);
    const listener = () => joined.abort(signal.reason);
    signal.addEventListener('abort', listener, { once: true });
    attached.push([signal, listener]);
  }
  return { signal: joined.signal, abort: (reason) => joined.abort(reason), letGo };
}

/** The result of the work, unless the signal fires first. Then nobody waits for the work, and its errors are ignored. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

export const fired = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
