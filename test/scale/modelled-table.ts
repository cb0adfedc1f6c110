import { MemoryEngine, type Usage } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/engine/errors.ts';
import { totalOf } from '../../src/engine/units.ts';
import type { Item } from '../../src/engine/values.ts';
import { mayHaveTakenEffect } from '../../src/table/failures.ts';
import type { TableAnswers, TableOperation, TablePort, TableRequests } from '../../src/table/port.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from '../world/chance.ts';
import type { Bill } from './bill.ts';
import { delayOf } from './delays.ts';
import { amountOf } from './facts.ts';
import type { Metrics } from './metrics.ts';
import { TokenBucket } from './token-bucket.ts';

/** The SDK tries three times in total, with random pauses. */
const attemptsMax = 3;
const backoffMs = 50;

const writes = new Set(['PutItem', 'UpdateItem', 'DeleteItem', 'TransactWriteItems', 'BatchWriteItem']);

/**
 * DynamoDB under its own limits, in virtual time. Items and units come from the built-in engine, delays and quotas from the facts. A key
 * that has used its units of this second is throttled, and the SDK tries again, as in Lambda.
 */
export class ModelledTable implements TablePort {
  readonly engine: MemoryEngine;
  readonly #time: VirtualTime;
  readonly #bill: Bill;
  readonly #metrics: Metrics;
  readonly #chance: Chance;
  readonly #writeDelay: () => number;
  readonly #readDelay: () => number;
  readonly #keys = new Map<string, { readonly read: TokenBucket; readonly write: TokenBucket }>();
  #transactions = 0;
  /** Set by a scenario. The store can't be reached, or one key is throttled even if it has units left. */
  isAway = false;
  throttledKey: string | undefined;

