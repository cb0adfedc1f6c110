/**
 * The result of one call of the handler, by the rules of Lambda's event source mapping with `ReportBatchItemFailures`
 * and `BisectBatchOnFunctionError`. This file does no I/O. The delivery loop does.
 */
export type Verdict =
  | { readonly kind: 'taken' }
  /** Everything before `index` was taken. The record at `index` and all records after it are sent again. */
  | { readonly kind: 'failed-from'; readonly index: number }
  /** It is not known which records were taken, or which one failed. */
  | { readonly kind: 'failed' };

/** As with Lambda, a response without failures is success, even if it is empty, null or missing. */
export function judge(sequenceNumbers: readonly string[], response: unknown): Verdict {
  const failures = (response as { batchItemFailures?: unknown } | null | undefined)?.batchItemFailures;
  if (failures === undefined || failures === null) return { kind: 'taken' };
  if (!Array.isArray(failures)) return { kind: 'failed' };

  let first = sequenceNumbers.length;
  for (const failure of failures) {
    const index = sequenceNumbers.indexOf((failure as { itemIdentifier?: string } | null)?.itemIdentifier ?? '');
    // The identifier names no record of this batch, so it is unclear which one failed. All are sent again.
    if (index === -1) return { kind: 'failed' };
    first = Math.min(first, index);
  }
  return first === sequenceNumbers.length ? { kind: 'taken' } : { kind: 'failed-from', index: first };
}

/** How to make the next call. */
export interface Plan {
  /** How many of the pending records to send, from the front. */
  readonly size: number;
  /**
   * This many records from the front failed together in an earlier call. The search for the bad one stays within them.
   */
  readonly within: number;
  /** How often the first record has failed by itself. */
  readonly failures: number;
}

export const wholeBatch = (size: number): Plan => ({ size, within: size, failures: 0 });

export interface Step {
  /** How many records from the front are done. They may be checkpointed. */
  readonly taken: number;
  /** True if the next record has used up its retries. It is taken out, so that the rest of the shard can go on. */
  readonly exhausted: boolean;
  readonly next: Plan;
}

export function afterAttempt(pending: number, plan: Plan, verdict: Verdict, retriesMax: number): Step {
  const { size, within } = plan;
  if (verdict.kind === 'taken') {
    return { taken: size, exhausted: false, next: wholeBatch(within > size ? within - size : pending - size) };
  }
  if (verdict.kind === 'failed' && size > 1) {
    // Halving finds a record that makes the handler throw in about 2 log2(n) calls. As with Lambda, a split does not
    // count as a retry, because it is not known yet which record fails.
    const half = Math.ceil(size / 2);
    return { taken: 0, exhausted: false, next: { size: half, within: size, failures: plan.failures } };
  }
  const taken = verdict.kind === 'failed-from' ? verdict.index : 0;
  const failures = taken === 0 ? plan.failures + 1 : 1;
  if (failures > retriesMax) return { taken, exhausted: true, next: wholeBatch(pending - taken - 1) };
  return { taken, exhausted: false, next: { size: size - taken, within: within - taken, failures } };
}
