import { Validations } from 'aws-cdk-lib';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import type { LockServiceProps } from '../../infra/lock-service.ts';
import { createApp, createStack, templateOf } from './synthesized.ts';

describe('the stack', () => {
  const deployed = templateOf(createStack()).toJSON();

  it('tells its callers where it is', () => {
    expect(Object.keys(deployed.Outputs).sort()).toEqual(['EventBusName', 'Sdk', 'TableName', 'Url', 'WatchUrl']);
  });

  it('is the one that was reviewed', () => {
    // Synthesized here, and not before the tests, so that mutation testing can plant faults in what this test looks at.
    const reviewed = templateOf(createStack()).toJSON();
    // The content of a bundle changes with every commit. Here it only matters that it is deployed.
    const masked = JSON.stringify(reviewed, null, 2).replaceAll(/[0-9a-f]{64}/g, '<asset>');
    expect(masked).toMatchSnapshot();
  });

  it('needs no account, Region or lookup to be written', () => {
    expect(JSON.stringify(deployed)).not.toMatch(/dummy-value|cdk-hnb659fds-lookup/);
  });
});

describe('the rules of CloudFormation and of AWS Solutions', () => {
  const findings = (props: LockServiceProps, spoil?: (stack: ReturnType<typeof createStack>) => void): string[] => {
    // CloudFormation's own rules say nothing about a stack that was spoilt against the rules of AWS Solutions.
    const app = createApp({ validated: spoil === undefined });
    const stack = createStack(props, {}, app);
    spoil?.(stack);
    const checks = new AwsSolutionsChecks(app);
    Validations.of(app).addPlugins(checks);
    try {
      app.synth();
      return [];
    } catch {
      return checks.validateScope(stack).violations.map(({ ruleName }) => ruleName);
    }
  };

  const variants: [string, LockServiceProps][] = [
    ['the default', {}],
    ['a table only', { tableOnly: true }],
    ['tokens', { jwt: { issuer: 'https://issuer.example.com', audience: ['a'] } }],
  ];

  it.each(variants)('have nothing to say about %s', (_, props) => {
    expect(findings(props)).toEqual([]);
  });

  it('would say so otherwise', () => {
    expect(findings({ tableOnly: true }, (stack) => new Queue(stack, 'Open'))).toEqual(
      expect.arrayContaining(['AwsSolutions-SQS3', 'AwsSolutions-SQS4']),
    );
  });
});
