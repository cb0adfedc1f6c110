/**
 * The one port at the table: DynamoDB's own operations, in its own JSON. Every store is written above it once. Behind it is
 * DynamoDB, by the AWS SDK, or the built-in engine. Tests replace it, and nothing above it.
 */
import type { StoredItem } from './json.ts';

interface Aliases {
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>> | undefined;
  readonly ExpressionAttributeValues?: StoredItem | undefined;
}

interface Conditional extends Aliases {
  readonly TableName: string;
  readonly ConditionExpression?: string | undefined;
  readonly ReturnValuesOnConditionCheckFailure?: 'ALL_OLD' | undefined;
}

export interface PutRequest extends Conditional {
  readonly Item: StoredItem;
}

export interface UpdateRequest extends Conditional {
  readonly Key: StoredItem;
  readonly UpdateExpression: string;
  readonly ReturnValues?: 'ALL_NEW' | 'NONE' | undefined;
}

export interface QueryRequest extends Aliases {
  readonly TableName: string;
  readonly IndexName?: string | undefined;
  readonly KeyConditionExpression: string;
  readonly FilterExpression?: string | undefined;
  readonly ConsistentRead?: boolean | undefined;
  readonly ScanIndexForward?: boolean | undefined;
  readonly Limit?: number | undefined;
  readonly ExclusiveStartKey?: StoredItem | undefined;
}

/** One write of a batch. */
export type BatchedWrite =
  | { readonly PutRequest: { readonly Item: StoredItem } }
  | { readonly DeleteRequest: { readonly Key: StoredItem } };

/** One write of a transaction. */
export type TransactedWrite = { readonly Put: PutRequest } | { readonly Update: UpdateRequest };

type ByTable<Part> = Readonly<Record<string, Part>>;

export interface TableRequests {
  GetItem: { readonly TableName: string; readonly Key: StoredItem; readonly ConsistentRead?: boolean };
  PutItem: PutRequest;
  UpdateItem: UpdateRequest;
  Query: QueryRequest;
  BatchGetItem: {
    readonly RequestItems: ByTable<{ readonly Keys: readonly StoredItem[]; readonly ConsistentRead: boolean }>;
  };
  BatchWriteItem: { readonly RequestItems: ByTable<readonly BatchedWrite[]> };
  TransactWriteItems: { readonly TransactItems: readonly TransactedWrite[] };
}

export interface TableAnswers {
  GetItem: { readonly Item?: StoredItem };
  PutItem: object;
  UpdateItem: { readonly Attributes?: StoredItem };
  Query: { readonly Items?: readonly StoredItem[]; readonly LastEvaluatedKey?: StoredItem };
  BatchGetItem: {
    readonly Responses?: ByTable<readonly StoredItem[]>;
    readonly UnprocessedKeys?: ByTable<{ readonly Keys?: readonly StoredItem[] }>;
  };
  BatchWriteItem: { readonly UnprocessedItems?: ByTable<readonly BatchedWrite[]> };
  TransactWriteItems: object;
}

export type TableOperation = keyof TableRequests;

/**
 * A call fails with an error that has DynamoDB's own name. A refused condition shows the item that refused it. If a call was
 * sent more than once, `$metadata.attempts` says so (see failures.ts).
 */
export interface TablePort {
  call<Operation extends TableOperation>(
    operation: Operation,
    request: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]>;
}
