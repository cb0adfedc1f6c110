/// <reference lib="esnext.disposable" preserve="true" />
/**
 * What the SDK takes from the runtime: clocks, timers and random numbers. Tests and the twin bring their own, so no test
 * waits for real time.
 */

/** One instant on both clocks. Each may be wrong about a pause: the monotonic clock stops in a frozen Lambda, and the wall clock can be set. */
export interface Mark {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** Clocks, timers and random numbers. For tests only. */
export interface Runtime {
  monotonicMs(): number;
  wallMs(): number;
  /** Runs once after the given time unless cancelled. A timer in the background must not keep the process alive. */
  after(ms: number, run: () => void, background?: boolean): () => void;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** A new secret: 128 random bits or more, of the characters that a `leaseId` may have. */
  newId(): string;
}

/** The longest delay that setTimeout takes. With a longer one, it would fire at once. */
const delayMsMax = 2 ** 31 - 1;

/** For multiples of three bytes, which have no padding. */
const base64Url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_');

/** The real runtime: Node, a browser, or an edge worker. */
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

/** The longer time of both clocks: if one of them stopped, the other went on. A time that is too long is safe, one that is too short is not. */
export const elapsedMs = (runtime: Runtime, since: Mark): number =>
  Math.max(0, runtime.monotonicMs() - since.monotonicMs, runtime.wallMs() - since.wallMs);

/** Waits. If the signal fires first, it rejects with the signal's reason. */
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

/** `await using` looks for this key. If the runtime does not have it yet, compiled code looks for the registered symbol. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose);
