import { type Stack, Validations } from 'aws-cdk-lib';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import type { LockServiceProps } from '../../infra/lock-service.ts';
import { wide } from '../support/wide.ts';
import { createApp, createStack } from './synthesized.ts';

describe('the rules of CloudFormation and of AWS Solutions', () => {
  const findings = (props: LockServiceProps, spoil?: (stack: ReturnType<typeof createStack>) => void): string[] => {
    // To load CloudFormation's own rules takes longer than all other tests of the stack. `npm run synth` checks the
    // default by them, and the wide pass each variant. They say nothing about a stack that was spoilt against the rules
    // of AWS Solutions.
    const app = createApp({ validated: wide && spoil === undefined });
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

  it('accept that callbacks of a durable function are completed in each of its versions', () => {
    const arn = 'arn:aws:lambda:eu-west-1:123456789012:function:settle';
    const known = (stack: Stack) => LambdaFunction.fromFunctionArn(stack, 'Settle', arn);
    const own = (stack: Stack) =>
      new LambdaFunction(stack, 'Settle', {
        runtime: Runtime.NODEJS_24_X,
        handler: 'index.handler',
        code: Code.fromInline('exports.handler = () => {};'),
      });
    for (const settle of [known, own]) {
      const found = findings({}, (stack) => stack.locks.grantCallbacks(settle(stack)));
      expect(found.filter((rule) => rule.startsWith('AwsSolutions-IAM5'))).toEqual([]);
    }
  });

  it('would say so otherwise', () => {
    expect(findings({ tableOnly: true }, (stack) => new Queue(stack, 'Open'))).toEqual(
      expect.arrayContaining(['AwsSolutions-SQS3', 'AwsSolutions-SQS4']),
    );
  });
});
