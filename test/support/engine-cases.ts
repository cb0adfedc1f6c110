/** Random requests to a table. */
import fc from 'fast-check';
import type { Item, Value } from '../../src/engine/values.ts';
import { anyCondition, anyUpdate, item, key, partition, values } from './engine-expressions.ts';

export type Operation =
  | 'PutItem'
  | 'UpdateItem'
  | 'DeleteItem'
  | 'GetItem'
  | 'Query'
  | 'BatchGetItem'
  | 'BatchWriteItem'
  | 'TransactWriteItems';

export interface Request {
  readonly operation: Operation;
  readonly input: Readonly<Record<string, unknown>>;
}

export const TableName = 'engine-comparison';

/** One index of keys only, ordered by a number, and one of whole items. */
export const definition = {
  TableName,
  BillingMode: 'PAY_PER_REQUEST' as const,
  KeySchema: [
    { AttributeName: 'pk', KeyType: 'HASH' as const },
    { AttributeName: 'sk', KeyType: 'RANGE' as const },
  ],
  AttributeDefinitions: [
    ...['pk', 'sk', 'g', 'f'].map((AttributeName) => ({ AttributeName, AttributeType: 'S' as const })),
    { AttributeName: 'h', AttributeType: 'N' as const },
  ],
  GlobalSecondaryIndexes: [
    {
      IndexName: 'by-g',
      KeySchema: [
        { AttributeName: 'g', KeyType: 'HASH' as const },
        { AttributeName: 'h', KeyType: 'RANGE' as const },
      ],
      Projection: { ProjectionType: 'KEYS_ONLY' as const },
    },
    {
      IndexName: 'by-f',
      KeySchema: [{ AttributeName: 'f', KeyType: 'HASH' as const }],
      Projection: { ProjectionType: 'ALL' as const },
    },
  ],
  StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' as const },
};

/** The same request in the partition of a case. Keys of indexes belong to the case too. */
export const inPartition = (request: Request, run: string): Request =>
  JSON.parse(JSON.stringify(request).replaceAll(partition, run));

const expressions = ['ConditionExpression', 'UpdateExpression', 'KeyConditionExpression', 'FilterExpression'];

