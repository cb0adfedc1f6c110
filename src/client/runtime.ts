/**
 * What the SDK takes from its surroundings: clocks, timers and chance. Tests and the twin bring their own, so that no test
 * waits for real time.
 */

/** One instant on both clocks. Either may lie about a pause: the monotonic one stops in a frozen Lambda, the wall can be set. */
export interface Mark {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** Clocks, timers and chance. For tests; leave it alone in production. */
export interface Runtime {
  monotonicMs(): number;
  wallMs(): number;
  /** Runs once after the given time unless cancelled. What runs in the background must not keep the process alive. */
  after(ms: number, run: () => void, background?: boolean): () => void;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** A new secret: 128 random bits or more, of the characters that a `leaseId` may have. */
  newId(): string;
}

/** The longest delay that setTimeout takes; beyond it, it would fire at once. */
const delayMsMax = 2 ** 31 - 1;

const base64Url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');

/** The runtime that is there: Node, a browser, or an edge worker. */
export const systemRuntime: Runtime = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(ms, run, background = false) {
    const timer: unknown = setTimeout(run, Math.min(Math.max(0, ms), delayMsMax));
    // Only Node's timers are objects that can be told not to keep the process alive.
    if (background && typeof timer === 'object') (timer as { unref?: () => void }).unref?.();
    return () => clearTimeout(timer as ReturnType<typeof setTimeout>);
  },
  random: Math.random,
  newId: () => base64Url(crypto.getRandomValues(new Uint8Array(18))),
};

export const markNow = (runtime: Runtime): Mark => ({
  monotonicMs: runtime.monotonicMs(),
  wallMs: runtime.wallMs(),
});

/** The larger of both clocks: what one of them slept through, the other has counted. Too much is safe, too little is not. */
export const elapsedMs = (runtime: Runtime, since: Mark): number =>
  Math.max(0, runtime.monotonicMs() - since.monotonicMs, runtime.wallMs() - since.wallMs);

/** Waits, unless the signal fires first; then it rejects with the signal's reason. */
export function pause(runtime: Runtime, ms: number, signal?: AbortSignal, background = false): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = runtime.after(
      ms,
      () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      },
      background,
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** `await using` looks for this key; where the runtime has none yet, compiled code looks for the registered symbol instead. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose);
