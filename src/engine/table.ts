/** One table: its items, its indexes and its stream. */
import { SortedList } from '../tools/sorted-list.ts';
import { ChangeStream, type StreamOptions } from './change-stream.ts';
import { EngineError, invalid } from './errors.ts';
import type { TableDefinition } from './table-definition.ts';
import { compare, equals, type Item, itemBytes, typeOf, type Value } from './values.ts';

export interface KeyNames {
  readonly partition: string;
  readonly sort?: string | undefined;
}

export interface IndexShape extends KeyNames {
  readonly name: string;
  readonly projection: string | undefined;
}

export interface TableShape {
  readonly name: string;
  readonly keys: KeyNames;
  readonly indexes: readonly IndexShape[];
  /** The types of all key attributes, of the table and of its indexes. */
  readonly keyTypes: Readonly<Record<string, string>>;
  /** The definition as the caller gave it, for descriptions. */
  readonly definition: TableDefinition;
  readonly hasStream: boolean;
}

/** DynamoDB's own limits. */
const itemBytesMax = 400 * 1024;
const partitionKeyBytesMax = 2048;
const sortKeyBytesMax = 1024;

const textOf = (value: Value | undefined): string =>
  value === undefined
    ? ''
    : 'S' in value
      ? `S${value.S}`
      : 'N' in value
        ? `N${Number(value.N)}`
        : `B${'B' in value ? value.B : ''}`;

/** Entries of items by a pair of keys: those of the table itself, or those of an index. */
export class Index {
  readonly keys: KeyNames;
  /** The table's keys and the index's own keys, each once. */
  readonly names: readonly string[];
  readonly #order: readonly string[];
  readonly #isWhole: boolean;
  /** Entries by their partition key, ordered by the sort key. */
  readonly #partitions = new Map<string, SortedList<Item>>();

