import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { type BatchOptions, SqsBatch } from './batch.ts';
import {
  contextWith,
  type InvocationLockOptions,
  type LockedContext,
  underLock,
  withinInvocation,
} from './invocation.ts';
import { failBatch } from './refusal.ts';

export interface RecordLockOptions extends InvocationLockOptions, BatchOptions {
  /** The lock that a message needs. */
  readonly name: (record: SQSRecord) => string;
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
    const batch = new SqsBatch(options);
    const locked = new LockedRecords(options, batch, work, context);
    await batch.run(
      event.Records,
      (record) => locked.nameOf(record),
      (sequence) => locked.run(sequence),
    );
    return failBatch(event.Records.filter((record) => batch.hasFailed(record)));
  };
}

class LockedRecords {
  readonly #options: RecordLockOptions;
  readonly #batch: SqsBatch;
  readonly #work: (record: SQSRecord, context: LockedContext) => unknown;
  readonly #context: Context;

  constructor(
    options: RecordLockOptions,
    batch: SqsBatch,
    work: (record: SQSRecord, context: LockedContext) => unknown,
    context: Context,
  ) {
    this.#options = options;
    this.#batch = batch;
    this.#work = work;
    this.#context = context;
  }

  /** If the name function throws, only this message fails, not the batch. */
  nameOf(record: SQSRecord): string | undefined {
    try {
      return this.#options.name(record);
    } catch {
      return undefined;
    }
  }

  /** Neighbouring messages with the same name share one lock. */
  async run(sequence: readonly SQSRecord[]): Promise<void> {
    for (let index = 0; index < sequence.length; ) {
      const first = sequence[index] as SQSRecord;
      const name = this.nameOf(first);
      let end = index + 1;
      while (end < sequence.length && this.nameOf(sequence[end] as SQSRecord) === name) end += 1;
      await this.#runLocked(sequence.slice(index, end));
      index = end;
    }
  }

  async #runLocked(records: readonly SQSRecord[]): Promise<void> {
    const { locks, name } = this.#options;
    const open = records.filter((record) => !this.#batch.isBlocked(record));
    const [first] = open;
    if (first === undefined) return;
    try {
      await underLock(
        locks,
        name(first),
        withinInvocation(this.#options, this.#context),
        this.#context,
        async (lock) => {
          const context = contextWith(this.#context, lock);
          for (const record of open) if (!this.#batch.isBlocked(record)) await this.#runOne(record, context);
        },
      );
    } catch (error) {
      // The lock was refused, or lost during the work. Another holder may have worked at the same time, so all messages
      // come again.
      for (const record of open) this.#batch.fail(record, error);
    }
  }

  async #runOne(record: SQSRecord, context: LockedContext): Promise<void> {
    try {
      context.lock.throwIfLost();
      await this.#work(record, context);
    } catch (error) {
      this.#batch.fail(record, error);
    }
  }
}
