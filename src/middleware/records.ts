import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { forEachAtMost } from '../tools/pool.ts';
import { type InvocationLockOptions, type LockedContext, underLock, withinInvocation } from './invocation.ts';
import { failBatch } from './refusal.ts';

export interface RecordLockOptions extends InvocationLockOptions {
  /** The lock that a message needs. */
  readonly name: (record: SQSRecord) => string;
  /**
   * How many locks are used at the same time. 10 by default: a batch has at most 10 messages unless it is configured
   * for more.
   */
  readonly concurrencyMax?: number | undefined;
  /** Called with the reason if a message failed. SQS delivers the message again. */
  readonly onFailure?: ((record: SQSRecord, error: unknown) => void) | undefined;
}

/**
 * A handler for SQS that runs the work for each message under a lock of the message's own name. Messages with the same
 * name run one after the other under one lock. Different names run at the same time. If a lock is refused or the work
 * fails, that message is reported as failed and SQS delivers it again; the rest of the batch goes on. In a FIFO queue
 * no message overtakes a failed message of its group.
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
    return failBatch(event.Records.filter(({ messageId }) => batch.failed.has(messageId)));
  };
}

const groupOf = ({ attributes }: SQSRecord): string | undefined => attributes?.MessageGroupId;

class Batch {
  readonly #options: RecordLockOptions;
  readonly #work: (record: SQSRecord, context: LockedContext) => unknown;
  readonly #context: Context;
  /** The ids of the messages that failed. */
  readonly failed = new Set<string>();
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

  async run(records: readonly SQSRecord[]): Promise<void> {
    const atOnceMax = this.#options.concurrencyMax ?? 10;
    await forEachAtMost(this.#sequences(records), atOnceMax, (sequence) => this.#runSequence(sequence));
  }

  /**
   * Messages that must stay in order. In a FIFO queue these are the messages of one group; in other queues, those of
   * one name.
   */
  #sequences(records: readonly SQSRecord[]): SQSRecord[][] {
    const sequences = Map.groupBy(records, (record) => {
      const group = groupOf(record);
      return group === undefined ? `name ${this.#nameOf(record) ?? record.messageId}` : `group ${group}`;
    });
    return [...sequences.values()];
  }

  /** If the name function throws, only this message fails, not the batch. */
  #nameOf(record: SQSRecord): string | undefined {
    try {
      return this.#options.name(record);
    } catch {
      return undefined;
    }
  }

  /** Neighbouring messages with the same name share one lock. */
  async #runSequence(sequence: readonly SQSRecord[]): Promise<void> {
    for (let index = 0; index < sequence.length; ) {
      const first = sequence[index] as SQSRecord;
      const name = this.#nameOf(first);
      let end = index + 1;
      while (end < sequence.length && this.#nameOf(sequence[end] as SQSRecord) === name) end += 1;
      await this.#runLocked(sequence.slice(index, end));
      index = end;
    }
  }

  async #runLocked(records: readonly SQSRecord[]): Promise<void> {
    const { locks, name } = this.#options;
    const open = records.filter((record) => !this.#isBlocked(record));
    const [first] = open;
    for (const record of records) if (this.#isBlocked(record)) this.failed.add(record.messageId);
    if (first === undefined) return;
    try {
      await underLock(
        locks,
        name(first),
        withinInvocation(this.#options, this.#context),
        this.#context,
        async (lock) => {
          // Each lock gets its own context, because other messages of this batch run under other locks at the same
          // time.
          const context: LockedContext = Object.assign(Object.create(this.#context) as Context, { lock });
          for (const record of open) {
            if (this.#isBlocked(record)) this.failed.add(record.messageId);
            else await this.#runOne(record, context);
          }
        },
      );
    } catch (error) {
      // The lock was refused, or lost during the work. Another holder may have worked at the same time, so all messages
      // come again.
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
    if (this.failed.has(record.messageId)) return;
    this.failed.add(record.messageId);
    this.#options.onFailure?.(record, error);
  }
}
