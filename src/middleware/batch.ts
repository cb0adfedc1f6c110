import type { SQSRecord } from 'aws-lambda';
import { forEachAtMost } from '../tools/pool.ts';

export interface BatchOptions {
  /**
   * How many messages are worked on at the same time. 10 by default: a batch has at most 10 messages unless it is
   * configured for more.
   */
  readonly concurrencyMax?: number | undefined;
  /** Called with the reason if a message failed. SQS delivers the message again. */
  readonly onFailure?: ((record: SQSRecord, error: unknown) => void) | undefined;
}

const groupOf = ({ attributes }: SQSRecord): string | undefined => attributes?.MessageGroupId;

/** The messages of one SQS event, and which of them failed. In a FIFO queue no message overtakes a failed one of its group. */
export class SqsBatch {
  readonly #options: BatchOptions;
  readonly #failed = new Set<string>();
  readonly #brokenGroups = new Set<string>();

  constructor(options: BatchOptions) {
    this.#options = options;
  }

  hasFailed({ messageId }: SQSRecord): boolean {
    return this.#failed.has(messageId);
  }

  /**
   * Works on the messages in sequences that keep their order: in a FIFO queue the messages of one group, in other queues
   * those with the same key. If a key can't be had, only that message fails.
   */
  async run(
    records: readonly SQSRecord[],
    keyOf: (record: SQSRecord) => string | undefined,
    work: (sequence: readonly SQSRecord[]) => Promise<void>,
  ): Promise<void> {
    const sequences = Map.groupBy(records, (record) => {
      const group = groupOf(record);
      return group === undefined ? `key ${keyOf(record) ?? record.messageId}` : `group ${group}`;
    });
    await forEachAtMost(sequences.values(), this.#options.concurrencyMax ?? 10, work);
  }

  /** True if an earlier message of its group has failed. Then this one fails too. */
  isBlocked(record: SQSRecord): boolean {
    const group = groupOf(record);
    const isBlocked = group !== undefined && this.#brokenGroups.has(group);
    if (isBlocked) this.#failed.add(record.messageId);
    return isBlocked;
  }

  fail(record: SQSRecord, error: unknown): void {
    const group = groupOf(record);
    if (group !== undefined) this.#brokenGroups.add(group);
    if (this.#failed.has(record.messageId)) return;
    this.#failed.add(record.messageId);
    this.#options.onFailure?.(record, error);
  }
}
