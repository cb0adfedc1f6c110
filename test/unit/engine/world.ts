import { type EngineOptions, MemoryEngine } from '../../../src/engine/engine.ts';
import type { Item } from '../../../src/engine/values.ts';

export const TableName = 't';
export const definition = {
  TableName,
  KeySchema: [
    { AttributeName: 'p', KeyType: 'HASH' },
    { AttributeName: 's', KeyType: 'RANGE' },
  ],
  AttributeDefinitions: ['p', 's', 'g'].map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
  GlobalSecondaryIndexes: [
    {
      IndexName: 'by-g',
      KeySchema: [{ AttributeName: 'g', KeyType: 'HASH' }],
      Projection: { ProjectionType: 'KEYS_ONLY' },
    },
  ],
  StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' },
};

interface StreamRecord {
  readonly eventName: string;
  readonly userIdentity?: object;
  readonly dynamodb: { readonly ApproximateCreationDateTime: number; readonly SequenceNumber: string };
}

/** An engine with one table, a clock that stands, and short names for requests. */
export function world(options: EngineOptions = {}) {
  const clock = { ms: 1_900_000_000_000 };
  const units: number[] = [];
  const onUsage = ({ units: { write, indexes } }: { units: { write: number; indexes: Record<string, number> } }) =>
    void units.push(write + Object.values(indexes).reduce((sum, more) => sum + more, 0));
  const engine = new MemoryEngine({ now: () => clock.ms, onUsage, ...options });
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the test checks.
  const call = (operation: string, input: object = {}): any => engine.call(operation, { TableName, ...input });
  call('CreateTable', definition);
  const keyOf = (sort: string) => ({ p: { S: 'p' }, s: { S: sort } });
  const put = (sort: string, more: Item = {}) => call('PutItem', { Item: { ...keyOf(sort), ...more } });
  const get = (sort: string) => call('GetItem', { Key: keyOf(sort) }).Item as Item | undefined;
  const update = (sort: string, UpdateExpression: string, values: Item = {}, names: object = {}) =>
    call('UpdateItem', {
      Key: keyOf(sort),
      UpdateExpression,
      ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: values }),
      ...(Object.keys(names).length > 0 && { ExpressionAttributeNames: names }),
    });
  const StreamArn = call('DescribeTable').Table.LatestStreamArn;
  const iterator = (ShardIteratorType: string, SequenceNumber?: string): string =>
    call('GetShardIterator', { StreamArn, ShardIteratorType, SequenceNumber }).ShardIterator;
  const records = (ShardIterator: string): StreamRecord[] => call('GetRecords', { ShardIterator }).Records;
  return { clock, units, engine, call, keyOf, put, get, update, iterator, records };
}
