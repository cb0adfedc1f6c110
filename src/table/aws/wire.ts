/**
 * DynamoDB over the wire, for the calls of which a grant, a renewal and a release consist. Every other call goes through the
 * SDK.
 */
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { type DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { defined } from '../../tools/collections.ts';
import { isThrottling, mayHaveTakenEffect } from '../failures.ts';
import type { TableAnswers, TableOperation, TablePort, TableRequests } from '../port.ts';

/** The errors by which DynamoDB refuses a signature because its time or its credentials are out of date. */
const untimely = new Set([
  'InvalidSignatureException',
  'RequestExpired',
  'RequestTimeTooSkewed',
  'ExpiredTokenException',
  'UnrecognizedClientException',
]);

const wireOperations: ReadonlySet<TableOperation> = new Set(['GetItem', 'PutItem', 'UpdateItem']);

/**
 * The SDK makes the call instead if a signature was refused, because it corrects this machine's clock and fetches new
 * credentials. It also does so if no request of it could be captured.
 */
export class WireTable implements TablePort {
  readonly #wire: Wire;
  readonly #sdk: TablePort;

  constructor(client: DynamoDBClient, sdk: TablePort, bodyMsMax: number) {
    this.#wire = new Wire(client, bodyMsMax);
    this.#sdk = sdk;
  }

  async call<Operation extends TableOperation>(
    operation: Operation,
    request: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]> {
    if (!wireOperations.has(operation)) return this.#sdk.call(operation, request);
    try {
      return (await this.#wire.call(operation, request)) as TableAnswers[Operation];
    } catch (error) {
      if (error instanceof NoTemplateError || untimely.has((error as Error).name))
        return this.#sdk.call(operation, request);
      throw error;
    }
  }
}

/** The parts of the SDK's request, response and client configuration that are used here. */
interface WireRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
  readonly method: string;
  readonly query: Record<string, string>;
  readonly headers: Record<string, string>;
  readonly body?: string;
}

interface WireResponse {
  readonly statusCode: number;
  readonly headers: Record<string, string>;
  readonly body: NodeJS.ReadableStream & { destroy(error?: Error): void };
}

interface RetryToken {
  getRetryDelay(): number;
}

interface WireSigner {
  sign(request: WireRequest, options: { signingDate: Date }): Promise<WireRequest>;
}

interface WireConfig {
  readonly requestHandler: { handle(request: WireRequest): Promise<{ response: WireResponse }> };
  readonly systemClockOffset?: number;
  signer(): Promise<WireSigner>;
  retryStrategy(): Promise<{
    acquireInitialRetryToken(scope: string): Promise<RetryToken>;
    refreshRetryTokenForRetry(
      token: RetryToken,
      failure: { error: unknown; errorType: 'TRANSIENT' | 'THROTTLING' },
    ): Promise<RetryToken>;
    recordSuccess(token: RetryToken): void;
  }>;
}

/** The parts that every request has in common, and the signer. */
interface RequestTemplate {
  readonly request: WireRequest;
  readonly signer: WireSigner;
}

/**
 * The headers that are the same for every request. All others belong only to the request that was captured: its
 * signature, its attempt, and the trace of its invocation.
 */
const lastingHeaders = new Set(['host', 'content-type', 'user-agent', 'x-amz-user-agent']);

/** No request could be captured: the client's middleware was changed, or there are no credentials yet. */
class NoTemplateError extends Error {}

/**
 * Calls DynamoDB in its own JSON. It uses the SDK's credentials, signature, connections and retries, but not the forty
 * steps in which the SDK builds and reads a request, because they cost as much as the call itself. The SDK prepares one
 * request, which is captured and not sent. All later requests are made from it. Throws a NoTemplateError if that can't
 * be done.
 */
class Wire {
  readonly #client: DynamoDBClient;
  readonly #config: WireConfig;
  readonly #bodyMsMax: number;
  #template: Promise<RequestTemplate> | undefined;

  /** `bodyMsMax`: how long an answer may take from its first byte to its last. */
  constructor(client: DynamoDBClient, bodyMsMax: number) {
    this.#client = client;
    this.#config = client.config as unknown as WireConfig;
    this.#bodyMsMax = bodyMsMax;
  }

  /**
   * Sends a request and returns the answer. Errors have the same names as in the SDK. Their `$metadata` says how often the
   * request was sent, and has AWS's own request id.
   */
  async call(operation: TableOperation, input: object): Promise<Record<string, unknown>> {
    const template = await this.#templateOfRequests();
    const body = JSON.stringify(input);
    const retries = await this.#config.retryStrategy();
    let token = await retries.acquireInitialRetryToken('dynamodb');
    let isUncertain = false;
    for (let attempts = 1; ; attempts++) {
      try {
        const answer = await this.#send(template, operation, body);
        retries.recordSuccess(token);
        return answer;
      } catch (error) {
        const errorType = errorTypeOf(error as Error);
        isUncertain ||= errorType === 'TRANSIENT';
        Object.assign(error as Error, {
          $metadata: { ...(error as Partial<WireError>).$metadata, attempts },
          ...(isUncertain ? { [mayHaveTakenEffect]: true } : {}),
        });
        if (errorType === undefined) throw error;
        token = await retries.refreshRetryTokenForRetry(token, { error, errorType }).catch(() => {
          throw error;
        });
        await pause(token.getRetryDelay());
      }
    }
  }

  async #send(
    { request: template, signer }: RequestTemplate,
    operation: TableOperation,
    body: string,
  ): Promise<Record<string, unknown>> {
    const headers = {
      ...template.headers,
      'x-amz-target': `DynamoDB_20120810.${operation}`,
      'content-length': String(Buffer.byteLength(body)),
    };
    const signingDate = new Date(Date.now() + (this.#config.systemClockOffset ?? 0));
    const request = await signer.sign({ ...template, headers, body }, { signingDate });
    const { response } = await this.#config.requestHandler.handle(request);
    const text = await collect(response.body, this.#bodyMsMax);
    if (response.statusCode === 200) return JSON.parse(text) as Record<string, unknown>;
    throw new WireError(response.statusCode, text, response.headers['x-amzn-requestid']);
  }

  #templateOfRequests(): Promise<RequestTemplate> {
    this.#template ??= this.#captureTemplate().catch((error: unknown) => {
      // The credentials may be available a moment later.
      this.#template = undefined;
      throw new NoTemplateError('The SDK prepared no request that could be captured.', { cause: error });
    });
    return this.#template;
  }

  /** Lets the SDK prepare a request, because it knows the endpoints, and captures it instead of sending it. */
  async #captureTemplate(): Promise<RequestTemplate> {
    let captured: WireRequest | undefined;
    const requestHandler = {
      handle: (request: WireRequest) => {
        captured = request;
        const body = new Blob(['{}']).stream();
        return Promise.resolve({ response: { statusCode: 200, headers: {}, body } });
      },
    };
    const command = new GetItemCommand({ TableName: 'template', Key: { pk: { S: 'template' } } });
    const config = { ...this.#client.config, requestHandler } as unknown as DynamoDBClient['config'];
    await command.resolveMiddleware(this.#client.middlewareStack, config, {})(command);
    if (captured === undefined) throw new Error('A middleware answered in place of DynamoDB.');
    const { protocol, hostname, port, path } = captured;
    const lasting = Object.entries(captured.headers).filter(([name]) => lastingHeaders.has(name.toLowerCase()));
    const headers = Object.fromEntries(lasting);
    const request = { protocol, hostname, ...defined({ port }), path, method: 'POST', query: {}, headers };
    // The signer asks for the credentials each time, so expired ones are replaced.
    return { request, signer: await this.#config.signer() };
  }
}

/** An answer of DynamoDB that is not a result. */
class WireError extends Error {
  readonly statusCode: number;
  /** As in the SDK's errors. AWS can find the request on its side by its id. */
  readonly $metadata: { readonly httpStatusCode: number; readonly requestId?: string; readonly attempts?: number };

  constructor(statusCode: number, text: string, requestId: string | undefined) {
    const answer = parsed(text);
    super(String(answer.message ?? answer.Message ?? `DynamoDB answered ${statusCode}.`));
    this.name = String(answer.__type ?? 'UnknownError').replace(/^.*#/, '');
    this.statusCode = statusCode;
    this.$metadata = { httpStatusCode: statusCode, ...defined({ requestId }) };
    // If a condition was refused: the item that refused it.
    if (answer.Item !== undefined) Object.assign(this, { Item: answer.Item });
  }
}

/** A proxy on the way may answer with text that is not JSON. */
function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** An error that is no answer of DynamoDB may be tried again: a broken connection, half an answer, a failing store. */
function errorTypeOf(error: Error): 'TRANSIENT' | 'THROTTLING' | undefined {
  if (isThrottling(error.name)) return 'THROTTLING';
  return error instanceof WireError && error.statusCode < 500 ? undefined : 'TRANSIENT';
}

async function collect(body: WireResponse['body'], msMax: number): Promise<string> {
  const late = setTimeout(() => body.destroy(new Error('The answer began and did not end in time.')), msMax);
  try {
    return await textOf(body);
  } finally {
    clearTimeout(late);
  }
}
