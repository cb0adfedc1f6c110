import {
  type _Record,
  DescribeStreamCommand,
  type DynamoDBStreamsClient,
  GetRecordsCommand,
  GetShardIteratorCommand,
} from '@aws-sdk/client-dynamodb-streams';
import type { DurationMs } from '../../time/clock.ts';
import type { ListedShard, Position } from './generation.ts';

export interface Page {
  readonly records: readonly _Record[];
  /** Null at the end of a closed shard. */
  readonly next: string | null;
}

/**
 * A hanging engine, for example one that is stopped in a debugger, must look like a dead one. A working engine always
 * answers in under a second.
 */
export const requestTimeoutMs: DurationMs = 10_000;

/**
 * A stream lists 100 shards a page, and shards live for a day. One process could not read a table with 100,000 shards.
 */
const listPagesMax = 1_000;

/** The three Streams API calls of a pump. Each has a time limit, and `stopping` ends it. */
export class Stream {
  readonly #client: DynamoDBStreamsClient;
  readonly #stopping: AbortSignal;

  constructor(client: DynamoDBStreamsClient, stopping: AbortSignal) {
    this.#client = client;
    this.#stopping = stopping;
  }

  async listShards(streamArn: string): Promise<ListedShard[]> {
    const shards: ListedShard[] = [];
    let from: string | undefined;
    for (let page = 0; page < listPagesMax; page += 1) {
      const command = new DescribeStreamCommand({ StreamArn: streamArn, ...(from && { ExclusiveStartShardId: from }) });
      const { StreamDescription: stream } = await this.#bounded((abortSignal) =>
        this.#client.send(command, { abortSignal }),
      );
      for (const { ShardId: id, ParentShardId: parentId = null } of stream?.Shards ?? []) {
        if (id !== undefined) shards.push({ id, parentId });
      }
      from = stream?.LastEvaluatedShardId;
      if (!from) return shards;
    }
    throw new Error(`The stream lists more than ${listPagesMax} pages of shards.`);
  }

  async iteratorAt(streamArn: string, shardId: string, position: Position): Promise<string> {
    const command = new GetShardIteratorCommand({
      StreamArn: streamArn,
      ShardId: shardId,
      ...(typeof position === 'string'
        ? { ShardIteratorType: position }
        : { ShardIteratorType: 'AFTER_SEQUENCE_NUMBER', SequenceNumber: position.after }),
    });
    const { ShardIterator: iterator } = await this.#bounded((abortSignal) =>
      this.#client.send(command, { abortSignal }),
    );
    if (!iterator) throw new Error(`The engine gave no iterator for shard ${shardId}.`);
    return iterator;
  }

  async read(iterator: string, limit: number): Promise<Page> {
    const command = new GetRecordsCommand({ ShardIterator: iterator, Limit: limit });
    const answer = await this.#bounded((abortSignal) => this.#client.send(command, { abortSignal }));
    return { records: answer.Records ?? [], next: answer.NextShardIterator ?? null };
  }

  async #bounded<T>(call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const request = new AbortController();
    const abort = () => request.abort();
    const timer = setTimeout(abort, requestTimeoutMs);
    this.#stopping.addEventListener('abort', abort, { once: true });
    try {
      if (this.#stopping.aborted) abort();
      return await call(request.signal);
    } finally {
      clearTimeout(timer);
      this.#stopping.removeEventListener('abort', abort);
    }
  }
}
