import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { LockService, type LockServiceProps } from './lock-service.ts';

export interface HoldfastStackProps extends StackProps {
  readonly service?: LockServiceProps;
}

/** The service alone in a stack. The outputs are what its callers need to know. */
export class HoldfastStack extends Stack {
  readonly locks: LockService;

  constructor(scope: Construct, id: string, { service = {}, ...props }: HoldfastStackProps = {}) {
    super(scope, id, { description: 'Holdfast: a distributed lock service', ...props });
    this.locks = new LockService(this, 'Locks', service);
    const output = (name: string, value: string, description: string) =>
      new CfnOutput(this, name, { value, description });
    output('TableName', this.locks.table.tableName, 'The table of locks, sessions and records');
    if (service.tableOnly === true) return;
    output('Url', this.locks.url, 'The URL for the SDK');
    output('WatchUrl', this.locks.watchUrl, 'Where callers open WebSockets, with ?ticket=…');
    output('Sdk', sdkSnippet(this.locks, service), 'Ready to paste');
    output('EventBusName', this.locks.notifications.eventBus.eventBusName, 'Where events are published');
  }
}

const sdkSnippet = ({ url }: LockService, { jwt }: LockServiceProps): string => {
  const [name, auth] = jwt === undefined ? ['sigv4', 'sigv4()'] : ['bearer', 'bearer(token)'];
  return (
    `import { Holdfast, ${name} } from 'holdfast'; ` +
    `const locks = new Holdfast({ url: '${url}', namespace: 'default', auth: ${auth} });`
  );
};
