import { MemoryEngine } from '../../src/engine/engine.ts';
import { totalOf } from '../../src/engine/units.ts';
import { type Item, itemBytes } from '../../src/engine/values.ts';
import { BuiltInTable } from '../../src/table/built-in.ts';
import type { TableAnswers, TableOperation, TablePort, TableRequests } from '../../src/table/port.ts';
import { tableDefinition } from '../../src/table/shape.ts';

export const tableName = 'holdfast';

/** The requests to the table. */
export interface Used {
  readonly requests: number;
  readonly writeUnits: number;
  readonly readUnits: number;
}

/** A table of the built-in engine, which charges units as DynamoDB does. */
export class CountedTable implements TablePort {
  #requests = 0;
  #writeUnits = 0;
  #readUnits = 0;
  readonly #engine = new MemoryEngine({
    onUsage: ({ units }) => {
      this.#readUnits += units.read;
      this.#writeUnits += totalOf(units) - units.read;
    },
  });

  readonly #table = new BuiltInTable(this.#engine);
  readonly #takesHalf: (operation: string) => Promise<unknown>;

  /** `takesHalf`: half of the time of a request. It takes effect in the middle. */
  constructor(takesHalf: (operation: string) => Promise<unknown> = async () => {}) {
    this.#takesHalf = takesHalf;
    this.#engine.call('CreateTable', tableDefinition(tableName));
  }

  async call<Operation extends TableOperation>(
    operation: Operation,
    request: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]> {
    this.#requests += 1;
    await this.#takesHalf(operation);
    try {
      return await this.#table.call(operation, request);
    } finally {
      await this.#takesHalf(operation);
    }
  }

  /** The use since the last call. */
  take(): Used {
    const used = { requests: this.#requests, writeUnits: this.#writeUnits, readUnits: this.#readUnits };
    this.#requests = this.#writeUnits = this.#readUnits = 0;
    return used;
  }

  /** The size of an item. This read is not counted. */
  bytesOf(pk: string, sk: string): number {
    const before = { requests: this.#requests, writes: this.#writeUnits, reads: this.#readUnits };
    const { Item } = this.#engine.call('GetItem', { TableName: tableName, Key: { pk: { S: pk }, sk: { S: sk } } });
    [this.#requests, this.#writeUnits, this.#readUnits] = [before.requests, before.writes, before.reads];
    return Item === undefined ? 0 : itemBytes(Item as Item);
  }
}
