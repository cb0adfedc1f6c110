/** The definition of a table in requests and in descriptions. */
import { streamView } from './change-stream.ts';
import { invalid } from './errors.ts';
import type { KeyNames, Table, TableShape } from './table.ts';

interface KeyElement {
  readonly AttributeName: string;
  readonly KeyType: string;
}

interface IndexDefinition {
  readonly IndexName: string;
  readonly KeySchema: readonly KeyElement[];
  readonly Projection?: { readonly ProjectionType?: string };
}

export interface TableDefinition {
  readonly TableName: string;
  readonly KeySchema: readonly KeyElement[];
  readonly AttributeDefinitions: readonly { readonly AttributeName: string; readonly AttributeType: string }[];
  readonly GlobalSecondaryIndexes?: readonly IndexDefinition[];
  readonly StreamSpecification?: { readonly StreamEnabled?: boolean; readonly StreamViewType?: string };
}

const namesIn = (schema: readonly KeyElement[]): KeyNames => ({
  partition: schema.find(({ KeyType }) => KeyType === 'HASH')?.AttributeName ?? '',
  sort: schema.find(({ KeyType }) => KeyType === 'RANGE')?.AttributeName,
});

export function shapeOf(definition: TableDefinition): TableShape {
  const { StreamSpecification: stream, GlobalSecondaryIndexes: indexes = [] } = definition;
  if (stream?.StreamEnabled && stream.StreamViewType !== streamView)
    throw invalid(`A stream has the view ${streamView} here.`);
  return {
    name: definition.TableName,
    keys: namesIn(definition.KeySchema),
    indexes: indexes.map(({ IndexName, KeySchema, Projection }) => ({
      name: IndexName,
      ...namesIn(KeySchema),
      projection: Projection?.ProjectionType,
    })),
    keyTypes: Object.fromEntries(
      definition.AttributeDefinitions.map(({ AttributeName, AttributeType }) => [AttributeName, AttributeType]),
    ),
    definition,
    hasStream: stream?.StreamEnabled === true,
  };
}

export function describeTable(table: Table, status = 'ACTIVE'): Record<string, unknown> {
  const { KeySchema, AttributeDefinitions, GlobalSecondaryIndexes, StreamSpecification, TableName } =
    table.shape.definition;
  return {
    TableName,
    TableArn: table.arn,
    TableStatus: status,
    CreationDateTime: table.createdAt / 1000,
    ItemCount: table.size,
    KeySchema,
    AttributeDefinitions,
    BillingModeSummary: { BillingMode: 'PAY_PER_REQUEST' },
    ...(GlobalSecondaryIndexes === undefined
      ? {}
      : { GlobalSecondaryIndexes: GlobalSecondaryIndexes.map((index) => ({ ...index, IndexStatus: 'ACTIVE' })) }),
    ...(table.stream === undefined
      ? {}
      : { StreamSpecification, LatestStreamArn: table.stream.arn, LatestStreamLabel: table.stream.label }),
  };
}
