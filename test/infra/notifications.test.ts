import type { Stack } from 'aws-cdk-lib';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { describe, expect, it } from 'vitest';
import { notifierFilter, publisherFilter } from '../../src/notify/stream-filter.ts';
import { createStack, resourcesOf, spell, statementsOf, templateOf } from './synthesized.ts';

const deployed = templateOf(createStack());

const mappingOf = (target: string) => {
  const found = resourcesOf(deployed, 'AWS::Lambda::EventSourceMapping').find(([, { Properties }]) =>
    spell(Properties.FunctionName).includes(target),
  );
  if (found === undefined) throw new Error(`Nothing is mapped to ${target}.`);
  return found[1].Properties;
};

const patternsOf = ({ FilterCriteria }: { FilterCriteria: { Filters: { Pattern: string }[] } }) =>
  FilterCriteria.Filters.map(({ Pattern }) => JSON.parse(Pattern));

const queueOf = (name: string) => {
  const found = resourcesOf(deployed, 'AWS::SQS::Queue').find(([id]) => id.includes(name));
  if (found === undefined) throw new Error(`There is no queue ${name}.`);
  return { id: found[0], ...found[1].Properties };
};

describe('the notifier', () => {
  const mapping = mappingOf('Notifier');

  it('reads the stream of the table from its start', () => {
    expect(spell(mapping.EventSourceArn)).toMatch(/^<LocksTable\w+\.StreamArn>$/);
    expect(mapping.StartingPosition).toBe('TRIM_HORIZON');
  });

  it('is called for awaited locks only, so that a lock without waiters costs nothing here', () => {
    expect(patternsOf(mapping)).toEqual(notifierFilter);
  });

  it('does not get records again that it handled, and gives up within limits', () => {
    expect(mapping).toMatchObject({
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      BisectBatchOnFunctionError: true,
      MaximumRetryAttempts: 5,
      MaximumRecordAgeInSeconds: 3_600,
      ParallelizationFactor: 4,
    });
  });

  it('leaves records that it gives up in a dead-letter queue for two weeks', () => {
    const queue = queueOf('NotificationsNotifierDeadLetters');
    expect(spell(mapping.DestinationConfig.OnFailure.Destination)).toBe(`<${queue.id}.Arn>`);
    expect(queue.MessageRetentionPeriod).toBe(14 * 86_400);
  });

  it('does nothing optional: the publisher has its own function, reader of the stream and dead-letter queue', () => {
    const optional = mappingOf('Publisher');
    expect(spell(optional.EventSourceArn)).toBe(spell(mapping.EventSourceArn));
    expect(patternsOf(optional)).toEqual(publisherFilter);
    expect(spell(optional.DestinationConfig.OnFailure.Destination)).toBe(
      `<${queueOf('NotificationsPublisherDeadLetters').id}.Arn>`,
    );
    expect(optional).toMatchObject({ FunctionResponseTypes: ['ReportBatchItemFailures'], MaximumRetryAttempts: 5 });
  });

  it('uses its own bus, or the one that is given', () => {
    expect(resourcesOf(deployed, 'AWS::Events::EventBus')).toHaveLength(1);
    const given = templateOf(
      createStack((outside) => ({
        eventBus: EventBus.fromEventBusArn(outside, 'Bus', 'arn:aws:events:eu-west-1:111122223333:event-bus/ours'),
      })),
    );
    expect(resourcesOf(given, 'AWS::Events::EventBus')).toEqual([]);
    const publishing = statementsOf(given, 'Notifier').find(({ actions }) => actions.includes('events:PutEvents'));
    expect(publishing?.resources).toEqual(['arn:aws:events:eu-west-1:111122223333:event-bus/ours']);
  });

  it('answers task tokens of the state machines that are named', () => {
    const arn = 'arn:aws:states:eu-west-1:111122223333:stateMachine:orders';
    const answering = (template = deployed) =>
      statementsOf(template, 'Notifier').find(({ actions }) => actions.includes('states:SendTaskSuccess'))?.resources;
    const named = createStack((outside) => ({
      stateMachines: [StateMachine.fromStateMachineArn(outside, 'Orders', arn)],
    }));
    expect(answering(templateOf(named))).toEqual([arn]);
    expect(answering()).toEqual(['arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:stateMachine:*']);
    expect(answering(templateOf(createStack({ stateMachines: [] })))).toBeUndefined();
  });
});

