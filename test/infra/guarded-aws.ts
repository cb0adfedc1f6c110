import { createHash } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { patientServer } from '../support/patient-server.ts';
import type { Statement } from './synthesized.ts';

export interface Call {
  readonly action: string;
  // biome-ignore lint/suspicious/noExplicitAny: each service's requests have their own shape.
  readonly body: any;
}

/** What IAM checks for one request: an action on a resource, and the partition keys of the request. */
interface Demand {
  readonly action: string;
  readonly resource: RegExp;
  readonly leadingKeys: readonly string[];
}

const services: Record<string, string> = {
  DynamoDB_20120810: 'dynamodb',
  AmazonSQS: 'sqs',
  AWSEvents: 'events',
  AWSStepFunctions: 'states',
};

/**
 * Replaces AWS for one function, and allows only what the function's policy in the template allows. DynamoDB's requests
 * go to the engine. All others are recorded and answered as successful.
 */
export class GuardedAws {
  readonly calls: Call[] = [];
  readonly #server: Server;
  readonly #statements: readonly Statement[];
  readonly #engine: string;

  private constructor(statements: readonly Statement[], engine: string) {
    this.#statements = statements;
    this.#engine = engine;
    this.#server = patientServer(async (request, response) => {
      const { status, body } = await this.#answer(request);
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(body);
    });
  }

  static async start(statements: readonly Statement[], engine: string): Promise<GuardedAws> {
    const guarded = new GuardedAws(statements, engine);
    await new Promise<void>((resolve) => guarded.#server.listen(0, '127.0.0.1', resolve));
    return guarded;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  callsOf(action: string): Call['body'][] {
    return this.calls.filter((call) => call.action === action).map(({ body }) => body);
  }

  stop(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: IncomingMessage): Promise<{ status: number; body: string }> {
    const text = Buffer.concat(await request.toArray()).toString('utf8');
    const target = request.headers['x-amz-target'];
    const [service = '', operation = ''] = typeof target === 'string' ? target.split('.') : [];
    const body = text === '' ? {} : JSON.parse(text);
    const connection = /^\/@connections\/(?<id>.+)$/.exec(request.url ?? '')?.groups?.id;
    const action = connection === undefined ? `${services[service]}:${operation}` : 'execute-api:ManageConnections';
    this.calls.push({
      action,
      body: connection === undefined ? body : { connectionId: decodeURIComponent(connection), ...body },
    });
    const refused = demandsOf(action, body).find((demand) => !this.#allows(demand));
    if (refused !== undefined) {
      const message = `The function's policy does not allow ${refused.action} on ${refused.resource}.`;
      return { status: 400, body: JSON.stringify({ __type: 'AccessDeniedException', message }) };
    }
    if (service === 'DynamoDB_20120810') return this.#forward(request, text);
    return { status: 200, body: JSON.stringify(takenAnswer(action, body)) };
  }

  #allows({ action, resource, leadingKeys }: Demand): boolean {
    return this.#statements.some(({ actions, resources, conditions }) => {
      const patterns = (conditions as Record<string, Record<string, string[]>> | undefined)?.[
        'ForAllValues:StringLike'
      ]?.['dynamodb:LeadingKeys'];
      const within =
        patterns === undefined || leadingKeys.every((key) => patterns.some((pattern) => isLike(pattern, key)));
      return actions.includes(action) && resources.some((arn) => resource.test(arn)) && within;
    });
  }

  async #forward(request: IncomingMessage, text: string): Promise<{ status: number; body: string }> {
    const { host: _host, 'content-length': _length, connection: _connection, ...headers } = request.headers;
    const answer = await fetch(this.#engine, {
      method: 'POST',
      headers: headers as Record<string, string>,
      body: text,
    });
    return { status: answer.status, body: await answer.text() };
  }
}

/** Keys have letters, digits and a few signs. Only these signs mean something in a regular expression. */
const isLike = (pattern: string, text: string): boolean =>
  new RegExp(`^${pattern.replaceAll(/[.+]/g, '\\$&').replaceAll('*', '.*')}$`).test(text);

/** SQS answers with the digest of the message, EventBridge with an entry for each event. */
function takenAnswer(action: string, body: Call['body']): unknown {
  if (action === 'sqs:SendMessage') {
    return { MessageId: 'message-1', MD5OfMessageBody: createHash('md5').update(body.MessageBody).digest('hex') };
  }
  if (action === 'events:PutEvents')
    return { FailedEntryCount: 0, Entries: body.Entries.map(() => ({ EventId: 'event-1' })) };
  return {};
}

const table = /^<LocksTable\w+\.Arn>$/;
const resources: Record<string, RegExp> = {
  'sqs:SendMessage': /^<LocksExpiryTimers\w+\.Arn>$/,
  'events:PutEvents': /^<LocksNotificationsBus\w+\.Arn>$/,
  'execute-api:ManageConnections': /<LocksWatchApi\w+>\/v1\/POST\/@connections\/\*$/,
};

type Key = { readonly pk: { readonly S: string } };

/** DynamoDB checks the permission for each part of a transaction, and for the index that a query names. */
function demandsOf(action: string, body: Call['body']): Demand[] {
  if (!action.startsWith('dynamodb:'))
    return [{ action, resource: resources[action] ?? /:stateMachine:/, leadingKeys: [] }];
  const demand = (name: string, keys: readonly Key[], resource = table): Demand => ({
    action: `dynamodb:${name}`,
    resource,
    leadingKeys: keys.map(({ pk }) => pk.S),
  });
  const name = action.slice('dynamodb:'.length);
  if (name === 'TransactWriteItems') {
    return body.TransactItems.flatMap((item: Record<string, { Key?: Key; Item?: Key }>) =>
      Object.entries(item).map(([kind, part]) =>
        demand(kind === 'ConditionCheck' ? 'ConditionCheckItem' : `${kind}Item`, [(part.Key ?? part.Item) as Key]),
      ),
    );
  }
  if (name === 'Query') {
    const index = body.IndexName === undefined ? '' : `/index/${body.IndexName}`;
    const partition = Object.values(body.ExpressionAttributeValues as Record<string, { S?: string }>)[0]?.S ?? '';
    return [demand(name, [{ pk: { S: partition } }], new RegExp(`^<LocksTable\\w+\\.Arn>${index}$`))];
  }
  const requests = Object.values((body.RequestItems ?? {}) as Record<string, unknown>)[0];
  if (name === 'BatchGetItem') return [demand(name, (requests as { Keys: Key[] }).Keys)];
  if (name === 'BatchWriteItem') {
    const writes = requests as { PutRequest?: { Item: Key }; DeleteRequest?: { Key: Key } }[];
    return [
      demand(
        name,
        writes.map(({ PutRequest, DeleteRequest }) => (PutRequest?.Item ?? DeleteRequest?.Key) as Key),
      ),
    ];
  }
  return [demand(name, [(body.Key ?? body.Item) as Key])];
}
