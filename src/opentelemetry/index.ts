/**
 * Spans for waiting and holding, by OpenTelemetry. Only this entry loads `@opentelemetry/api`.
 *
 * @packageDocumentation
 */
import { type Attributes, context, type Span, SpanKind, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import { isHoldfastError, type TracedHold, type TracedLocks, type TracedWait, type Tracing } from '../client/index.ts';

export interface OpenTelemetryOptions {
  /** By default the global tracer provider's tracer named `holdfast`. */
  readonly tracer?: Tracer | undefined;
}

/** Answers that a caller expects. They end a wait without a grant, and they are no failure. */
const expectedOutcomes = new Set(['lock-held', 'wait-timeout', 'closed', 'aborted']);

/**
 * Makes two spans for each lock: `holdfast wait`, from the request to the grant or the refusal, and `holdfast hold`,
 * from the grant to the release or the loss. Spans that your work makes inside `withLock` are children of the hold.
 * Attributes: `holdfast.namespace`, `holdfast.lock`, `holdfast.fence`, `holdfast.waited_ms` and `holdfast.outcome`; for
 * several locks at once `holdfast.locks` and `holdfast.fences`. No span has a lease id.
 *
 * @example
 * ```ts
 * import { Holdfast } from 'holdfast';
 * import { openTelemetry } from 'holdfast/opentelemetry';
 *
 * const locks = new Holdfast({ url, namespace: 'payments', tracing: openTelemetry() });
 * ```
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Tracing {
  // Looked up each time, because an application may register its provider after it made its client.
  const tracer = () => options.tracer ?? trace.getTracer('holdfast');
  return { wait: (wanted) => startWait(tracer(), wanted) };
}

function startWait(tracer: Tracer, { namespace, locks }: TracedLocks): TracedWait {
  const subject: Attributes = { 'holdfast.namespace': namespace, ...oneOrMany('holdfast.lock', locks) };
  const span = tracer.startSpan('holdfast wait', { kind: SpanKind.CLIENT, attributes: subject });
  return {
    granted({ fences, waitedMs }) {
      const grant: Attributes = oneOrMany('holdfast.fence', fences);
      span.setAttributes({ ...grant, 'holdfast.waited_ms': waitedMs, 'holdfast.outcome': 'granted' });
      span.end();
      const links = [{ context: span.spanContext() }];
      return traceHold(tracer.startSpan('holdfast hold', { attributes: { ...subject, ...grant }, links }));
    },
    failed(error) {
      const outcome = outcomeOf(error);
      span.setAttribute('holdfast.outcome', outcome);
      if (!expectedOutcomes.has(outcome)) fail(span, error);
      span.end();
    },
  };
}

const traceHold = (span: Span): TracedHold => ({
  run: (work) => context.with(trace.setSpan(context.active(), span), work),
  end(outcome, error) {
    span.setAttribute('holdfast.outcome', outcome);
    if (error !== undefined) fail(span, error);
    span.end();
  },
});

/** `holdfast.lock` for one, `holdfast.locks` for several. */
const oneOrMany = (name: string, values: readonly string[] | readonly number[]): Attributes =>
  values.length === 1 ? { [name]: values[0] } : { [`${name}s`]: [...values] as string[] | number[] };

/** The error's code. A wait that its caller aborted rejects with the caller's own reason. */
function outcomeOf(error: unknown): string {
  if (isHoldfastError(error)) return error.code;
  return error instanceof Error && error.name !== 'AbortError' && error.name !== 'TimeoutError' ? 'failed' : 'aborted';
}

/** If an error is not ours, only its name is kept: we can't know what its message shows. */
function fail(span: Span, error: unknown): void {
  const message = isHoldfastError(error) ? error.message : error instanceof Error ? error.name : 'unknown';
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}
