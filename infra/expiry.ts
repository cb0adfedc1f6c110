import { Duration } from 'aws-cdk-lib';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as FunctionTarget } from 'aws-cdk-lib/aws-events-targets';
import { RecursiveLoop } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { createDeadLetters, protectedQueue } from './queues.ts';
import { ServiceFunction, type ServiceFunctionProps } from './service-function.ts';

export interface ExpiryProps {
  readonly function: Omit<ServiceFunctionProps, 'description' | 'timeout'>;
}

const timeout = Duration.seconds(30);

/**
 * Ends leases promptly even if nobody polls: a timer for each known end, and a sweep each minute in case a timer was
 * lost.
 */
export class Expiry extends Construct {
  readonly reaper: ServiceFunction;
  readonly timers: Queue;
  readonly deadLetters: Queue;
  readonly schedule: Rule;

  constructor(scope: Construct, id: string, { function: functionProps }: ExpiryProps) {
    super(scope, id);
    this.deadLetters = createDeadLetters(this, 'DeadLetters');
    this.timers = new Queue(this, 'Timers', {
      ...protectedQueue,
      // Six times the function's timeout, as Lambda requires: SQS must not deliver a message again while it is being
      // handled.
      visibilityTimeout: Duration.seconds(6 * timeout.toSeconds()),
      // A delay is at most 15 minutes, and the sweep finds a lock long before an hour is over.
      retentionPeriod: Duration.hours(1),
      deadLetterQueue: { queue: this.deadLetters, maxReceiveCount: 3 },
    });
    this.reaper = new ServiceFunction(this, 'Reaper', {
      ...functionProps,
      description: 'Ends expired leases that somebody waits for',
      timeout,
      // A timer of more than 15 minutes is a chain: the reaper reads a message and sends the next one to the same
      // queue. Lambda would take that for an endless loop and stop it after 16 messages, which is four hours. Each
      // chain ends by itself when nobody waits any more.
      recursiveLoop: RecursiveLoop.ALLOW,
      environment: { ...functionProps.environment, HOLDFAST_TIMER_QUEUE_URL: this.timers.queueUrl },
    });
    this.reaper.function.addEventSource(
      new SqsEventSource(this.timers, {
        batchSize: 10,
        reportBatchItemFailures: true,
        // A large number of timers must not use the concurrency that acquires need.
        maxConcurrency: 5,
      }),
    );
    this.schedule = new Rule(this, 'EachMinute', {
      description: 'Sweeps locks whose timer was lost',
      schedule: Schedule.rate(Duration.minutes(1)),
      // The sweep of the next minute does what this one missed.
      targets: [new FunctionTarget(this.reaper.function, { retryAttempts: 0, maxEventAge: Duration.minutes(1) })],
    });
  }

  armFrom(setter: ServiceFunction): void {
    setter.allow(['sqs:SendMessage'], [this.timers.queueArn]);
    if (setter !== this.reaper) setter.function.addEnvironment('HOLDFAST_TIMER_QUEUE_URL', this.timers.queueUrl);
  }
}