  /** The entry of an item has the whole item, or only its keys. */
  constructor(keys: KeyNames, tableKeys: KeyNames, isWhole: boolean) {
    this.keys = keys;
    this.#order = [keys.sort, tableKeys.partition, tableKeys.sort].filter((name) => name !== undefined);
    this.names = [...new Set([tableKeys.partition, ...this.#order, keys.partition])];
    this.#isWhole = isWhole;
  }

  #holds(item: Item): boolean {
    const { partition, sort } = this.keys;
    return item[partition] !== undefined && (sort === undefined || item[sort] !== undefined);
  }

  /** The key attributes of an item. */
  keysOf(item: Item): Item {
    const keys: Record<string, Value> = {};
    for (const name of this.names) keys[name] = item[name] as Value;
    return keys;
  }

  /** True if entries here have this attribute, if their item has it. */
  has(name: string): boolean {
    return this.#isWhole || this.names.includes(name);
  }

  /** The part of an item that is here. Undefined if the item is not here. */
  entryOf(item: Item | undefined): Item | undefined {
    if (item === undefined || !this.#holds(item)) return undefined;
    return this.#isWhole ? item : this.keysOf(item);
  }

  /** True if two items have the same keys here. An update rarely changes them, so this is checked before anything else. */
  #isSameKey(one: Item, other: Item): boolean {
    for (const name of this.names) {
      const [left, right] = [one[name], other[name]];
      if (left !== right && (left === undefined || right === undefined || !equals(left, right))) return false;
    }
    return true;
  }

  /** Replaces the entry of an item, or adds or removes it. */
  replace(before: Item | undefined, after: Item | undefined): void {
    const stays = before !== undefined && after !== undefined && this.#isSameKey(before, after);
    if (stays && !this.#isWhole) return;
    if (before !== undefined && !stays) this.#remove(before);
    if (after !== undefined) this.#put(after);
  }

  #put(item: Item): void {
    const entry = this.entryOf(item);
    if (entry === undefined) return;
    const id = textOf(item[this.keys.partition]);
    let partition = this.#partitions.get(id);
    if (partition === undefined) {
      partition = new SortedList((one, other) => this.#compareInPartition(one, other));
      this.#partitions.set(id, partition);
    }
    partition.put(entry);
  }

  #remove(item: Item): void {
    if (!this.#holds(item)) return;
    const id = textOf(item[this.keys.partition]);
    const partition = this.#partitions.get(id);
    partition?.remove(item);
    if (partition?.size === 0) this.#partitions.delete(id);
  }

  /** The entries of a partition, in order. */
  of(partitionKey: Value): Iterable<Item> {
    return this.#partitions.get(textOf(partitionKey)) ?? [];
  }

  /** Every entry, partition by partition. */
  all(): Item[] {
    const ids = [...this.#partitions.keys()].sort();
    return ids.flatMap((id) => [...(this.#partitions.get(id) ?? [])]);
  }

  /** Orders entries by their partition, and in it by the sort key. */
  compareItems(one: Item, other: Item): number {
    const [left, right] = [textOf(one[this.keys.partition]), textOf(other[this.keys.partition])];
    return left === right ? this.#compareInPartition(one, other) : left < right ? -1 : 1;
  }

  /** If two have the same sort key, the table's own keys decide. */
  #compareInPartition(one: Item, other: Item): number {
    for (const name of this.#order) {
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
  /** The table itself, as the index of its own keys. */
  readonly #own: Index;
  readonly indexes: ReadonlyMap<string, Index>;
  readonly #indexKeyNames: readonly string[];

  constructor(shape: TableShape, options: StreamOptions) {
    this.shape = shape;
    this.createdAt = options.createdAt;
    this.arn = `arn:aws:dynamodb:${options.region}:000000000000:table/${shape.name}`;
    this.stream = shape.hasStream ? new ChangeStream(this.arn, options) : undefined;
    this.#own = new Index(shape.keys, shape.keys, true);
    this.indexes = new Map(
      shape.indexes.map((index) => [index.name, new Index(index, shape.keys, index.projection === 'ALL')]),
    );
    this.#indexKeyNames = Object.keys(shape.keyTypes).filter((name) => !this.keyNames.includes(name));
  }

  get size(): number {
    return this.#items.size;
  }

  all(): Iterable<Item> {
    return this.#items.values();
  }

  get keyNames(): readonly string[] {
    return this.#own.names;
  }

  /** The key attributes of an item. */
  keysOf(item: Item): Item {
    return this.#own.keysOf(item);
  }

  /** A key has exactly the key attributes. */
  checkKey(key: Item): void {
    const names = this.keyNames;
    if (Object.keys(key).length !== names.length || names.some((name) => key[name] === undefined))
      throw invalid('The provided key element does not match the schema');
    this.checkItemKey(key);
  }

  checkItemKey(item: Item): void {
    for (const name of this.keyNames) {
      const value = item[name];
      if (value === undefined)
        throw invalid(`One or more parameter values were invalid: Missing the key ${name} in the item`);
      this.checkKeyValue(name, value);
    }
  }

  /** Refuses a value that can't be in a key, of the table or of an index. */
  checkKeyValue(name: string, value: Value): void {
    const type = this.shape.keyTypes[name];
    if (type !== undefined && !(type in value))
      throw invalid(
        `One or more parameter values were invalid: Type mismatch for key ${name} expected: ${type} actual: ${typeOf(value)}`,
      );
    if (('S' in value && value.S === '') || ('B' in value && value.B === ''))
      throw invalid(
        `One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: ${name}`,
      );
    if ('S' in value && value.S.length * 3 > sortKeyBytesMax) this.#checkKeySize(name, Buffer.byteLength(value.S));
  }

  #checkKeySize(name: string, bytes: number): void {
    const isSort = [this.shape.keys, ...this.shape.indexes].some(({ sort }) => sort === name);
    if (bytes > (isSort ? sortKeyBytesMax : partitionKeyBytesMax))
      throw invalid(`One or more parameter values were invalid: Size of key ${name} has exceeded the limit`);
  }

  get(key: Item): Item | undefined {
    return this.#items.get(this.idOf(key));
  }

  /** Replaces an item, or removes it. The caller reports the change to the stream after all writes are decided. */
  replace(before: Item | undefined, after: Item | undefined): void {
    const id = this.idOf((after ?? before) as Item);
    if (after === undefined) this.#items.delete(id);
    else this.#items.set(id, after);
    this.#own.replace(before, after);
    for (const index of this.indexes.values()) index.replace(before, after);
  }

  /** The keys of indexes may be missing, but not wrong. */
  checkItem(item: Item): void {
    for (const name of this.#indexKeyNames) {
      const value = item[name];
      if (value !== undefined) this.checkKeyValue(name, value);
    }
    if (itemBytes(item) > itemBytesMax) throw invalid('Item size has exceeded the maximum allowed size');
  }

  /** The named index, or the table itself if no name is given. */
  index(name: string | undefined): Index {
    const index = name === undefined ? this.#own : this.indexes.get(name);
    if (index === undefined) throw invalid(`The table does not have the specified index: ${name}`);
    return index;
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

  /** Names an item of this table. */
  idOf(key: Item): string {
    const { partition, sort } = this.shape.keys;
    // A zero byte separates the two. No key of ours contains one.
    return `${textOf(key[partition])}\0${sort === undefined ? '' : textOf(key[sort])}`;
  }
}

export const noSuchTable = (): EngineError =>
  new EngineError('ResourceNotFoundException', 'Cannot do operations on a non-existent table');
