/** The units that the scale model charges are those that DynamoDB Local reports for the very same requests. */
import { DynamoDB } from '@aws-sdk/client-dynamodb';
import { describe, expect, inject, it } from 'vitest';
import { localCredentials } from '../../src/local/engine/endpoint.ts';
import { Fleet } from '../scale/fleet.ts';
import { tableName } from '../scale/service.ts';
import { ScaleWorld } from '../scale/world.ts';
import { freshTable } from '../support/engine.ts';

interface Charged {
  readonly operation: string;
  readonly input: Record<string, unknown>;
  /** Undefined: refused. DynamoDB says no units then, so these can't be compared. */
  readonly units: number | undefined;
}

/** A lock that many want in every way, with sessions, records and several locks at once; and what was charged for it. */
async function chargedRequests(): Promise<Charged[]> {
  const world = new ScaleWorld(3);
  const { engine } = world.table;
  const charged: Charged[] = [];
  const call = engine.call.bind(engine);
  const total = () => world.bill.writeUnits + world.bill.readUnits;
  engine.call = (operation, input) => {
    const isRead = /^(List|Describe|GetShard|GetRecords)/.test(operation);
    const before = total();
    const request = structuredClone(input) as Record<string, unknown>;
    let units: number | undefined;
    try {
      const answer = call(operation, input);
      units = total() - before;
      return answer;
    } finally {
      if (!isRead) charged.push({ operation, input: request, units });
    }
  };
  const fleet = new Fleet(world, 'hot');
  fleet.start(
    Array.from({ length: 30 }, (_, index) =>
      world.client((['push', 'long poll', 'direct'] as const)[index % 3] ?? 'push'),
    ),
    2_000,
  );
  const other = world.client('long poll');
  void other.record('cursor').put({ page: 'x'.repeat(3_000) }, 'absent');
  void other.acquireAll(['a', 'b', 'c'], { leaseMs: 20_000 }).then((held) => held.release());
  void other.session({ ttlMs: 20_000 }).then((session) => session.acquire('under-session'));
  await world.time.advance(6_000);
  return charged;
}

/** Most requests are looks of waiters at an item that nobody has written since their last look. One of them is enough. */
function withoutRepeatedReads(charged: readonly Charged[]): Charged[] {
  const read = new Set<string>();
  return charged.filter(({ operation, input, units }) => {
    if (!/^(Get|BatchGet|Query)/.test(operation)) {
      read.clear();
      return true;
    }
    const look = JSON.stringify([operation, input, units]);
    return !read.has(look) && read.add(look);
  });
}

describe('the model', () => {
  // dynoxide reports no units for writes.
  it.skipIf(inject('engine').harsh || inject('engine').name !== 'dynamodb-local')(
    'charges what DynamoDB Local reports for the same requests',
    async () => {
      const charged = await chargedRequests();
      const table = await freshTable();
      const { endpoint, region } = table;
      const client = new DynamoDB({ endpoint, region, credentials: localCredentials, maxAttempts: 1 });
      const differing: string[] = [];
      for (const { operation, input, units } of withoutRepeatedReads(charged)) {
        const reported = await send(client, operation, renamed(input, table.tableName));
        if (reported !== units && !isKnownToDiffer(operation, reported))
          differing.push(`${operation} charged ${units}, reported ${reported}: ${JSON.stringify(input)}`);
      }
      client.destroy();
      expect(differing).toEqual([]);
      // The queue was long enough for items of several kilobytes, and somebody was refused.
      expect(Math.max(...charged.map(({ units = 0 }) => units))).toBeGreaterThan(2);
      expect(charged.filter(({ units }) => units === undefined)).not.toEqual([]);
      const operations = [...new Set(charged.map(({ operation }) => operation))];
      expect(operations).toEqual(expect.arrayContaining(['GetItem', 'PutItem', 'UpdateItem', 'BatchWriteItem']));
    },
  );
});

/**
 * Where DynamoDB Local does not do as DynamoDB documents: a read that finds nothing costs a unit, and each item of a transaction costs
 * twice what it costs alone.
 */
const isKnownToDiffer = (operation: string, reported: number | undefined): boolean =>
  operation === 'TransactWriteItems' || (['Query', 'BatchGetItem'].includes(operation) && reported === 0);

type Send = (input: object) => Promise<{ ConsumedCapacity?: Consumed | Consumed[] }>;
interface Consumed {
  readonly CapacityUnits?: number;
}

const methodOf = (operation: string): string => operation.replace(/^./, (letter) => letter.toLowerCase());

/** Units of the whole request; undefined where it is refused. */
async function send(client: DynamoDB, operation: string, input: object): Promise<number | undefined> {
  try {
    const method = (client as unknown as Record<string, Send>)[methodOf(operation)] as Send;
    const { ConsumedCapacity = [] } = await method.call(client, { ...input, ReturnConsumedCapacity: 'TOTAL' });
    return [ConsumedCapacity].flat().reduce((sum, { CapacityUnits = 0 }) => sum + CapacityUnits, 0);
  } catch (error) {
    if (/^(ConditionalCheckFailed|TransactionCanceled)/.test((error as Error).name)) return undefined;
    throw error;
  }
}

/** The same request for another table. */
const renamed = (input: object, name: string): object =>
  Object.fromEntries(
    Object.entries(input).map(([member, value]) => {
      if (member === 'TableName') return [member, name];
      if (member === 'RequestItems') return [member, { [name]: (value as Record<string, unknown>)[tableName] }];
      if (member === 'TransactItems')
        return [
          member,
          (value as Record<string, object>[]).map((one) =>
            Object.fromEntries(Object.entries(one).map(([kind, write]) => [kind, renamed(write, name)])),
          ),
        ];
      return [member, value];
    }),
  );