  constructor({ time, chance, bill, metrics }: { time: VirtualTime; chance: Chance; bill: Bill; metrics: Metrics }) {
    this.#time = time;
    this.#metrics = metrics;
    this.#bill = bill;
    this.#chance = chance;
    this.#writeDelay = delayOf(chance.branch(), 'writeMsP50', 'writeMsP99');
    this.#readDelay = delayOf(chance.branch(), 'readMsP50', 'readMsP99');
    this.engine = new MemoryEngine({ now: time.now, onUsage: (usage) => this.#charge(usage) });
  }

  /** One call, like the SDK makes it. It is tried again if it was throttled or got no answer. */
  async call<Operation extends TableOperation>(
    operation: Operation,
    request: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]> {
    // As the SDK sends it: a transaction has a token, by which its repeat is recognized.
    const token =
      operation === 'TransactWriteItems' ? { ClientRequestToken: `transaction-${++this.#transactions}` } : {};
    const input = { ...request, ...token };
    let isUncertain = false;
    for (let attempt = 1; ; attempt++) {
      try {
        return (await this.#send(operation, input)) as TableAnswers[Operation];
      } catch (error) {
        const isPassing = error instanceof EngineError && passing.has(error.name);
        isUncertain ||= error instanceof EngineError && error.name === 'TimeoutError';
        const uncertain = isUncertain ? { [mayHaveTakenEffect]: true } : {};
        Object.assign(error as Error, {
          $metadata: { attempts: attempt },
          ...(error as EngineError).more,
          ...uncertain,
        });
        if (!isPassing || attempt >= attemptsMax) throw error;
        await this.#pause(this.#chance.next() * backoffMs * 2 ** attempt);
      }
    }
  }

  async #send(operation: string, input: object): Promise<object> {
    this.#bill.storeRequests += 1;
    const delayMs = writes.has(operation) ? this.#writeDelay() : this.#readDelay();
    await this.#pause(delayMs / 2);
    if (this.isAway) throw new EngineError('TimeoutError', 'The store did not answer.');
    const key = keysIn(input).find((candidate) => this.#isThrottled(candidate, writes.has(operation)));
    if (key !== undefined) {
      this.#bill.throttled += 1;
      this.#metrics.add(writes.has(operation) ? 'WriteThrottleEvents' : 'ReadThrottleEvents', 'Table');
      await this.#pause(delayMs / 2);
      throw new EngineError('ThrottlingException', 'Throughput exceeds the partition limit.', {
        throttlingReasons: [{ reason: 'TableWriteKeyRangeThroughputExceeded', resource: 'table' }],
      });
    }
    let answer: object | undefined;
    let refusal: unknown;
    try {
      answer = this.engine.call(operation, input);
    } catch (error) {
      refusal = error;
      if ((error as EngineError).name === 'ConditionalCheckFailedException')
        this.#metrics.add('ConditionalCheckFailedRequests', 'Table');
    }
    await this.#pause(delayMs / 2);
    if (answer === undefined) throw refusal;
    return answer;
  }

  #isThrottled(key: string, isWrite: boolean): boolean {
    if (key === this.throttledKey) return true;
    const { read, write } = this.#bucketsOf(key);
    return (isWrite ? write : read).isEmpty(this.#time.now());
  }

  #bucketsOf(key: string) {
    const now = this.#time.now();
    let buckets = this.#keys.get(key);
    if (buckets === undefined) {
      buckets = {
        read: new TokenBucket(amountOf('readUnitsPerKey'), now),
        write: new TokenBucket(amountOf('writeUnitsPerKey'), now),
      };
      this.#keys.set(key, buckets);
    }
    return buckets;
  }

  #charge({ key, units }: Usage): void {
    this.#bill.readUnits += units.read;
    this.#bill.writeUnits += totalOf(units) - units.read;
    this.#metrics.add('ConsumedReadCapacityUnits', 'Table', units.read);
    this.#metrics.add('ConsumedWriteCapacityUnits', 'Table', totalOf(units) - units.read);
    const { read, write } = this.#bucketsOf(partitionOf(key));
    read.take(units.read);
    write.take(units.write);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#time.after(ms, resolve));
  }
}

/** The errors after which the SDK tries again by itself. */
const passing = new Set(['ThrottlingException', 'TimeoutError']);

const partitionOf = (key: Item): string => {
  const { pk } = key;
  return pk !== undefined && 'S' in pk ? pk.S : JSON.stringify(key);
};

/** The partition of a query of the table itself. The partitions of an index are not modelled. */
function queriedIn(input: object): Item | undefined {
  const { KeyConditionExpression, IndexName, ExpressionAttributeNames, ExpressionAttributeValues } = input as {
    KeyConditionExpression?: string;
    IndexName?: string;
    ExpressionAttributeNames?: Record<string, string>;
    ExpressionAttributeValues?: Item;
  };
  const [, name = '', value = ''] = /(#\w+) = (:\w+)/.exec(KeyConditionExpression ?? '') ?? [];
  const pk = ExpressionAttributeValues?.[value];
  return IndexName === undefined && ExpressionAttributeNames?.[name] === 'pk' && pk !== undefined ? { pk } : undefined;
}

/** The partition keys that a request names. */
function keysIn(input: object): string[] {
  const {
    Key,
    Item: item,
    RequestItems,
    TransactItems,
  } = input as {
    Key?: Item;
    Item?: Item;
    RequestItems?: Record<string, { Keys?: Item[] } | { PutRequest?: { Item: Item }; DeleteRequest?: { Key: Item } }[]>;
    TransactItems?: Record<string, { Key?: Item; Item?: Item }>[];
  };
  const items = [
    Key,
    item,
    queriedIn(input),
    ...Object.values(RequestItems ?? {}).flatMap((asked) =>
      Array.isArray(asked)
        ? asked.map(({ PutRequest, DeleteRequest }) => PutRequest?.Item ?? DeleteRequest?.Key)
        : (asked.Keys ?? []),
    ),
    ...(TransactItems ?? []).flatMap((one) => Object.values(one).map((write) => write.Key ?? write.Item)),
  ];
  return items.flatMap((one) => (one === undefined ? [] : [partitionOf(one)]));
}
