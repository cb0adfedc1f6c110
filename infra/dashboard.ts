import { Duration } from 'aws-cdk-lib';
import {
  type Alarm,
  AlarmStatusWidget,
  Dashboard,
  GraphWidget,
  type IMetric,
  LogQueryVisualizationType,
  LogQueryWidget,
  MathExpression,
  SingleValueWidget,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { type MeasureName, metricsNamespace } from '../src/notify/measures.ts';
import type { Monitored } from './monitoring.ts';
import { dollarsPerMillion } from './prices.ts';

const sum = { statistic: 'Sum', period: Duration.minutes(5) } as const;
const worst = { statistic: 'Maximum', period: Duration.minutes(1) } as const;
const aDay = { statistic: 'Sum', period: Duration.days(1) } as const;

const half = { width: 12, height: 6 } as const;
const third = { width: 8, height: 6 } as const;

/** From "does it work" at the top to "what does it cost" at the bottom. */
export function createDashboard(scope: Construct, monitored: Monitored, alarms: readonly Alarm[]): Dashboard {
  const dashboard = new Dashboard(scope, 'Dashboard', { defaultInterval: Duration.hours(3) });
  dashboard.addWidgets(new AlarmStatusWidget({ title: 'Alarms', alarms: [...alarms], width: 24, height: 3 }));
  dashboard.addWidgets(...callerWidgets(monitored));
  dashboard.addWidgets(...lockWidgets());
  dashboard.addWidgets(busiestLocks(monitored));
  dashboard.addWidgets(...deliveryWidgets(monitored));
  dashboard.addWidgets(...storeWidgets(monitored));
  return dashboard;
}

const graph = (title: string, left: readonly IMetric[], size: { width: number; height: number }): GraphWidget =>
  new GraphWidget({ title, left: [...left], leftYAxis: { min: 0 }, ...size });

function callerWidgets({ httpApi: { api }, acquire, http }: Monitored): GraphWidget[] {
  const p99 = { statistic: 'p99', period: Duration.minutes(5) } as const;
  return [
    graph(
      'Requests and refusals',
      [api.metricCount(sum), api.metricClientError(sum), api.metricServerError(sum)],
      third,
    ),
    // Requests that wait are slow on purpose, so the median says more about the service than p99 does.
    graph('Answered within (ms)', [api.metricLatency({ ...p99, statistic: 'p50' }), api.metricLatency(p99)], third),
    graph(
      'Concurrent requests, and throttled ones',
      [
        acquire.function.metric('ConcurrentExecutions', { ...worst, label: 'Acquires at once' }),
        http.function.metric('ConcurrentExecutions', { ...worst, label: 'Other requests at once' }),
        acquire.function.metricThrottles({ ...sum, label: 'Acquires throttled' }),
        http.function.metricThrottles({ ...sum, label: 'Other requests throttled' }),
        acquire.function.metricErrors({ ...sum, label: 'Acquires failed' }),
        http.function.metricErrors({ ...sum, label: 'Other requests failed' }),
      ],
      third,
    ),
  ];
}

/**
 * The service's own metrics: one line for the whole service, and one for each namespace that has its own metrics. The
 * search runs when the dashboard is opened.
 */
const measured = (name: MeasureName, statistic: string): MathExpression =>
  new MathExpression({
    expression: `SEARCH('Namespace="${metricsNamespace}" MetricName="${name}"', '${statistic}', 300)`,
    label: `${name} ${statistic}`,
    period: Duration.minutes(5),
    usingMetrics: {},
  });

function lockWidgets(): GraphWidget[] {
  return [
    graph(
      'Waiting and holding (ms)',
      [measured('WaitTime', 'p50'), measured('WaitTime', 'p99'), measured('HoldTime', 'p50')],
      half,
    ),
    // A release grants to the next waiter in the same write. So this shows only the time that waiters lose to expired
    // leases.
    graph(
      'Held by nobody before the next holder (ms)',
      [measured('HandOffLatency', 'p50'), measured('HandOffLatency', 'p99')],
      half,
    ),
    graph('Waiting at once', [measured('QueueDepth', 'Maximum')], third),
    graph('Grants and expiries', [measured('Grants', 'Sum'), measured('Expiries', 'Sum')], third),
    graph('Refusals and stale fences', [measured('Refusals', 'Sum'), measured('StaleFences', 'Sum')], third),
  ];
}

/**
 * Read from the request log when the dashboard is opened. A metric for each lock would cost money every month, used or
 * not.
 */
function busiestLocks({ acquire, http }: Monitored): LogQueryWidget {
  return new LogQueryWidget({
    title: 'Locks refused most',
    logGroupNames: [acquire.logGroup.logGroupName, http.logGroup.logGroupName],
    queryLines: [
      'filter message = "request" and code in ["lock-held", "wait-timeout", "queue-full", "throttled"]',
      'stats count(*) as refusals by namespace, name, code',
      'sort refusals desc',
      'limit 20',
    ],
    view: LogQueryVisualizationType.TABLE,
    width: 24,
    height: 6,
  });
}

function deliveryWidgets({ notifications, expiry }: Monitored): GraphWidget[] {
  const { notifier, publisher } = notifications;
  const { reaper } = expiry;
  return [
    graph(
      'Notifier and publisher late by (ms)',
      [
        notifier.function.metric('IteratorAge', { ...worst, label: 'Notifier' }),
        publisher.function.metric('IteratorAge', { ...worst, label: 'Publisher' }),
      ],
      third,
    ),
    graph(
      'Notifier, publisher and reaper',
      [
        notifier.function.metricInvocations(sum),
        notifier.function.metricErrors(sum),
        publisher.function.metricInvocations(sum),
        publisher.function.metricErrors(sum),
        measured('FailedBatches', 'Sum'),
        reaper.function.metricInvocations(sum),
        reaper.function.metricErrors(sum),
      ],
      third,
    ),
    graph(
      'Dead letters, and timers armed',
      [
        notifications.notifierDeadLetters.metricApproximateNumberOfMessagesVisible({
          ...worst,
          label: 'Notifier dead letters',
        }),
        notifications.publisherDeadLetters.metricApproximateNumberOfMessagesVisible({
          ...worst,
          label: 'Publisher dead letters',
        }),
        expiry.deadLetters.metricApproximateNumberOfMessagesVisible({ ...worst, label: 'Timer dead letters' }),
        expiry.timers.metricApproximateNumberOfMessagesDelayed({ ...worst, label: 'Timers armed' }),
      ],
      third,
    ),
  ];
}

function storeWidgets({ table, httpApi: { api }, acquire, http }: Monitored) {
  const price = dollarsPerMillion;
  const gigabytes = http.memorySizeMb / 1024;
  const millionths = [
    `FILL(writes, 0) * ${price.writeUnit}`,
    `FILL(reads, 0) * ${price.readUnit}`,
    `FILL(requests, 0) * ${price.httpRequest + price.invocation}`,
    `(FILL(busyMs, 0) + FILL(waitingMs, 0)) / 1000 * ${price.gigabyteSecond * gigabytes}`,
  ];
  const dollars = new MathExpression({
    label: 'Dollars a day for requests, at us-east-1 prices',
    period: Duration.days(1),
    expression: `(${millionths.join(' + ')}) / 1000000`,
    usingMetrics: {
      writes: table.metricConsumedWriteCapacityUnits(aDay),
      reads: table.metricConsumedReadCapacityUnits(aDay),
      requests: api.metricCount(aDay),
      busyMs: http.function.metricDuration(aDay),
      waitingMs: acquire.function.metricDuration(aDay),
    },
  });
  return [
    graph(
      'Capacity used',
      [table.metricConsumedWriteCapacityUnits(sum), table.metricConsumedReadCapacityUnits(sum)],
      third,
    ),
    graph(
      'Conditions refused, and throttled',
      [
        table.metricConditionalCheckFailedRequests(sum),
        table.metric('WriteThrottleEvents', sum),
        table.metric('ReadThrottleEvents', sum),
      ],
      third,
    ),
    new SingleValueWidget({ title: 'Cost', metrics: [dollars], ...third }),
  ];
}
