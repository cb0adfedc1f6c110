/** The recent changes to a table's items, in order. */
import { EngineError, invalid } from './errors.ts';
import { type Item, itemBytes } from './values.ts';

/** One change of one item. */
export interface Change {
  readonly table: string;
  readonly keys: Item;
  readonly before: Item | undefined;
  readonly after: Item | undefined;
  /** True if no caller made the change: the table itself deleted an item whose time to live was over. */
  readonly byTtl: boolean;
  /** Rises with each change of the engine. */
  readonly number: number;
  readonly changedAt: number;
}

/** How much of a stream is kept. What is older is trimmed, and a reader that comes too late is told so. */
export interface StreamLimits {
  readonly recordsMax: number;
  /** The sizes of all images. Images that share parts in memory count in full, so less memory than this is used. */
  readonly bytesMax: number;
  readonly ageMsMax: number;
}

/**
 * DynamoDB keeps changes for a day, whatever their number. Here memory is limited as well: 20,000 changes are hours of
 * work on a laptop, and the notifier is behind by milliseconds.
 */
export const streamLimitsDefault: StreamLimits = {
  recordsMax: 20_000,
  bytesMax: 64 * 1024 * 1024,
  ageMsMax: 24 * 60 * 60 * 1000,
};

/** The most that DynamoDB returns at once. */
const pageMax = 1_000;

/** The one view that Holdfast uses. */
export const streamView = 'NEW_AND_OLD_IMAGES';

/** Sequence numbers are strings that sort like numbers, as in DynamoDB. */
const toText = (number: number): string => String(number).padStart(21, '0');

const imagesBytes = ({ before, after }: Change): number =>
  (before === undefined ? 0 : itemBytes(before)) + (after === undefined ? 0 : itemBytes(after));

/** A change as the stream shows it. */
export function recordOf(change: Change, region: string) {
  const { before, after, keys, byTtl, number, changedAt } = change;
  return {
    eventID: `${changedAt}-${number}`,
    eventName: before === undefined ? 'INSERT' : after === undefined ? 'REMOVE' : 'MODIFY',
    eventVersion: '1.1',
    eventSource: 'aws:dynamodb',
    awsRegion: region,
    dynamodb: {
      ApproximateCreationDateTime: Math.floor(changedAt / 1000),
      Keys: keys,
      ...(after && { NewImage: after }),
      ...(before && { OldImage: before }),
      SequenceNumber: toText(number),
      SizeBytes: itemBytes(keys) + imagesBytes(change),
      StreamViewType: streamView,
    },
    ...(byTtl && { userIdentity: { Type: 'Service', PrincipalId: 'dynamodb.amazonaws.com' } }),
  };
}

export type StreamRecord = ReturnType<typeof recordOf>;

export interface StreamOptions {
  readonly createdAt: number;
  readonly region: string;
  readonly limits: StreamLimits;
}

/** Readers on one machine are behind by milliseconds. */
const changesSavedMax = 2_000;

/** What a snapshot keeps of a stream. */
export interface StreamState {
  readonly latest: number;
  /** The number of the youngest change that is not kept. */
  readonly trimmed: number;
  readonly changes: readonly Change[];
}

/** One shard that never closes. */
export class ChangeStream {
  readonly arn: string;
  readonly label: string;
  readonly shardId = 'shardId-00000000000000000000-00000000';
  readonly #region: string;
  readonly #limits: StreamLimits;
  #changes: Change[] = [];
  /** The place of the oldest change that is kept. The places before it are given back together. */
  #first = 0;
  #bytes = 0;
  #latest = 0;
  /** The number of the youngest change that is no longer kept. */
  #trimmed = 0;

  constructor(tableArn: string, { createdAt, region, limits }: StreamOptions) {
    this.label = new Date(createdAt).toISOString().replace('Z', '');
    this.arn = `${tableArn}/stream/${this.label}`;
    this.#region = region;
    this.#limits = limits;
  }

  add(change: Change): void {
    this.#latest = change.number;
    this.#changes.push(change);
    this.#bytes += imagesBytes(change);
    this.#trim(change.changedAt);
  }

  #trim(now: number): void {
    const { recordsMax, bytesMax, ageMsMax } = this.#limits;
    for (let oldest = this.#oldest; oldest !== undefined; oldest = this.#oldest) {
      const isKept =
        this.#changes.length - this.#first <= recordsMax &&
        this.#bytes <= bytesMax &&
        oldest.changedAt > now - ageMsMax;
      if (isKept) break;
      this.#bytes -= imagesBytes(oldest);
      this.#trimmed = oldest.number;
      this.#first += 1;
    }
    // One large move is cheaper than many small ones.
    if (this.#first > this.#changes.length / 2) {
      this.#changes = this.#changes.slice(this.#first);
      this.#first = 0;
    }
  }

  get #oldest(): Change | undefined {
    return this.#changes[this.#first];
  }

  /** The latest changes. A reader that is further behind begins anew. */
  state(): StreamState {
    const changes = this.#changes.slice(Math.max(this.#first, this.#changes.length - changesSavedMax));
    return { latest: this.#latest, trimmed: (changes[0]?.number ?? this.#latest + 1) - 1, changes };
  }

  restore({ latest, trimmed, changes }: StreamState): void {
    this.#latest = latest;
    this.#trimmed = trimmed;
    this.#changes = [...changes];
    this.#first = 0;
    this.#bytes = changes.reduce((sum, change) => sum + imagesBytes(change), 0);
  }

  describe(tableName: string): Record<string, unknown> {
    const startingNumber = toText(this.#oldest?.number ?? this.#latest + 1);
    return {
      StreamArn: this.arn,
      StreamLabel: this.label,
      StreamStatus: 'ENABLED',
      StreamViewType: streamView,
      TableName: tableName,
      Shards: [{ ShardId: this.shardId, SequenceNumberRange: { StartingSequenceNumber: startingNumber } }],
    };
  }

  /** The number that all records to read are above. */
  positionOf(type: string, sequenceNumber: string | undefined): number {
    switch (type) {
      case 'TRIM_HORIZON':
        return this.#trimmed;
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
  read(position: number, limit = pageMax): { records: StreamRecord[]; position: number } {
    if (position < this.#trimmed)
      throw new EngineError('TrimmedDataAccessException', 'The records at this position are no longer kept.');
    const from = this.#firstAfter(position);
    const page = this.#changes.slice(from, from + Math.min(limit, pageMax));
    return {
      records: page.map((change) => recordOf(change, this.#region)),
      position: page.at(-1)?.number ?? position,
    };
  }

  #firstAfter(position: number): number {
    let [low, high] = [this.#first, this.#changes.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#changes[middle] as Change).number <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
