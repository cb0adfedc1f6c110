import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { MemoryEngine } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/engine/errors.ts';
import type { Item as WireItem } from '../../src/engine/values.ts';
import type { Item, ItemKey, Update } from '../../src/table/attributes.ts';
import { tableDefinition } from '../../src/table/shape.ts';

const TableName = 'table';

/** One item in the built-in engine, without a network between, so that a test of an expression takes no time. */
export class ItemInMemory {
  readonly #engine = new MemoryEngine();
  readonly #key: WireItem;

  constructor(key: ItemKey, item?: Item) {
    this.#key = toWire({ ...key });
    this.#engine.call('CreateTable', tableDefinition(TableName));
    if (item !== undefined) this.#engine.call('PutItem', { TableName, Item: toWire(item) });
  }

  get item(): Item | undefined {
    const { Item: found } = this.#engine.call('GetItem', { TableName, Key: this.#key });
    return found === undefined ? undefined : unmarshall(found as Parameters<typeof unmarshall>[0]);
  }

  /** False if the condition refuses the update. */
  apply({ ExpressionAttributeValues: values, ...update }: Update): boolean {
    const given = values === undefined ? {} : { ExpressionAttributeValues: toWire(values) };
    try {
      this.#engine.call('UpdateItem', { TableName, Key: this.#key, ...update, ...given });
      return true;
    } catch (error) {
      if (error instanceof EngineError && error.name === 'ConditionalCheckFailedException') return false;
      throw error;
    }
  }
}

const toWire = (item: Item): WireItem => marshall(item, { removeUndefinedValues: true }) as WireItem;
