import { Stack, Validations } from 'aws-cdk-lib';
import type { IFunction, IVersion } from 'aws-cdk-lib/aws-lambda';
import type { ServiceFunction } from './service-function.ts';

/**
 * A durable execution belongs to a version of its function, so IAM checks the qualified ARN: a permission on the plain
 * name would allow nothing. An execution may outlive a deployment, so the permission covers every version.
 */
export function allowCallbacks(notifier: ServiceFunction, durableFunction: IFunction): void {
  const { functionArn } = (durableFunction as Partial<IVersion>).lambda ?? durableFunction;
  notifier.allow(
    ['lambda:SendDurableExecutionCallbackSuccess', 'lambda:SendDurableExecutionCallbackFailure'],
    [`${functionArn}:*`],
  );
  Validations.of(notifier.role).acknowledge({
    id: `AwsSolutions-IAM5[Resource::${shownArn(notifier, functionArn)}:*]`,
    reason: 'A durable execution belongs to a version of its function, and goes on after the next one is deployed.',
  });
}

/** The ARN in the form in which cdk-nag shows an ARN that is not known yet. */
function shownArn(scope: ServiceFunction, arn: string): string {
  const resolved = Stack.of(scope).resolve(arn) as string | { 'Fn::GetAtt'?: readonly string[] };
  if (typeof resolved === 'string') return resolved;
  return `<${resolved['Fn::GetAtt']?.join('.') ?? 'Arn'}>`;
}
