import { setTimeout as pause } from 'node:timers/promises';
import { type DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { isThrottling, mayHaveTakenEffect } from './failures.ts';

export type WireOperation = 'GetItem' | 'PutItem' | 'UpdateItem';

/** What this needs of a request, a response and the settled configuration of an SDK client. */
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

/** What every request has in common, and what signs it. */
interface RequestTemplate {
  readonly request: WireRequest;
  readonly signer: WireSigner;
}

/**
 * The headers that are the same for every request. All others belong to the one request that was captured: a signature, an attempt, or
 * the trace of the invocation that happened to be the first.
 */
const lastingHeaders = new Set(['host', 'content-type', 'user-agent', 'x-amz-user-agent']);

/** The SDK did not prepare a request that could be captured: its client was changed, or there are no credentials yet. */
export class NoTemplateError extends Error {}

/**
 * Calls DynamoDB in its own JSON, with the SDK's credentials, signature, connections and retries, and without the forty steps that the SDK
 * takes to build and read a request: those cost as much as the call itself. The SDK prepares one request, which is not sent; all
 * that follow go where it would have gone. Throws a NoTemplateError if that can't be done: then the SDK has to make the calls.
 */
export class Wire {
  readonly #client: DynamoDBClient;
  readonly #config: WireConfig;
  readonly #bodyMsMax: number;
  #template: Promise<RequestTemplate> | undefined;

  /** `bodyMsMax`: how long an answer that has begun may take to end. */
  constructor(client: DynamoDBClient, bodyMsMax: number) {
    this.#client = client;
    this.#config = client.config as unknown as WireConfig;
    this.#bodyMsMax = bodyMsMax;
  }

  /** The answer to a request. Errors are named as the SDK names them. `$metadata` says how often it was sent, and AWS's own request id. */
  async call(operation: WireOperation, input: object): Promise<Record<string, unknown>> {
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
    operation: WireOperation,
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
      // Credentials may be there a moment later.
      this.#template = undefined;
      throw new NoTemplateError('The SDK prepared no request that could be captured.', { cause: error });
    });
    return this.#template;
  }

  /** Lets the SDK prepare a request, with all that it knows of endpoints, and takes it from where it would be sent. */
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
    const { protocol, hostname, port, path, headers } = captured;
    const lasting = Object.entries(headers).filter(([name]) => lastingHeaders.has(name.toLowerCase()));
    const request: WireRequest = {
      protocol,
      hostname,
      ...(port === undefined ? {} : { port }),
      path,
      method: 'POST',
      query: {},
      headers: Object.fromEntries(lasting),
    };
    // The signer asks for the credentials each time it signs, so expired ones are replaced.
    return { request, signer: await this.#config.signer() };
  }
}

/** What DynamoDB answered instead of a result. */
class WireError extends Error {
  readonly statusCode: number;
  /** As the SDK's errors have it. By the request id AWS finds what happened. */
  readonly $metadata: { readonly httpStatusCode: number; readonly requestId?: string; readonly attempts?: number };

  constructor(statusCode: number, text: string, requestId: string | undefined) {
    const told = parsed(text);
    super(String(told.message ?? told.Message ?? `DynamoDB answered ${statusCode}.`));
    this.name = String(told.__type ?? 'UnknownError').replace(/^.*#/, '');
    this.statusCode = statusCode;
    this.$metadata = { httpStatusCode: statusCode, ...(requestId === undefined ? {} : { requestId }) };
    // Of a refused condition: the item that refused it.
    if (told.Item !== undefined) Object.assign(this, { Item: told.Item });
  }
}

/** Something between us and the store may answer in words of its own. */
function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Whatever is no answer of DynamoDB's may be tried again: a connection that broke, an answer cut short, a store that is out of order. */
function errorTypeOf(error: Error): 'TRANSIENT' | 'THROTTLING' | undefined {
  if (isThrottling(error.name)) return 'THROTTLING';
  return error instanceof WireError && error.statusCode < 500 ? undefined : 'TRANSIENT';
}

function collect(body: WireResponse['body'], msMax: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const late = setTimeout(() => body.destroy(new Error('The answer began and did not end in time.')), msMax);
    body.on('data', (chunk: Buffer) => chunks.push(chunk));
    body.on('end', () => {
      clearTimeout(late);
      resolve(Buffer.concat(chunks).toString());
    });
    body.on('error', (error) => {
      clearTimeout(late);
      reject(error);
    });
  });
}