/** Only the aliases that an expression uses may be sent. Rarely, one is missing or one too many is sent. */
const withAliases = (
  input: Record<string, unknown>,
  given: Record<string, Value>,
  slip: 'none' | 'missing' | 'unused',
): Record<string, unknown> => {
  const texts = expressions.map((name) => input[name] ?? '').join(' ');
  const used = [...new Set(texts.match(/[#:]\w+/g))].slice(slip === 'missing' ? 1 : 0);
  const names = used.filter((alias) => alias.startsWith('#')).map((alias) => [alias, nameOf(alias.slice(1))]);
  const inUse = used.filter((alias) => alias.startsWith(':')).map((alias) => [alias, given[alias]]);
  if (slip === 'unused') names.push(['#unused', 'a']);
  return {
    ...input,
    ...(names.length === 0 ? {} : { ExpressionAttributeNames: Object.fromEntries(names) }),
    ...(inUse.length === 0 ? {} : { ExpressionAttributeValues: Object.fromEntries(inUse) }),
  };
};

const nameOf = (word: string): string => (word === 'sp' ? 'a b' : word);

const slip = fc.oneof(
  { weight: 60, arbitrary: fc.constant('none' as const) },
  { weight: 1, arbitrary: fc.constantFrom('missing' as const, 'unused' as const) },
);
const when = fc.option(anyCondition, { nil: undefined, freq: 2 });
const shows = fc.constantFrom('ALL_OLD' as const, 'NONE' as const);

const written = (fields: object) =>
  fc
    .record({ when, values, slip, shows, fields: fc.record(fields as Record<string, fc.Arbitrary<unknown>>) })
    .map(({ when: ConditionExpression, values: given, slip: kind, shows: shown, fields: own }) =>
      withAliases(
        {
          TableName,
          ...own,
          ...(ConditionExpression === undefined ? {} : { ConditionExpression }),
          ReturnValuesOnConditionCheckFailure: shown,
        },
        given,
        kind,
      ),
    );

const put = written({ Item: item });
const updateOf = written({ Key: key, UpdateExpression: anyUpdate });
const remove = written({ Key: key });
const check = written({ Key: key }).filter((input) => input.ConditionExpression !== undefined);
const returning = (arbitrary: fc.Arbitrary<Record<string, unknown>>, ...kinds: readonly string[]) =>
  fc.tuple(arbitrary, fc.constantFrom(...kinds)).map(([input, ReturnValues]) => ({ ...input, ReturnValues }));
const asRequest = (operation: Operation, input: fc.Arbitrary<Record<string, unknown>>): fc.Arbitrary<Request> =>
  input.map((given) => ({ operation, input: given }));

const keyCondition = fc.constantFrom(
  { KeyConditionExpression: 'pk = :p' },
  { KeyConditionExpression: '#pk = :p AND sk = :t' },
  { KeyConditionExpression: 'pk = :p AND sk >= :t' },
  { KeyConditionExpression: 'pk = :p AND begins_with(sk, :t)' },
  { KeyConditionExpression: 'pk = :p AND sk BETWEEN :t AND :typeX' },
  { KeyConditionExpression: 'sk < :n AND pk = :p' },
  { KeyConditionExpression: 'g = :g', IndexName: 'by-g' },
  { KeyConditionExpression: 'g = :g AND h > :n', IndexName: 'by-g' },
  { KeyConditionExpression: 'g = :g AND h BETWEEN :n AND :m', IndexName: 'by-g' },
  { KeyConditionExpression: 'f = :f', IndexName: 'by-f' },
  { KeyConditionExpression: 'sk = :t' },
  { KeyConditionExpression: 'pk = :p OR sk = :t' },
);
const query = fc
  .record({
    where: keyCondition,
    filter: when,
    values,
    limit: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined, freq: 2 }),
    forward: fc.boolean(),
  })
  .map(({ where, filter, values: given, limit, forward }) =>
    withAliases(
      {
        TableName,
        ...where,
        ...(filter === undefined ? {} : { FilterExpression: filter }),
        ...(limit === undefined ? {} : { Limit: limit }),
        ScanIndexForward: forward,
      },
      given,
      'none',
    ),
  );

const batchWrite = fc
  .array(
    fc.oneof(
      item.map((Item) => ({ PutRequest: { Item } })),
      key.map((Key) => ({ DeleteRequest: { Key } })),
    ),
    { minLength: 1, maxLength: 3 },
  )
  .map((requests) => ({ RequestItems: { [TableName]: requests } }));
const batchGet = fc
  .array(key, { minLength: 1, maxLength: 3 })
  .map((Keys) => ({ RequestItems: { [TableName]: { Keys, ConsistentRead: true } } }));
const areDistinct = (items: readonly Record<string, unknown>[]): boolean => {
  const sorts = items.map((item) => {
    const [write] = Object.values(item) as { Key?: Item; Item?: Item }[];
    return JSON.stringify((write?.Key ?? write?.Item)?.sk);
  });
  return new Set(sorts).size === sorts.length;
};
const transaction = fc
  .array(
    fc.oneof(
      put.map((Put) => ({ Put })),
      updateOf.map((Update) => ({ Update })),
      remove.map((Delete) => ({ Delete })),
      check.map((ConditionCheck) => ({ ConditionCheck })),
    ),
    { minLength: 1, maxLength: 3 },
  )
  // DynamoDB refuses two writes of one item before it looks at the item. DynamoDB Local does so last, if at all.
  .filter(areDistinct)
  .map((TransactItems) => ({ TransactItems }));

const request: fc.Arbitrary<Request> = fc.oneof(
  { weight: 5, arbitrary: asRequest('PutItem', returning(put, 'NONE', 'ALL_OLD')) },
  { weight: 14, arbitrary: asRequest('UpdateItem', returning(updateOf, 'NONE', 'ALL_OLD', 'ALL_NEW', 'ALL_NEW')) },
  { weight: 2, arbitrary: asRequest('DeleteItem', returning(remove, 'NONE', 'ALL_OLD')) },
  {
    weight: 1,
    arbitrary: asRequest(
      'GetItem',
      key.map((Key) => ({ TableName, Key, ConsistentRead: true })),
    ),
  },
  { weight: 3, arbitrary: asRequest('Query', query) },
  { weight: 1, arbitrary: asRequest('BatchGetItem', batchGet) },
  { weight: 1, arbitrary: asRequest('BatchWriteItem', batchWrite) },
  { weight: 3, arbitrary: asRequest('TransactWriteItems', transaction) },
);

const firstPut = asRequest(
  'PutItem',
  item.map((Item) => ({ TableName, Item })),
);

/** One case: a partition with an item, and requests to it. */
export const cases: fc.Arbitrary<readonly Request[]> = fc
  .tuple(firstPut, fc.array(request, { minLength: 3, maxLength: 9 }))
  .map(([first, others]) => [first, ...others]);
