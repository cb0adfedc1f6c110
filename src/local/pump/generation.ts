import type { Checkpoint } from './checkpoints.ts';
import { ShardReader } from './reader.ts';

/** The state of reading one stream. A table that is re-created gets another stream. This class does no I/O. */
export class Generation {
  readonly streamArn: string;
  /** Aborted when the table has another stream. */
  readonly ending = new AbortController();
  readonly #origin: 'TRIM_HORIZON' | 'LATEST';
  readonly #readers = new Map<string, ShardReader>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #drained = new Set<string>();
  /** Shards of the first listing that have no iterator yet. Null before the first listing. */
  #unpositioned: Set<string> | null = null;
  #shards: Record<string, string>;

  /** Shards of the first listing begin at `origin` if they have no checkpoint. */
  constructor(streamArn: string, origin: 'TRIM_HORIZON' | 'LATEST', shards: Readonly<Record<string, string>>) {
    this.streamArn = streamArn;
    this.#origin = origin;
    this.#shards = { ...shards };
  }

  get checkpoint(): Checkpoint {
    return { streamArn: this.streamArn, shards: { ...this.#shards } };
  }

  /** True if no later write can be missed. */
  get isPositioned(): boolean {
    return this.#unpositioned?.size === 0;
  }

  get running(): ReadonlyMap<string, Promise<void>> {
    return this.#running;
  }

  get drainedCount(): number {
    return this.#drained.size;
  }

  /** Starts a reader with `run` for each listed shard that may be read now. */
  adopt(listed: readonly ListedShard[], run: (reader: ShardReader) => Promise<void>): void {
    // A shard that appears later began after our start, so all of it is new.
    const origin = this.#unpositioned === null ? this.#origin : 'TRIM_HORIZON';
    if (origin === 'LATEST') for (const id of closedShards(listed)) this.#drained.add(id);
    const starting = startable(listed, this.#drained, new Set(this.#running.keys()));
    this.#unpositioned ??= new Set(starting.map((shard) => shard.id));
    this.#forgetUnlisted(listed);
    for (const { id } of starting) {
      const after = this.#shards[id];
      const position: Position = after === undefined ? origin : { after };
      const reader = this.#readers.get(id) ?? new ShardReader(id, position);
      this.#readers.set(id, reader);
      this.#running.set(id, run(reader));
    }
  }

  positioned(reader: ShardReader): void {
    this.#unpositioned?.delete(reader.id);
  }

  taken(reader: ShardReader, sequenceNumber: string): void {
    reader.position = { after: sequenceNumber };
    this.#shards[reader.id] = sequenceNumber;
  }

  drained(reader: ShardReader): void {
    this.#drained.add(reader.id);
    this.#readers.delete(reader.id);
  }

  ended(reader: ShardReader): void {
    this.#running.delete(reader.id);
  }

  /** A shard is listed for a day after it closed. After that, its state and its checkpoint are dropped. */
  #forgetUnlisted(listed: readonly ListedShard[]): void {
    const ids = new Set(listed.map((shard) => shard.id));
    const isKept = (id: string) => ids.has(id) || this.#running.has(id);
    this.#shards = Object.fromEntries(Object.entries(this.#shards).filter(([id]) => isKept(id)));
    for (const known of [this.#drained, this.#readers, this.#unpositioned ?? new Set<string>()]) {
      for (const id of [...known.keys()]) if (!isKept(id)) known.delete(id);
    }
  }
}

/** Where to read in a shard: after a given record, at its start, or at its end. */
export type Position = { readonly after: string } | 'TRIM_HORIZON' | 'LATEST';

export interface ListedShard {
  readonly id: string;
  readonly parentId: string | null;
}

/**
 * The shards that may be read now. An item's changes move from a closed shard to its children, so a child waits until
 * its parent is read to the end. A parent that is no longer listed was trimmed, so nothing waits for it.
 */
function startable(
  listed: readonly ListedShard[],
  drained: ReadonlySet<string>,
  begun: ReadonlySet<string>,
): ListedShard[] {
  const ids = new Set(listed.map((shard) => shard.id));
  const waits = (shard: ListedShard) =>
    shard.parentId !== null && ids.has(shard.parentId) && !drained.has(shard.parentId);
  return listed.filter((shard) => !drained.has(shard.id) && !begun.has(shard.id) && !waits(shard));
}

/**
 * Shards with children are closed. A pump that starts at the latest record has nothing to read in them. (The end of the
 * sequence range would show it too, but dynoxide gives one to its open shard.)
 */
function closedShards(listed: readonly ListedShard[]): string[] {
  const parents = new Set(listed.map((shard) => shard.parentId));
  return listed.filter((shard) => parents.has(shard.id)).map((shard) => shard.id);
}
