import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { type InvocationLockOptions, type LockedContext, withinInvocation } from './invocation.ts';

export interface RecordLockOptions extends InvocationLockOptions {
  /** The lock that a message needs. */
  readonly name: (record: SQSRecord) => string;
  /** Locks worked on at the same time, 10 by default: as many as a batch has messages unless somebody asked for more. */
  readonly concurrencyMax?: number | undefined;
  /** Told why a message failed; it will be delivered again. */
  readonly onFailure?: ((record: SQSRecord, error: unknown) => void) | undefined;
}

/**
 * A handler for SQS that works on each message under the lock of its own name. Messages of one name are worked on one after the other
 * under one lock, different names side by side. A message whose lock is refused, or whose work fails, is reported as a failed item and
 * delivered again; the rest of the batch is done. In a FIFO queue nothing overtakes a failed message of its group.
 *
 * @example
 * ```ts
 * export const handler = withRecordLocks(
 *   { locks, name: (record) => `wallet:${JSON.parse(record.body).wallet}`, waitMs: 1_000 },
 *   async (record, { lock }) => book(record, lock.fence),
 * );
 * ```
 */
export function withRecordLocks(
  options: RecordLockOptions,
  work: (record: SQSRecord, context: LockedContext) => unknown,
): (event: SQSEvent, context: Context) => Promise<SQSBatchResponse> {
  return async (event, context) => {
    const batch = new Batch(options, work, context);
    await batch.run(event.Records);
    return { batchItemFailures: batch.failed(event.Records).map(({ messageId }) => ({ itemIdentifier: messageId })) };
  };
}

const groupOf = ({ attributes }: SQSRecord): string | undefined => attributes?.MessageGroupId;

class Batch {
  readonly #options: RecordLockOptions;
  readonly #work: (record: SQSRecord, context: LockedContext) => unknown;
  readonly #context: Context;
  readonly #failed = new Set<string>();
  readonly #brokenGroups = new Set<string>();

  constructor(
    options: RecordLockOptions,
    work: (record: SQSRecord, context: LockedContext) => unknown,
    context: Context,
  ) {
    this.#options = options;
    this.#work = work;
    this.#context = context;
  }

  failed(records: readonly SQSRecord[]): SQSRecord[] {
    return records.filter(({ messageId }) => this.#failed.has(messageId));
  }

  async run(records: readonly SQSRecord[]): Promise<void> {
    const rest = this.#lines(records);
    const runOn = async () => {
      for (let line = rest.shift(); line !== undefined; line = rest.shift()) await this.#runLine(line);
    };
    const atOnce = Math.min(this.#options.concurrencyMax ?? 10, rest.length);
    await Promise.all(Array.from({ length: atOnce }, runOn));
  }

  /** Messages that must stay in order: those of one FIFO group, whatever their names; in other queues, those of one name. */
  #lines(records: readonly SQSRecord[]): SQSRecord[][] {
    const lines = new Map<string, SQSRecord[]>();
    for (const record of records) {
      const group = groupOf(record);
      const id = group === undefined ? `name ${this.#nameOf(record) ?? record.messageId}` : `group ${group}`;
      const line = lines.get(id);
      if (line === undefined) lines.set(id, [record]);
      else line.push(record);
    }
    return [...lines.values()];
  }

  /** A message that has no name is one that fails, not one that takes the batch down. */
  #nameOf(record: SQSRecord): string | undefined {
    try {
      return this.#options.name(record);
    } catch {
      return undefined;
    }
  }

  /** Runs of equal names share one lock. */
  async #runLine(line: readonly SQSRecord[]): Promise<void> {
    for (let index = 0; index < line.length; ) {
      const first = line[index] as SQSRecord;
      const name = this.#nameOf(first);
      let end = index + 1;
      while (end < line.length && this.#nameOf(line[end] as SQSRecord) === name) end += 1;
      await this.#runLocked(line.slice(index, end));
      index = end;
    }
  }

  async #runLocked(records: readonly SQSRecord[]): Promise<void> {
    const { locks, name } = this.#options;
    const open = records.filter((record) => !this.#isBlocked(record));
    const [first] = open;
    for (const record of records) if (this.#isBlocked(record)) this.#failed.add(record.messageId);
    if (first === undefined) return;
    try {
      await locks.withLock(name(first), withinInvocation(this.#options, this.#context), async (lock) => {
        // A context of its own: other messages of this batch run under other locks at the same time.
        const context: LockedContext = Object.assign(Object.create(this.#context) as Context, { lock });
        for (const record of open) {
          if (this.#isBlocked(record)) this.#failed.add(record.messageId);
          else await this.#runOne(record, context);
        }
      });
    } catch (error) {
      // Refused, or lost while working: what was done may have been done beside another, so all of it comes again.
      for (const record of open) this.#fail(record, error);
    }
  }

  async #runOne(record: SQSRecord, context: LockedContext): Promise<void> {
    try {
      context.lock.throwIfLost();
      await this.#work(record, context);
    } catch (error) {
      this.#fail(record, error);
    }
  }

  #isBlocked(record: SQSRecord): boolean {
    const group = groupOf(record);
    return group !== undefined && this.#brokenGroups.has(group);
  }

  #fail(record: SQSRecord, error: unknown): void {
    const group = groupOf(record);
    if (group !== undefined) this.#brokenGroups.add(group);
    if (this.#failed.has(record.messageId)) return;
    this.#failed.add(record.messageId);
    this.#options.onFailure?.(record, error);
  }
}
