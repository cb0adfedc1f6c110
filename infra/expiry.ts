import { Duration } from 'aws-cdk-lib';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as FunctionTarget } from 'aws-cdk-lib/aws-events-targets';
import { RecursiveLoop } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { createDeadLetters, guarded } from './queues.ts';
import { ServiceFunction, type ServiceFunctionProps } from './service-function.ts';

export interface ExpiryProps {
  readonly function: Omit<ServiceFunctionProps, 'description' | 'timeout'>;
}

const timeout = Duration.seconds(30);

/** Makes expiry prompt where nobody polls: a timer for each known end, and a sweep each minute in case a timer was lost. */
export class Expiry extends Construct {
  readonly reaper: ServiceFunction;
  readonly timers: Queue;
  readonly deadLetters: Queue;
  readonly schedule: Rule;

  constructor(scope: Construct, id: string, { function: functionProps }: ExpiryProps) {
    super(scope, id);
    this.deadLetters = createDeadLetters(this, 'DeadLetters');
    this.timers = new Queue(this, 'Timers', {
      ...guarded,
      // Six times the function's timeout, as Lambda asks for: SQS must not deliver a message again while it is being handled.
      visibilityTimeout: Duration.seconds(6 * timeout.toSeconds()),
      // A delay is at most 15 minutes. The sweep finds the lock long before an hour is over.
      retentionPeriod: Duration.hours(1),
      deadLetterQueue: { queue: this.deadLetters, maxReceiveCount: 3 },
    });
    this.reaper = new ServiceFunction(this, 'Reaper', {
      ...functionProps,
      description: 'Ends leases whose time is up where somebody waits',
      timeout,
      // A timer past 15 minutes is a chain: the reaper reads a message and sends the next one to the same queue. Lambda takes that for
      // a runaway loop and ends it after 16 messages, which is four hours. Each chain ends by itself, when nobody waits any more.
      recursiveLoop: RecursiveLoop.ALLOW,
      environment: { ...functionProps.environment, HOLDFAST_TIMER_QUEUE_URL: this.timers.queueUrl },
    });
    this.reaper.function.addEventSource(
      new SqsEventSource(this.timers, {
        batchSize: 10,
        reportBatchItemFailures: true,
        // A flood of timers must not take the concurrency that acquires need.
        maxConcurrency: 5,
      }),
    );
    this.schedule = new Rule(this, 'EachMinute', {
      description: 'Sweeps locks whose timer was lost',
      schedule: Schedule.rate(Duration.minutes(1)),
      // The next minute's sweep does what this one missed.
      targets: [new FunctionTarget(this.reaper.function, { retryAttempts: 0, maxEventAge: Duration.minutes(1) })],
    });
  }

  /** Lets a function arm timers. */
  armFrom(setter: ServiceFunction): void {
    setter.allow(['sqs:SendMessage'], [this.timers.queueArn]);
    if (setter !== this.reaper) setter.function.addEnvironment('HOLDFAST_TIMER_QUEUE_URL', this.timers.queueUrl);
  }
}
