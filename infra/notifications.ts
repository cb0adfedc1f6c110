import { Duration, Validations } from 'aws-cdk-lib';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { EventSourceMapping, FilterCriteria, StartingPosition } from 'aws-cdk-lib/aws-lambda';
import { SqsDlq } from 'aws-cdk-lib/aws-lambda-event-sources';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { streamFilter } from '../src/notify/stream-filter.ts';
import { createDeadLetters } from './queues.ts';
import { ServiceFunction, type ServiceFunctionProps } from './service-function.ts';

export interface NotificationsProps {
  readonly table: TableV2;
  readonly eventBus?: IEventBus | undefined;
  readonly function: Omit<ServiceFunctionProps, 'description' | 'timeout'>;
}

/** From the table's stream to waiters, watchers, the history and the event bus. */
export class Notifications extends Construct {
  readonly eventBus: IEventBus;
  readonly notifier: ServiceFunction;
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, { table, eventBus, function: functionProps }: NotificationsProps) {
    super(scope, id);
    this.eventBus = eventBus ?? (new EventBus(this, 'Bus', { description: 'What happens to locks' }) as IEventBus);
    this.deadLetters = createDeadLetters(this, 'DeadLetters');
    Validations.of(this.deadLetters).acknowledge({
      id: 'AwsSolutions-SQS3',
      reason:
        'It is itself the dead-letter queue of a stream, which names it as a destination and not in a redrive policy.',
    });
    this.notifier = new ServiceFunction(this, 'Notifier', {
      ...functionProps,
      description: 'Notifies of changes to locks, from the stream',
      timeout: Duration.seconds(60),
      environment: { ...functionProps.environment, HOLDFAST_BUS: this.eventBus.eventBusName },
    });
    this.notifier.allow(['events:PutEvents'], [this.eventBus.eventBusArn]);
    this.#readStream(table);
  }

  #readStream({ tableStreamArn }: TableV2): void {
    if (tableStreamArn === undefined) throw new Error('The table has no stream.');
    this.notifier.allow(
      ['dynamodb:DescribeStream', 'dynamodb:GetRecords', 'dynamodb:GetShardIterator', 'dynamodb:ListStreams'],
      [tableStreamArn],
    );
    const mapping = new EventSourceMapping(this, 'Stream', {
      target: this.notifier.function,
      eventSourceArn: tableStreamArn,
      // From the oldest record of the stream. Otherwise what is written while the mapping is being created would be missed.
      startingPosition: StartingPosition.TRIM_HORIZON,
      batchSize: 100,
      // Changes to one lock stay in order; different locks of a shard need not wait for each other.
      parallelizationFactor: 4,
      reportBatchItemFailures: true,
      bisectBatchOnError: true,
      // A record that fails this often goes on failing, and the records behind it wait meanwhile.
      retryAttempts: 5,
      // After an hour a notification is of no use to a waiter. The dead-letter queue keeps where the record is.
      maxRecordAge: Duration.hours(1),
      onFailure: new SqsDlq(this.deadLetters),
      filters: [FilterCriteria.filter(streamFilter)],
    });
    // A mapping that starts before its role may read would fail to be created.
    mapping.node.addDependency(this.notifier.role);
  }
}
