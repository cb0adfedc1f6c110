/** One table: its items, its indexes and its stream. */
import { ChangeStream, type StreamView } from './change-stream.ts';
import { EngineError, invalid } from './errors.ts';
import { SortedList } from './sorted-list.ts';
import { compare, type Item, itemBytes, typeOf, type Value } from './values.ts';

export interface KeyNames {
  readonly partition: string;
  readonly sort?: string | undefined;
}

export interface IndexShape extends KeyNames {
  readonly name: string;
  readonly projection: { readonly ProjectionType?: string; readonly NonKeyAttributes?: readonly string[] };
}

export interface TableShape {
  readonly name: string;
  readonly keys: KeyNames;
  readonly indexes: readonly IndexShape[];
  /** The types of all key attributes, of the table and of its indexes. */
  readonly keyTypes: Readonly<Record<string, string>>;
  /** The definition as the caller gave it, for descriptions. */
  readonly definition: Readonly<Record<string, unknown>>;
  readonly streamView: StreamView | undefined;
}

/** DynamoDB's own limit. */
const itemBytesMax = 400 * 1024;

const textOf = (value: Value | undefined): string =>
  value === undefined
    ? ''
    : 'S' in value
      ? `S${value.S}`
      : 'N' in value
        ? `N${Number(value.N)}`
        : `B${'B' in value ? value.B : ''}`;

/** Items of one partition key, ordered by the sort key. */
type Partition = SortedList<Item>;

/** Items by a pair of keys: those of the table or those of an index. */
class Ordered {
  readonly keys: KeyNames;
  readonly #tieKeys: KeyNames;
  readonly #partitions = new Map<string, Partition>();

  /** Two items of an index may have the same keys. The table's own keys then decide their order. */
  constructor(keys: KeyNames, tieKeys: KeyNames) {
    this.keys = keys;
    this.#tieKeys = tieKeys;
  }

  holds = (item: Item): boolean =>
    item[this.keys.partition] !== undefined && (this.keys.sort === undefined || item[this.keys.sort] !== undefined);

  put(item: Item): void {
    if (!this.holds(item)) return;
    const id = textOf(item[this.keys.partition]);
    let partition = this.#partitions.get(id);
    if (partition === undefined) {
      partition = new SortedList((one, other) => this.compareItems(one, other));
      this.#partitions.set(id, partition);
    }
    partition.put(item);
  }

  remove(item: Item): void {
    if (!this.holds(item)) return;
    const id = textOf(item[this.keys.partition]);
    const partition = this.#partitions.get(id);
    partition?.remove(item);
    if (partition?.size === 0) this.#partitions.delete(id);
  }

  of(partitionKey: Value): Iterable<Item> {
    return this.#partitions.get(textOf(partitionKey)) ?? [];
  }

  /** Orders items of one partition: by the sort key, then by the table's own keys. */
  compareItems(one: Item, other: Item): number {
    const names = [this.keys.sort, this.#tieKeys.partition, this.#tieKeys.sort].filter((name) => name !== undefined);
    for (const name of names) {
      const [left, right] = [one[name], other[name]];
      const order = left === undefined || right === undefined ? 0 : (compare(left, right) ?? 0);
      if (order !== 0) return order;
    }
    return 0;
  }
}

export class Table {
  readonly shape: TableShape;
  readonly arn: string;
  readonly createdAt: number;
  readonly stream: ChangeStream | undefined;
  ttlAttribute: string | undefined;
  readonly #items = new Map<string, Item>();
  readonly #ordered: Ordered;
  readonly #indexes = new Map<string, { readonly shape: IndexShape; readonly ordered: Ordered }>();

  constructor(shape: TableShape, { now, region }: { now: number; region: string }) {
    this.shape = shape;
    this.createdAt = now;
    this.arn = `arn:aws:dynamodb:${region}:000000000000:table/${shape.name}`;
    this.stream =
      shape.streamView === undefined ? undefined : new ChangeStream(this.arn, shape.streamView, { now, region });
    this.#ordered = new Ordered(shape.keys, shape.keys);
    for (const index of shape.indexes)
      this.#indexes.set(index.name, { shape: index, ordered: new Ordered(index, shape.keys) });
  }

  get size(): number {
    return this.#items.size;
  }

