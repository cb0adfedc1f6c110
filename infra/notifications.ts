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
 * From the table's stream to waiters (the notifier), and to the history, the event bus, watchers and metrics (the publisher). Each
 * reads the stream by itself, so that nothing optional holds up a hand-off. A stream takes two readers: these are the two.
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
    // A waiter may ask to be notified by an event, whether or not anybody reads the others.
    this.notifier.allow(['events:PutEvents'], [this.eventBus.eventBusArn]);
    this.publisher = new ServiceFunction(this, 'Publisher', {
      ...publisher,
      description: 'Keeps the history, publishes events and shows them to watchers, from the stream',
      timeout: Duration.seconds(60),
    });
    this.notifierDeadLetters = this.#readStream('Notifier', this.notifier, table, notifierFilter);
    this.publisherDeadLetters = this.#readStream('Publisher', this.publisher, table, publisherFilter);
  }

  /** Every event goes onto the bus from now on. EventBridge bills each of them, so this is done only if somebody asks. */
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
      // From the oldest record of the stream. Otherwise what is written while the mapping is being created would be missed.
      startingPosition: StartingPosition.TRIM_HORIZON,
      batchSize: 100,
      // Changes to one lock stay in order; different locks of a shard need not wait for each other.
      parallelizationFactor: 4,
      reportBatchItemFailures: true,
      bisectBatchOnError: true,
      // A record that fails this often goes on failing, and the records behind it wait meanwhile.
      retryAttempts: 5,
      // After an hour a notification does not help a waiter any more. The dead-letter queue keeps where the record is.
      maxRecordAge: Duration.hours(1),
      onFailure: new SqsDlq(deadLetters),
      filters: filter.map((pattern) => FilterCriteria.filter(pattern)),
    });
    // A mapping that starts before its role may read would fail to be created.
    mapping.node.addDependency(reader.role);
    return deadLetters;
  }
}
