/** What a tracer learns about waiting and holding. It never learns a lease id or a session id. */

/** The locks that one request asks for. */
export interface TracedLocks {
  readonly namespace: string;
  /** One name, or several if they are taken together. */
  readonly locks: readonly string[];
}

/** How a hold ended. `unreleased`: the release could not be sent, so the lease expires by itself. */
export type HoldOutcome = 'released' | 'lost' | 'unreleased' | 'detached';

/** A wait. It ends with `granted` or with `failed`. */
export interface TracedWait {
  granted(grant: { readonly fences: readonly number[]; readonly waitedMs: number }): TracedHold;
  failed(error: unknown): void;
}

/** A hold. The first `end` counts. */
export interface TracedHold {
  /** Runs the work. Spans that the work makes belong to this hold. */
  run<T>(work: () => T): T;
  end(outcome: HoldOutcome, error?: unknown): void;
}

/**
 * Makes traces of waiting and holding. `openTelemetry()` of `holdfast/opentelemetry` is one.
 *
 * @example
 * ```ts
 * const locks = new Holdfast({ url, namespace: 'payments', tracing: openTelemetry() });
 * ```
 */
export interface Tracing {
  /** Called before the first request for a lock is sent. */
  wait(wanted: TracedLocks): TracedWait;
}

/** If a tracer fails, the lock still works. From then on this lock is not traced. */
export const safeTracing = (tracing: Tracing | undefined): Tracing => ({
  wait(wanted) {
    const wait = attempt(() => tracing?.wait(wanted));
    return {
      granted: (grant) => safeHold(attempt(() => wait?.granted(grant))),
      failed: (error) => attempt(() => wait?.failed(error)),
    };
  },
});

function safeHold(hold: TracedHold | undefined): TracedHold {
  let isOpen = true;
  return {
    // Errors of the work are not caught here. Errors of the tracer are caught in `end`.
    run: (work) => (hold === undefined ? work() : hold.run(work)),
    end: (outcome, error) => {
      if (isOpen) attempt(() => hold?.end(outcome, error));
      isOpen = false;
    },
  };
}

function attempt<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch {
    return undefined;
  }
}
