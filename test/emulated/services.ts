/** What a user of Holdfast has around it: a rule on the bus, and a state machine and a durable function that wait for a lock. */
import { EventBridgeClient, PutRuleCommand, PutTargetsCommand } from '@aws-sdk/client-eventbridge';
import { GetDurableExecutionCommand, InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
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
  readonly #functions: LambdaClient;
  readonly #endpoint: string;

  constructor(endpoint: string) {
    this.#endpoint = endpoint;
    const setting = { endpoint, region, credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };
    this.#sqs = new SQSClient(setting);
    this.#bus = new EventBridgeClient(setting);
    this.#tasks = new SFNClient(setting);
    this.#functions = new LambdaClient(setting);
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

  /** Starts a durable function. It is suspended when this resolves; `output` waits for its end. */
  async startDurable(name: string, payload: object): Promise<{ output: () => Promise<Record<string, unknown>> }> {
    await this.#enableDurable(name);
    const Payload = JSON.stringify(payload);
    const started = await this.#functions.send(new InvokeCommand({ FunctionName: name, Payload }));
    const { Status } = JSON.parse(started.Payload?.transformToString() ?? '{}') as { Status?: string };
    if (Status !== 'PENDING') throw new Error(`The durable function is not suspended: ${Status}.`);
    const DurableExecutionArn = started.DurableExecutionArn;
    const output = () =>
      eventually('the end of the durable execution', async () => {
        const found = await this.#functions.send(new GetDurableExecutionCommand({ DurableExecutionArn }));
        if (found.Status === 'FAILED') throw new Error(JSON.stringify(found.Error));
        return found.Status === 'SUCCEEDED' ? (JSON.parse(found.Result ?? '{}') as Record<string, unknown>) : undefined;
      });
    return { output };
  }

  /** The emulator leaves the setting out where CloudFormation makes the function, and has a switch of its own that the SDK does not know. */
  async #enableDurable(name: string): Promise<void> {
    const response = await fetch(`${this.#endpoint}/2015-03-31/functions/${name}/configuration`, {
      method: 'PUT',
      body: JSON.stringify({ DurableConfig: { Enabled: true, ExecutionTimeout: 300, RetentionPeriodInDays: 1 } }),
    });
    if (!response.ok) throw new Error(`The function was not made durable: ${response.status}.`);
  }

  end(): void {
    for (const client of [this.#sqs, this.#bus, this.#tasks, this.#functions]) client.destroy();
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
