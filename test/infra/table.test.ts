import { RemovalPolicy } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { describe, expect, it } from 'vitest';
import { tableShape } from '../../src/table/shape.ts';
import { createStack, resourcesOf, statementsOf, templateOf } from './synthesized.ts';

const tableOf = (template = templateOf(createStack({ tableOnly: true }))) => {
  const [found] = resourcesOf(template, 'AWS::DynamoDB::GlobalTable');
  if (found === undefined) throw new Error('There is no table.');
  return found[1];
};

const keySchema = (partitionKey: string, sortKey: string) => [
  { AttributeName: partitionKey, KeyType: 'HASH' },
  { AttributeName: sortKey, KeyType: 'RANGE' },
];

describe('the deployed table', () => {
  const table = tableOf();

  it('has the shape that the store relies on', () => {
    expect(table.Properties).toMatchObject({
      KeySchema: keySchema(tableShape.partitionKey, tableShape.sortKey),
      TimeToLiveSpecification: { AttributeName: tableShape.ttlAttribute, Enabled: true },
      StreamSpecification: { StreamViewType: tableShape.streamView },
      BillingMode: 'PAY_PER_REQUEST',
    });
    const indexes = Object.values(tableShape.indexes);
    expect(table.Properties.GlobalSecondaryIndexes).toEqual(
      indexes.map((index) => ({
        IndexName: index.name,
        KeySchema: keySchema(index.partitionKey, index.sortKey),
        Projection: { ProjectionType: 'KEYS_ONLY' },
      })),
    );
    for (const index of indexes) {
      expect(table.Properties.AttributeDefinitions).toContainEqual({
        AttributeName: index.sortKey,
        AttributeType: index.sortKeyType,
      });
    }
  });

  it('outlives its stack, cannot be deleted by mistake and can be restored', () => {
    expect(table).toMatchObject({ DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
    expect(table.Properties.Replicas).toMatchObject([
      { DeletionProtectionEnabled: true, PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true } },
    ]);
  });

  it('is deleted with its stack on request', () => {
    const temporary = tableOf(templateOf(createStack({ tableOnly: true, removalPolicy: RemovalPolicy.DESTROY })));
    expect(temporary.DeletionPolicy).toBe('Delete');
    expect(temporary.Properties.Replicas[0].DeletionProtectionEnabled).toBe(false);
  });

  it('is encrypted with the key that is given, which its users may then use', () => {
    const stack = createStack((outside) => ({ tableOnly: true, encryptionKey: new Key(outside, 'Key') }), {
      account: '111122223333',
      region: 'eu-west-1',
    });
    const worker = new Role(stack, 'Worker', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });
    stack.locks.grantDirect(worker, { namespace: 'orders' });
    const template = templateOf(stack);
    expect(tableOf(template).Properties.SSESpecification).toEqual({ SSEEnabled: true, SSEType: 'KMS' });
    expect(statementsOf(template, 'Worker').some(({ actions }) => actions.includes('kms:Decrypt'))).toBe(true);
  });
});

describe('a service of a table only', () => {
  it('has nothing but the table', () => {
    const { Resources } = templateOf(createStack({ tableOnly: true })).toJSON();
    expect(Object.values(Resources as Record<string, { Type: string }>).map(({ Type }) => Type)).toEqual([
      'AWS::DynamoDB::GlobalTable',
    ]);
  });

  it('reports a request for more', () => {
    expect(() => createStack({ tableOnly: true }).locks.url).toThrow(
      'There is no httpApi: this service is a table only.',
    );
  });
});
