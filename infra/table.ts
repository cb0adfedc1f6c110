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
import { tableShape } from '../src/table/shape.ts';

export interface LockTableProps {
  readonly removalPolicy: RemovalPolicy;
  readonly encryptionKey?: IKey | undefined;
}

const text = (name: string) => ({ name, type: AttributeType.STRING });
const keyTypes = { S: AttributeType.STRING, N: AttributeType.NUMBER } as const;

/** The table in the shape that the store needs. The local service creates its own table from the same definition. */
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
    // Locks are used in bursts and idle at night. Capacity kept ready for the bursts would cost more than it saves.
    billing: Billing.onDemand(),
    // Encryption at rest can't be switched off. DynamoDB's own key costs nothing, and adds no second service on which
    // every acquire depends. A user that must control or audit the key brings one.
    encryption:
      encryptionKey === undefined
        ? TableEncryptionV2.dynamoOwnedKey()
        : TableEncryptionV2.customerManagedKey(encryptionKey),
    // The past of a lock is rarely wanted back, but the past of a record is. docs/operations.md says what a restore
    // does to fences.
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    // If the table is lost, every fence floor is lost. So the table outlives its stack unless the user decides
    // otherwise.
    removalPolicy,
    deletionProtection: removalPolicy !== RemovalPolicy.DESTROY,
  });
}
