import { readFileSync } from 'node:fs';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, it } from 'vitest';
import { functionNames } from '../../infra/function-code.ts';
import { createStack, resourcesOf, spell, templateOf } from './synthesized.ts';

const deployed = templateOf(createStack());
const alarms = resourcesOf(deployed, 'AWS::CloudWatch::Alarm');

/** The anchors that Markdown makes from headings. */
const anchors = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('#'))
  .map((line) =>
    line
      .replace(/^#+\s+/, '')
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .trim()
      .replaceAll(/\s/g, '-'),
  );

describe('the alarms', () => {
  it('each name a runbook that exists', () => {
    expect(alarms.length).toBeGreaterThan(0);
    for (const [id, { Properties }] of alarms) {
      const anchor = /Runbook: docs\/operations\.md#([\w-]+)$/.exec(Properties.AlarmDescription)?.[1];
      expect(anchors, id).toContain(anchor);
    }
  });

  it('watch errors of every function, throttling, delays and every dead-letter queue', () => {
    const watched = alarms.flatMap(([, { Properties }]) => {
      const metrics = Properties.Metrics?.flatMap(
        ({ MetricStat }: { MetricStat?: { Metric: object } }) => MetricStat?.Metric ?? [],
      );
      return (metrics ?? [Properties]).map(
        ({ MetricName, Dimensions }: { MetricName: string; Dimensions: { Value: unknown }[] }) =>
          `${MetricName} ${spell(Dimensions[0]?.Value)
            .replace(/^<Locks/, '')
            .replace(/[0-9A-F]{8}(\.\w+)?>$/, '')}`,
      );
    });
    const title = (name: string) => name.replace(/^./, (letter) => letter.toUpperCase());
    for (const name of functionNames) {
      expect(
        watched.some((one) => one.startsWith('Errors') && one.endsWith(`${title(name)}Function`)),
        name,
      ).toBe(true);
    }
    expect(watched).toEqual(
      expect.arrayContaining([
        '5xx HttpApi',
        'Throttles AcquireFunction',
        'Throttles HttpFunction',
        'IteratorAge NotificationsNotifierFunction',
        'IteratorAge NotificationsPublisherFunction',
        'ApproximateNumberOfMessagesVisible NotificationsNotifierDeadLetters',
        'ApproximateNumberOfMessagesVisible NotificationsPublisherDeadLetters',
        'EventsRefused publisher',
        'ApproximateNumberOfMessagesVisible ExpiryDeadLetters',
        'WriteThrottleEvents Table',
        'ReadThrottleEvents Table',
      ]),
    );
  });

  it('are quiet while the service is idle', () => {
    for (const [id, { Properties }] of alarms) expect(Properties.TreatMissingData, id).toBe('notBreaching');
  });

  it('go to the topic that is given, and to nobody otherwise', () => {
    for (const [id, { Properties }] of alarms) expect(Properties.AlarmActions, id).toBeUndefined();
    const told = templateOf(
      createStack((outside) => ({
        alarmTopic: Topic.fromTopicArn(outside, 'Topic', 'arn:aws:sns:eu-west-1:111122223333:ops'),
      })),
    );
    for (const [id, { Properties }] of resourcesOf(told, 'AWS::CloudWatch::Alarm')) {
      expect(Properties.AlarmActions, id).toEqual(['arn:aws:sns:eu-west-1:111122223333:ops']);
      expect(Properties.OKActions, id).toEqual(['arn:aws:sns:eu-west-1:111122223333:ops']);
    }
  });

  it('are left out with the dashboard on request', () => {
    const bare = templateOf(createStack({ monitoring: false }));
    expect(resourcesOf(bare, 'AWS::CloudWatch::Alarm')).toEqual([]);
    expect(resourcesOf(bare, 'AWS::CloudWatch::Dashboard')).toEqual([]);
  });
});

describe('the dashboard', () => {
  const [dashboard] = resourcesOf(deployed, 'AWS::CloudWatch::Dashboard');
  const body = spell(dashboard?.[1].Properties.DashboardBody);

  it('shows waits, holds, hand-offs, queues, refusals and what a day costs', () => {
    for (const name of [
      'WaitTime',
      'HoldTime',
      'HandOffLatency',
      'QueueDepth',
      'Refusals',
      'StaleFences',
      'Expiries',
    ]) {
      expect(body).toContain(`MetricName=\\"${name}\\"`);
    }
    expect(body).toContain('Dollars a day');
  });

  it('is a document that CloudWatch can read', () => {
    const { widgets } = JSON.parse(body) as { widgets: { type: string }[] };
    expect(new Set(widgets.map(({ type }) => type))).toEqual(new Set(['alarm', 'metric', 'log']));
  });
});