describe('the publisher', () => {
  const mayPublish = (template = deployed) =>
    statementsOf(template, 'PublisherRole').some(({ actions }) => actions.includes('events:PutEvents'));

  it('publishes events only if somebody asks for them, since each is billed', () => {
    expect(mayPublish()).toBe(false);
    expect(mayPublish(templateOf(createStack({ events: true })))).toBe(true);
    const ownBus = (scope: Stack) => ({ eventBus: EventBus.fromEventBusName(scope, 'Own', 'own') });
    expect(mayPublish(templateOf(createStack(ownBus)))).toBe(true);
    const stack = createStack();
    const { eventBusName } = stack.locks.eventBus;
    expect(eventBusName).toBeDefined();
    expect(mayPublish(templateOf(stack))).toBe(true);
  });

  it('is told the bus that it publishes on, and allowed once, however often it is asked to publish', () => {
    const stack = createStack({ events: true });
    expect(stack.locks.eventBus).toBeDefined();
    const template = templateOf(stack);
    const [, publisher] = resourcesOf(template, 'AWS::Lambda::Function').find(([id]) => id.includes('Publisher')) ?? [];
    expect(spell(publisher?.Properties.Environment.Variables.HOLDFAST_EVENTS_BUS)).toMatch(
      /^<LocksNotificationsBus\w+>$/,
    );
    const publishing = statementsOf(template, 'PublisherRole').filter(({ actions }) =>
      actions.includes('events:PutEvents'),
    );
    expect(publishing).toHaveLength(1);
  });

  it('keeps history unless it is switched off', () => {
    const historyOf = (template = deployed) =>
      resourcesOf(template, 'AWS::Lambda::Function').find(([id]) => id.includes('Publisher'))?.[1].Properties
        .Environment.Variables.HOLDFAST_HISTORY;
    expect(historyOf()).toBeUndefined();
    expect(historyOf(templateOf(createStack({ history: false })))).toBe('off');
  });
});

describe('the reaper', () => {
  it('may send to the queue that it reads, for as long as a chain of timers lasts', () => {
    const [, reaper] = resourcesOf(deployed, 'AWS::Lambda::Function').find(([id]) => id.includes('Reaper')) ?? [];
    expect(reaper?.Properties.RecursiveLoop).toBe('Allow');
    const others = resourcesOf(deployed, 'AWS::Lambda::Function').filter(([id]) => !id.includes('Reaper'));
    for (const [id, { Properties }] of others) expect(Properties.RecursiveLoop, id).toBeUndefined();
  });

  it('is called by timers, a few at a time, and gives up a message after three tries', () => {
    const timers = queueOf('ExpiryTimers');
    expect(spell(mappingOf('Reaper').EventSourceArn)).toBe(`<${timers.id}.Arn>`);
    expect(mappingOf('Reaper')).toMatchObject({
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      ScalingConfig: { MaximumConcurrency: 5 },
    });
    expect(timers.RedrivePolicy.maxReceiveCount).toBe(3);
    expect(spell(timers.RedrivePolicy.deadLetterTargetArn)).toBe(`<${queueOf('ExpiryDeadLetters').id}.Arn>`);
  });

  it('is not given a message again while it may still be handling it', () => {
    const [, reaper] = resourcesOf(deployed, 'AWS::Lambda::Function').find(([id]) => id.includes('Reaper')) ?? [];
    expect(queueOf('ExpiryTimers').VisibilityTimeout).toBeGreaterThanOrEqual(6 * reaper?.Properties.Timeout);
  });

  it('is called each minute, in case a timer was lost', () => {
    const [rule] = resourcesOf(deployed, 'AWS::Events::Rule');
    expect(rule?.[1].Properties).toMatchObject({ ScheduleExpression: 'rate(1 minute)', State: 'ENABLED' });
    expect(spell(rule?.[1].Properties.Targets[0].Arn)).toContain('Reaper');
  });
});

describe('every queue', () => {
  it('is encrypted and refuses requests without TLS', () => {
    const queues = resourcesOf(deployed, 'AWS::SQS::Queue');
    const policies = resourcesOf(deployed, 'AWS::SQS::QueuePolicy').map(([, { Properties }]) => Properties);
    expect(queues).toHaveLength(4);
    for (const [id, { Properties }] of queues) {
      expect(Properties.SqsManagedSseEnabled, id).toBe(true);
      const policy = policies.find(({ Queues }) => spell(Queues[0]) === `<${id}>`);
      expect(policy?.PolicyDocument.Statement, id).toContainEqual(
        expect.objectContaining({
          Effect: 'Deny',
          Principal: { AWS: '*' },
          Condition: { Bool: { 'aws:SecureTransport': 'false' } },
        }),
      );
    }
  });
});
