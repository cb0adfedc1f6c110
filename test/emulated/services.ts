/** What a user of Holdfast has around it: a rule on the bus, and a state machine whose task waits for a lock. */
import { EventBridgeClient, PutRuleCommand, PutTargetsCommand } from '@aws-sdk/client-eventbridge';
import {
  CreateStateMachineCommand,
  DescribeExecutionCommand,
  SFNClient,
  StartExecutionCommand,
} from '@aws-sdk/client-sfn';
import { CreateQueueCommand, DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { eventually } from './callers.ts';

const region = 'us-east-1';
const queueArn = (name: string): string => `arn:aws:sqs:${region}:000000000000:${name}`;

export class Services {
  readonly #sqs: SQSClient;
  readonly #bus: EventBridgeClient;
  readonly #tasks: SFNClient;

  constructor(endpoint: string) {
    const setting = { endpoint, region, credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };
    this.#sqs = new SQSClient(setting);
    this.#bus = new EventBridgeClient(setting);
    this.#tasks = new SFNClient(setting);
  }

  /** A queue that gets every event of the bus. */
  async listen(busName: string): Promise<() => Promise<Record<string, unknown>[]>> {
    const queueUrl = await this.#queue('events');
    const rule = { Name: 'events', EventBusName: busName };
    await this.#bus.send(new PutRuleCommand({ ...rule, EventPattern: JSON.stringify({ source: ['holdfast'] }) }));
    const Targets = [{ Id: 'queue', Arn: queueArn('events') }];
    await this.#bus.send(new PutTargetsCommand({ Rule: rule.Name, EventBusName: busName, Targets }));
    const heard: Record<string, unknown>[] = [];
    return async () => {
      heard.push(...(await this.#take(queueUrl)));
      return heard;
    };
  }

  /** Starts a state machine, whose one task hands out its token and then waits. */
  async startTask(): Promise<{ token: string; output: () => Promise<Record<string, unknown>> }> {
    const queueUrl = await this.#queue('tasks');
    const definition = {
      StartAt: 'Wait',
      States: {
        Wait: {
          Type: 'Task',
          Resource: 'arn:aws:states:::sqs:sendMessage.waitForTaskToken',
          Parameters: { QueueUrl: queueUrl, MessageBody: { 'token.$': '$$.Task.Token' } },
          TimeoutSeconds: 60,
          End: true,
        },
      },
    };
    const { stateMachineArn } = await this.#tasks.send(
      new CreateStateMachineCommand({
        name: 'locked',
        definition: JSON.stringify(definition),
        roleArn: 'arn:aws:iam::000000000000:role/any',
      }),
    );
    const { executionArn } = await this.#tasks.send(new StartExecutionCommand({ stateMachineArn }));
    const [message] = await eventually('the token of a task', async () => {
      const taken = await this.#take(queueUrl);
      return taken.length > 0 ? taken : undefined;
    });
    const output = () =>
      eventually('the end of the execution', async () => {
        const found = await this.#tasks.send(new DescribeExecutionCommand({ executionArn }));
        if (found.status === 'FAILED' || found.status === 'TIMED_OUT')
          throw new Error(`${found.error}: ${found.cause}`);
        return found.status === 'SUCCEEDED' ? (JSON.parse(found.output ?? '{}') as Record<string, unknown>) : undefined;
      });
    return { token: message?.token as string, output };
  }

  end(): void {
    for (const client of [this.#sqs, this.#bus, this.#tasks]) client.destroy();
  }

  async #queue(name: string): Promise<string> {
    const { QueueUrl } = await this.#sqs.send(new CreateQueueCommand({ QueueName: name }));
    return QueueUrl ?? '';
  }

  async #take(queueUrl: string): Promise<Record<string, unknown>[]> {
    const { Messages = [] } = await this.#sqs.send(
      new ReceiveMessageCommand({ QueueUrl: queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }),
    );
    for (const { ReceiptHandle } of Messages)
      await this.#sqs.send(new DeleteMessageCommand({ QueueUrl: queueUrl, ReceiptHandle }));
    return Messages.map(({ Body }) => JSON.parse(Body ?? '{}') as Record<string, unknown>);
  }
}
