/** The recent changes to a table's items, in order. */
import { EngineError, invalid } from './errors.ts';
import { type Item, itemBytes, sameItem } from './values.ts';

/** DynamoDB keeps changes for a day. Memory is limited, so this keeps only the latest ones: hours for a busy laptop. */
const recordsKeptMax = 20_000;
/** The most that DynamoDB returns at once. */
const pageMax = 1_000;

/** Readers on one machine are behind by milliseconds. */
const recordsSavedMax = 2_000;

/** The one view that Holdfast uses. */
export const streamView = 'NEW_AND_OLD_IMAGES';

interface StreamRecord {
  readonly number: number;
  readonly body: Record<string, unknown>;
}

/** What a snapshot keeps of a stream. */
export interface StreamState {
  readonly latest: number;
  readonly records: readonly StreamRecord[];
}

export interface Change {
  readonly before: Item | undefined;
  readonly after: Item | undefined;
  readonly keys: Item;
  /** True if no caller made the change: the table itself deleted an item whose time to live was over. */
  readonly byTtl?: boolean;
}

/** Sequence numbers are texts that sort like numbers, as in DynamoDB. */
const toText = (number: number): string => String(number).padStart(21, '0');

/** One shard that never closes. */
export class ChangeStream {
  readonly arn: string;
  readonly label: string;
  readonly shardId = 'shardId-00000000000000000000-00000000';
  readonly #region: string;
  #records: StreamRecord[] = [];
  #latest = 0;

  constructor(tableArn: string, { now, region }: { now: number; region: string }) {
    this.label = new Date(now).toISOString().replace('Z', '');
    this.arn = `${tableArn}/stream/${this.label}`;
    this.#region = region;
  }

  add({ before, after, keys, byTtl = false }: Change, now: number): void {
    if (before === undefined && after === undefined) return;
    // As in DynamoDB, a write that changes nothing leaves no record.
    if (before !== undefined && after !== undefined && sameItem(before, after)) return;
    this.#latest += 1;
    this.#records.push({
      number: this.#latest,
      body: {
        eventID: `${this.label}-${this.#latest}`,
        eventName: before === undefined ? 'INSERT' : after === undefined ? 'REMOVE' : 'MODIFY',
        eventVersion: '1.1',
        eventSource: 'aws:dynamodb',
        awsRegion: this.#region,
        dynamodb: {
          ApproximateCreationDateTime: Math.floor(now / 1000),
          Keys: keys,
          ...(after && { NewImage: after }),
          ...(before && { OldImage: before }),
          SequenceNumber: toText(this.#latest),
          SizeBytes: itemBytes({ ...before, ...after }),
          StreamViewType: streamView,
        },
        ...(byTtl && { userIdentity: { Type: 'Service', PrincipalId: 'dynamodb.amazonaws.com' } }),
      },
    });
    // Trims at twice the limit: one large move is cheaper than many small ones.
    if (this.#records.length >= 2 * recordsKeptMax) this.#records = this.#records.slice(-recordsKeptMax);
  }

  /** The latest records. A reader that is further behind begins anew. */
  state(): StreamState {
    return { latest: this.#latest, records: this.#records.slice(-recordsSavedMax) };
  }

  restore({ latest, records }: StreamState): void {
    this.#latest = latest;
    this.#records = [...records];
  }

  describe(tableName: string): Record<string, unknown> {
    const startingNumber = toText(this.#records[0]?.number ?? this.#latest + 1);
    return {
      StreamArn: this.arn,
      StreamLabel: this.label,
      StreamStatus: 'ENABLED',
      StreamViewType: streamView,
      TableName: tableName,
      Shards: [{ ShardId: this.shardId, SequenceNumberRange: { StartingSequenceNumber: startingNumber } }],
    };
  }

  /** The number of the record before the first one to read. */
  positionOf(type: string, sequenceNumber: string | undefined): number {
    switch (type) {
      case 'TRIM_HORIZON':
        return (this.#records[0]?.number ?? this.#latest + 1) - 1;
      case 'LATEST':
        return this.#latest;
      case 'AT_SEQUENCE_NUMBER':
        return Number(sequenceNumber) - 1;
      default: {
        const number = Number(sequenceNumber);
        if (!(number <= this.#latest)) throw invalid('Invalid SequenceNumber');
        return number;
      }
    }
  }

  /** The records after a position, and the position after them. */
  read(position: number, limit = pageMax): { records: Record<string, unknown>[]; position: number } {
    const oldest = this.#records[0]?.number ?? this.#latest + 1;
    if (position + 1 < oldest)
      throw new EngineError('TrimmedDataAccessException', 'The records at this position are no longer kept.');
    const from = position + 1 - oldest;
    const page = this.#records.slice(from, from + Math.min(limit, pageMax));
    return { records: page.map(({ body }) => body), position: page.at(-1)?.number ?? position };
  }
}