  get keyNames(): string[] {
    const { partition, sort } = this.shape.keys;
    return sort === undefined ? [partition] : [partition, sort];
  }

  /** The key attributes of an item. */
  keysOf(item: Readonly<Item>): Item {
    return Object.fromEntries(this.keyNames.map((name) => [name, item[name] as Value]));
  }

  checkKey(key: Item): void {
    const names = this.keyNames;
    if (Object.keys(key).length !== names.length || names.some((name) => key[name] === undefined))
      throw invalid('The provided key element does not match the schema');
  }

  get(key: Readonly<Item>): Item | undefined {
    return this.#items.get(this.#idOf(key));
  }

  all(): Iterable<Item> {
    return this.#items.values();
  }

  /** Replaces an item, or removes it. The caller reports the change to the stream after all writes are decided. */
  replace(before: Item | undefined, after: Item | undefined): void {
    const id = this.#idOf((after ?? before) as Item);
    if (after === undefined) this.#items.delete(id);
    else this.#items.set(id, after);
    for (const ordered of [this.#ordered, ...[...this.#indexes.values()].map((index) => index.ordered)]) {
      if (before !== undefined) ordered.remove(before);
      if (after !== undefined) ordered.put(after);
    }
  }

  checkItem(item: Item): void {
    for (const name of this.keyNames) {
      const value = item[name];
      if (value === undefined)
        throw invalid(`One or more parameter values were invalid: Missing the key ${name} in the item`);
      if ('S' in value && value.S === '')
        throw invalid(
          `One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: ${name}`,
        );
    }
    for (const [name, type] of Object.entries(this.shape.keyTypes)) {
      const value = item[name];
      if (value !== undefined && typeOf(value) !== type)
        throw invalid(
          `One or more parameter values were invalid: Type mismatch for key ${name} expected: ${type} actual: ${typeOf(value)}`,
        );
    }
    if (itemBytes(item) > itemBytesMax) throw invalid('Item size has exceeded the maximum allowed size');
  }

  /** A partition of the table or of one of its indexes, in the order of the sort key. */
  partition(partitionKey: Value, indexName: string | undefined): { items: Iterable<Item>; keys: KeyNames } {
    if (indexName === undefined) return { items: this.#ordered.of(partitionKey), keys: this.shape.keys };
    const index = this.indexNamed(indexName);
    return { items: index.ordered.of(partitionKey), keys: index.shape };
  }

  compareIn(indexName: string | undefined, one: Item, other: Item): number {
    const ordered = indexName === undefined ? this.#ordered : this.indexNamed(indexName).ordered;
    return ordered.compareItems(one, other);
  }

  indexNamed(name: string): { readonly shape: IndexShape; readonly ordered: Ordered } {
    const index = this.#indexes.get(name);
    if (index === undefined) throw invalid(`The table does not have the specified index: ${name}`);
    return index;
  }

  /** The part of an item that an index has. Undefined if the item is not in the index. */
  shownIn({ shape, ordered }: { shape: IndexShape; ordered: Ordered }, item: Item): Item | undefined {
    if (!ordered.holds(item)) return undefined;
    const { ProjectionType, NonKeyAttributes = [] } = shape.projection;
    if (ProjectionType === 'ALL') return item;
    const names = new Set([...this.keyNames, shape.partition, shape.sort, ...NonKeyAttributes]);
    return Object.fromEntries(Object.entries(item).filter(([name]) => names.has(name)));
  }

  indexes(): Iterable<{ readonly shape: IndexShape; readonly ordered: Ordered }> {
    return this.#indexes.values();
  }

  /** Items whose time to live is over. */
  expired(nowSeconds: number): Item[] {
    const name = this.ttlAttribute;
    if (name === undefined) return [];
    return [...this.#items.values()].filter((item) => {
      const value = item[name];
      return value !== undefined && 'N' in value && Number(value.N) < nowSeconds;
    });
  }

  #idOf(key: Readonly<Item>): string {
    const { partition, sort } = this.shape.keys;
    // A zero byte separates the two. No key of ours contains one.
    return `${textOf(key[partition])}\0${sort === undefined ? '' : textOf(key[sort])}`;
  }
}

export const noSuchTable = (): EngineError =>
  new EngineError('ResourceNotFoundException', 'Cannot do operations on a non-existent table');
