import { RemovalPolicy } from 'aws-cdk-lib';
import {
  AttributeType,
  Billing,
  ProjectionType,
  StreamViewType,
  TableEncryptionV2,
  TableV2,
} from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';
import { tableShape } from '../src/store/dynamodb/table.ts';

export interface LockTableProps {
  readonly removalPolicy: RemovalPolicy;
  readonly encryptionKey?: IKey | undefined;
}

const text = (name: string) => ({ name, type: AttributeType.STRING });
const keyTypes = { S: AttributeType.STRING, N: AttributeType.NUMBER } as const;

/** The table in the shape that the store relies on. The local service makes its own from the same definition. */
export function createLockTable(scope: Construct, { removalPolicy, encryptionKey }: LockTableProps): TableV2 {
  return new TableV2(scope, 'Table', {
    partitionKey: text(tableShape.partitionKey),
    sortKey: text(tableShape.sortKey),
    globalSecondaryIndexes: Object.values(tableShape.indexes).map((index) => ({
      indexName: index.name,
      partitionKey: text(index.partitionKey),
      sortKey: { name: index.sortKey, type: keyTypes[index.sortKeyType] },
      projectionType: ProjectionType.KEYS_ONLY,
    })),
    timeToLiveAttribute: tableShape.ttlAttribute,
    dynamoStream: StreamViewType[tableShape.streamView],
    // Locks come in bursts and idle at night; capacity kept ready for the bursts would cost more than it saves.
    billing: Billing.onDemand(),
    // Encryption at rest can't be switched off. DynamoDB's own key adds no cost and no second service that every acquire
    // depends on; a user that must control or audit the key brings one.
    encryption:
      encryptionKey === undefined
        ? TableEncryptionV2.dynamoOwnedKey()
        : TableEncryptionV2.customerManagedKey(encryptionKey),
    // A lock table's past is rarely wanted back (see docs/operations.md on what a restore does to fences), its records are.
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    // Losing the table loses every fence floor with it, so it outlives its stack unless that is asked for.
    removalPolicy,
    deletionProtection: removalPolicy !== RemovalPolicy.DESTROY,
  });
}
