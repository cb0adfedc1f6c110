/**
 * What follows from one call of the handler, by the rules of Lambda's event source mapping with
 * `ReportBatchItemFailures` and `BisectBatchOnFunctionError`. No I/O: the delivery loop carries it out.
 */
export type Verdict =
  | { readonly kind: 'taken' }
  /** Everything before `index` was taken; the record at `index` and all after it are sent again. */
  | { readonly kind: 'failed-from'; readonly index: number }
  /** Nothing is known to have been taken, nor which record is to blame. */
  | { readonly kind: 'failed' };

/** An answer without failures is success, as for Lambda, whether it is empty, null or missing. */
export function judge(sequenceNumbers: readonly string[], response: unknown): Verdict {
  const failures = (response as { batchItemFailures?: unknown } | null | undefined)?.batchItemFailures;
  if (failures === undefined || failures === null) return { kind: 'taken' };
  if (!Array.isArray(failures)) return { kind: 'failed' };

  let first = sequenceNumbers.length;
  for (const failure of failures) {
    const index = sequenceNumbers.indexOf((failure as { itemIdentifier?: string } | null)?.itemIdentifier ?? '');
    // An identifier that names no record of this batch leaves in doubt which one failed, so all are sent again.
    if (index === -1) return { kind: 'failed' };
    first = Math.min(first, index);
  }
  return first === sequenceNumbers.length ? { kind: 'taken' } : { kind: 'failed-from', index: first };
}

/** How the next call is made. */
export interface Plan {
  /** With so many of the pending records, from the front. */
  readonly size: number;
  /** Of which, with perhaps some that follow, it is known that they failed together: a search stays within them. */
  readonly within: number;
  /** So often has the first of them failed by itself. */
  readonly failures: number;
}

export const wholeBatch = (size: number): Plan => ({ size, within: size, failures: 0 });

export interface Step {
  /** So many records from the front are done with, and may be checkpointed. */
  readonly taken: number;
  /** The record that comes after those has used up its retries: it leaves the shard, so that the rest can go on. */
  readonly exhausted: boolean;
  readonly next: Plan;
}

export function afterAttempt(pending: number, plan: Plan, verdict: Verdict, retriesMax: number): Step {
  const { size, within } = plan;
  if (verdict.kind === 'taken') {
    return { taken: size, exhausted: false, next: wholeBatch(within > size ? within - size : pending - size) };
  }
  if (verdict.kind === 'failed' && size > 1) {
    // Halving finds a record that makes the handler throw in about 2 log2(n) calls. As for Lambda, a split is not
    // counted as a retry: no single record is to blame yet.
    const half = Math.ceil(size / 2);
    return { taken: 0, exhausted: false, next: { size: half, within: size, failures: plan.failures } };
  }
  const taken = verdict.kind === 'failed-from' ? verdict.index : 0;
  const failures = taken === 0 ? plan.failures + 1 : 1;
  if (failures > retriesMax) return { taken, exhausted: true, next: wholeBatch(pending - taken - 1) };
  return { taken, exhausted: false, next: { size: size - taken, within: within - taken, failures } };
}
