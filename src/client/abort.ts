/**
 * One signal that fires when any of several do, with the first one's reason. Unlike `AbortSignal.any` it can be let go, so that
 * nothing of a request that has ended stays attached to a signal that lives as long as the process.
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

/** What the work gives, unless the signal fires first; then the work is left behind, and what becomes of it is nobody's error. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** Resolves when the signal fires. */
export const fired = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
