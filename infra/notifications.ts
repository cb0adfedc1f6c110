import { Duration, Validations } from 'aws-cdk-lib';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { EventSourceMapping, FilterCriteria, StartingPosition } from 'aws-cdk-lib/aws-lambda';
import { SqsDlq } from 'aws-cdk-lib/aws-lambda-event-sources';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { notifierFilter, publisherFilter, type StreamFilter } from '../src/notify/stream-filter.ts';
import { createDeadLetters } from './queues.ts';
import { ServiceFunction, type ServiceFunctionProps } from './service-function.ts';

type FunctionProps = Omit<ServiceFunctionProps, 'description' | 'timeout'>;

export interface NotificationsProps {
  readonly table: TableV2;
  readonly eventBus?: IEventBus | undefined;
  readonly notifier: FunctionProps;
  readonly publisher: FunctionProps;
}

/**
 * The notifier reads the table's stream for waiters. The publisher reads it for the history, the event bus, watchers
 * and metrics. They are separate, so that nothing optional delays a hand-off. A stream allows two readers, and these
 * are the two.
 */
export class Notifications extends Construct {
  readonly eventBus: IEventBus;
  readonly notifier: ServiceFunction;
  readonly publisher: ServiceFunction;
  readonly notifierDeadLetters: Queue;
  readonly publisherDeadLetters: Queue;
  #publishesEvents = false;

  constructor(scope: Construct, id: string, { table, eventBus, notifier, publisher }: NotificationsProps) {
    super(scope, id);
    this.eventBus = eventBus ?? (new EventBus(this, 'Bus', { description: 'What happens to locks' }) as IEventBus);
    this.notifier = new ServiceFunction(this, 'Notifier', {
      ...notifier,
      description: 'Notifies parked waiters and arms timers, from the stream',
      timeout: Duration.seconds(60),
      environment: { ...notifier.environment, HOLDFAST_BUS: this.eventBus.eventBusName },
    });
    // A waiter may ask to be notified by an event, even if events are not published.
    this.notifier.allow(['events:PutEvents'], [this.eventBus.eventBusArn]);
    this.publisher = new ServiceFunction(this, 'Publisher', {
      ...publisher,
      description: 'Keeps the history, publishes events and shows them to watchers, from the stream',
      timeout: Duration.seconds(60),
    });
    this.notifierDeadLetters = this.#readStream('Notifier', this.notifier, table, notifierFilter);
    this.publisherDeadLetters = this.#readStream('Publisher', this.publisher, table, publisherFilter);
  }

  /** Publishes every event to the bus from now on. EventBridge bills each event, so this is done only on request. */
  publishEvents(): void {
    if (this.#publishesEvents) return;
    this.#publishesEvents = true;
    this.publisher.allow(['events:PutEvents'], [this.eventBus.eventBusArn]);
    this.publisher.function.addEnvironment('HOLDFAST_EVENTS_BUS', this.eventBus.eventBusName);
  }

  #readStream(id: string, reader: ServiceFunction, { tableStreamArn }: TableV2, filter: StreamFilter): Queue {
    if (tableStreamArn === undefined) throw new Error('The table has no stream.');
    const deadLetters = createDeadLetters(this, `${id}DeadLetters`);
    Validations.of(deadLetters).acknowledge({
      id: 'AwsSolutions-SQS3',
      reason:
        'It is itself the dead-letter queue of a stream, which names it as a destination and not in a redrive policy.',
    });
    reader.allow(
      ['dynamodb:DescribeStream', 'dynamodb:GetRecords', 'dynamodb:GetShardIterator', 'dynamodb:ListStreams'],
      [tableStreamArn],
    );
    const mapping = new EventSourceMapping(this, `${id}Stream`, {
      target: reader.function,
      eventSourceArn: tableStreamArn,
      // From the oldest record of the stream. Otherwise changes would be missed while the mapping is being created.
      startingPosition: StartingPosition.TRIM_HORIZON,
      batchSize: 100,
      // Changes to one lock stay in order. Different locks of a shard need not wait for each other.
      parallelizationFactor: 4,
      reportBatchItemFailures: true,
      bisectBatchOnError: true,
      // A record that failed this often will keep failing, and the records behind it wait.
      retryAttempts: 5,
      // After an hour, a notification no longer helps a waiter. The dead-letter queue keeps the position of the record.
      maxRecordAge: Duration.hours(1),
      onFailure: new SqsDlq(deadLetters),
      filters: filter.map((pattern) => FilterCriteria.filter(pattern)),
    });
    // The mapping can't be created before its role may read the stream.
    mapping.node.addDependency(reader.role);
    return deadLetters;
  }
}
