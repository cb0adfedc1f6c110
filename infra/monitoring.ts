import { Duration } from 'aws-cdk-lib';
import {
  Alarm,
  ComparisonOperator,
  type Dashboard,
  type IMetric,
  MathExpression,
  Metric,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { type MeasureName, metricsNamespace } from '../src/notify/measures.ts';
import { createDashboard } from './dashboard.ts';
import type { Expiry } from './expiry.ts';
import type { FunctionName } from './function-code.ts';
import type { LockHttpApi } from './http-api.ts';
import type { Notifications } from './notifications.ts';
import type { ServiceFunction } from './service-function.ts';

/** Everything that is monitored. */
export interface Monitored {
  readonly table: TableV2;
  readonly httpApi: LockHttpApi;
  readonly acquire: ServiceFunction;
  readonly http: ServiceFunction;
  readonly websocket: ServiceFunction;
  readonly notifications: Notifications;
  readonly expiry: Expiry;
}

export interface MonitoringProps extends Monitored {
  readonly topic?: ITopic | undefined;
}

/** Where each alarm's runbook is; the alarm adds its own heading. */
const runbooks = 'docs/operations.md';

interface AlarmProps {
  /** What the alarm means, in one sentence. */
  readonly meaning: string;
  /** The heading of its runbook. */
  readonly runbook: string;
  readonly metric: IMetric;
  readonly atLeast: number;
  /** How many periods in a row must be bad. */
  readonly periods?: number;
}

const minute = Duration.minutes(1);
const fiveMinutes = Duration.minutes(5);
const sumOverFiveMinutes = { period: fiveMinutes, statistic: 'Sum' } as const;

const visibleIn = (queue: Queue): IMetric =>
  queue.metricApproximateNumberOfMessagesVisible({ period: minute, statistic: 'Maximum' });

const lateness = (reader: ServiceFunction): IMetric =>
  reader.function.metric('IteratorAge', { period: minute, statistic: 'Maximum' });

/** What a function measures about itself. */
const measured = (metricName: MeasureName, service: FunctionName): Metric =>
  new Metric({ namespace: metricsNamespace, metricName, dimensionsMap: { service }, ...sumOverFiveMinutes });

/** Batches that crashed the function, and those that it reported as failed, which Lambda does not count as errors. */
const failedBatches = (reader: ServiceFunction, name: FunctionName): IMetric =>
  new MathExpression({
    expression: 'FILL(errors, 0) + FILL(reported, 0)',
    label: 'Failed batches',
    period: fiveMinutes,
    usingMetrics: {
      errors: reader.function.metricErrors(sumOverFiveMinutes),
      reported: measured('FailedBatches', name),
    },
  });

/** One alarm for each condition that needs a person. */
export class Monitoring extends Construct {
  readonly alarms: readonly Alarm[];
  readonly dashboard: Dashboard;
  readonly #topic: ITopic | undefined;

  constructor(scope: Construct, id: string, { topic, ...monitored }: MonitoringProps) {
    super(scope, id);
    this.#topic = topic;
    this.alarms = [...this.#callerAlarms(monitored), ...this.#deliveryAlarms(monitored), this.#tableAlarm(monitored)];
    this.dashboard = createDashboard(this, monitored, this.alarms);
  }

  #callerAlarms({ httpApi, acquire, http, websocket }: Monitored): Alarm[] {
    return [
      this.#alarm('ServerErrors', {
        meaning: 'Callers get 5xx: locks cannot be taken, or only after retries.',
        runbook: 'server-errors',
        metric: httpApi.api.metricServerError(sumOverFiveMinutes),
        // The SDK retries a single 503, so no caller sees it.
        atLeast: 5,
      }),
      this.#alarm('AcquireThrottled', {
        meaning: 'Lambda cannot run more acquires at once, so callers get 503 or wait. Holders are not affected.',
        runbook: 'acquire-throttled',
        metric: acquire.function.metricThrottles(sumOverFiveMinutes),
        atLeast: 1,
      }),
      this.#alarm('HttpThrottled', {
        meaning: 'Lambda cannot run more renewals and releases at once, so holders may lose their leases.',
        runbook: 'http-throttled',
        metric: http.function.metricThrottles(sumOverFiveMinutes),
        atLeast: 1,
      }),
      this.#alarm('AcquireFailing', {
        meaning:
          'The acquire function crashed or ran out of time, which it should never do: it answers its own errors.',
        runbook: 'function-failing',
        metric: acquire.function.metricErrors(sumOverFiveMinutes),
        atLeast: 1,
      }),
      this.#alarm('HttpFailing', {
        meaning: 'The HTTP function crashed or ran out of time, which it should never do: it answers its own errors.',
        runbook: 'function-failing',
        metric: http.function.metricErrors(sumOverFiveMinutes),
        atLeast: 1,
      }),
      this.#alarm('WebsocketFailing', {
        meaning: 'Watchers cannot connect, or closed connections are not removed.',
        runbook: 'function-failing',
        metric: websocket.function.metricErrors(sumOverFiveMinutes),
        atLeast: 5,
      }),
    ];
  }

  #deliveryAlarms({ notifications, expiry }: Monitored): Alarm[] {
    return [
      this.#alarm('NotifierLate', {
        meaning: 'Parked waiters learn of their grants more than a minute late.',
        runbook: 'notifier-late',
        metric: lateness(notifications.notifier),
        atLeast: 60_000,
        periods: 3,
      }),
      this.#alarm('NotifierFailing', {
        meaning: 'Batches of the stream fail and are tried again.',
        runbook: 'function-failing',
        metric: failedBatches(notifications.notifier, 'notifier'),
        // Lambda tries a batch five times before its records go to the dead-letter queue.
        atLeast: 5,
      }),
      this.#alarm('NotifierDeadLetters', {
        meaning: 'The notifier gave up some changes: a parked waiter was not notified, or a timer was not armed.',
        runbook: 'notifier-dead-letters',
        metric: visibleIn(notifications.notifierDeadLetters),
        atLeast: 1,
      }),
      this.#alarm('PublisherLate', {
        meaning: 'History, events and watchers are more than ten minutes behind. No lock is delayed by it.',
        runbook: 'publisher-late',
        metric: lateness(notifications.publisher),
        atLeast: 600_000,
        periods: 3,
      }),
      this.#alarm('PublisherFailing', {
        meaning: 'Batches of the stream fail in the publisher and are tried again.',
        runbook: 'function-failing',
        metric: failedBatches(notifications.publisher, 'publisher'),
        atLeast: 5,
      }),
      this.#alarm('PublisherDeadLetters', {
        meaning: 'The publisher gave up some changes: the history has a gap, or events are missing from the bus.',
        runbook: 'publisher-dead-letters',
        metric: visibleIn(notifications.publisherDeadLetters),
        atLeast: 1,
      }),
      this.#alarm('EventsRefused', {
        meaning:
          'The event bus refuses events for good, and they are lost: a missing permission, a deleted bus or a disabled key.',
        runbook: 'events-refused',
        metric: measured('EventsRefused', 'publisher'),
        atLeast: 1,
      }),
      this.#alarm('ReaperFailing', {
        meaning: 'Expired leases are not ended promptly if nobody polls.',
        runbook: 'function-failing',
        metric: expiry.reaper.function.metricErrors(sumOverFiveMinutes),
        // The sweep of the next minute repairs one that failed.
        atLeast: 3,
      }),
      this.#alarm('TimerDeadLetters', {
        meaning: 'Some timers could not be handled. The sweep of each minute finds their locks, up to a minute later.',
        runbook: 'timer-dead-letters',
        metric: visibleIn(expiry.deadLetters),
        atLeast: 1,
      }),
    ];
  }

  #tableAlarm({ table }: Monitored): Alarm {
    return this.#alarm('TableThrottled', {
      meaning: 'DynamoDB throttles requests: most likely one lock is requested more than 1,000 times a second.',
      runbook: 'table-throttled',
      metric: new MathExpression({
        expression: 'FILL(writes, 0) + FILL(reads, 0)',
        label: 'Throttled reads and writes',
        period: fiveMinutes,
        usingMetrics: {
          writes: table.metric('WriteThrottleEvents', sumOverFiveMinutes),
          reads: table.metric('ReadThrottleEvents', sumOverFiveMinutes),
        },
      }),
      // The SDK's retries hide a few of them.
      atLeast: 10,
    });
  }

  #alarm(id: string, { meaning, runbook, metric, atLeast, periods = 1 }: AlarmProps): Alarm {
    const alarm = new Alarm(this, id, {
      alarmDescription: `${meaning} Runbook: ${runbooks}#${runbook}`,
      metric,
      threshold: atLeast,
      evaluationPeriods: periods,
      comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      // An idle service sends no metrics. That is not a problem.
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
    if (this.#topic !== undefined) {
      const action = new SnsAction(this.#topic);
      alarm.addAlarmAction(action);
      alarm.addOkAction(action);
    }
    return alarm;
  }
}
