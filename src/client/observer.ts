import type { HoldfastError } from './errors.ts';

/**
 * What the SDK does in the background, for logs and metrics.
 *
 * @example
 * ```ts
 * new Holdfast({ url, namespace, onEvent: (event) => metrics.count(`holdfast.${event.type}`) });
 * ```
 */
export type ClientEvent =
  | { readonly type: 'retry'; readonly operation: string; readonly attempt: number; readonly error: HoldfastError }
  | { readonly type: 'breaker'; readonly state: 'open' | 'closed' }
  | { readonly type: 'renewed'; readonly name: string; readonly remainingMs: number }
  | { readonly type: 'renewal-failed'; readonly name: string; readonly error: unknown }
  | { readonly type: 'lost'; readonly name: string; readonly error: HoldfastError }
  | { readonly type: 'release-failed'; readonly name: string; readonly error: unknown }
  | { readonly type: 'failed-open'; readonly name: string; readonly error: HoldfastError }
  /** `once` returned although nobody has done the job yet. Its runner may have died: then nobody does it unless somebody calls again. */
  | { readonly type: 'not-done'; readonly name: string; readonly waitedMs: number };

export type Observe = (event: ClientEvent) => void;

export const observer =
  (onEvent: Observe | undefined): Observe =>
  (event) => {
    try {
      onEvent?.(event);
    } catch {
      // If a listener throws, the client and its locks go on.
    }
  };
