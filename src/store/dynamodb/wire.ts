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

/** What every request has, and what signs it. */
interface Form {
  readonly request: WireRequest;
  readonly signer: WireSigner;
}

/** Set again for every request, or meant for one attempt of the SDK's own. */
const headersOfOneRequest =
  /^(authorization|content-length|x-amz-(date|target|security-token|content-sha256)|amz-sdk-.+)$/i;

/**
 * Calls DynamoDB in its own JSON, with the SDK's credentials, signature, connections and retries, and without the forty steps that the SDK
 * takes to build and read a request: those cost as much as the call itself. The SDK makes out one request, which is not sent; all
 * that follow go where it would have gone.
 */
export class Wire {
  readonly #client: DynamoDBClient;
  readonly #config: WireConfig;
  readonly #bodyMsMax: number;
  #form: Promise<Form> | undefined;

  /** `bodyMsMax`: how long an answer that has begun may take to end. */
  constructor(client: DynamoDBClient, bodyMsMax: number) {
    this.#client = client;
    this.#config = client.config as unknown as WireConfig;
    this.#bodyMsMax = bodyMsMax;
  }

  /** The answer to a request. Errors are named as the SDK names them, and tell in `$metadata.attempts` how often it was sent. */
  async call(operation: WireOperation, input: object): Promise<Record<string, unknown>> {
    const body = JSON.stringify(input);
    const retries = await this.#config.retryStrategy();
    let token = await retries.acquireInitialRetryToken('dynamodb');
    let isUncertain = false;
    for (let attempts = 1; ; attempts++) {
      try {
        const answer = await this.#send(operation, body);
        retries.recordSuccess(token);
        return answer;
      } catch (error) {
        const errorType = errorTypeOf(error as Error);
        isUncertain ||= errorType === 'TRANSIENT';
        Object.assign(error as Error, {
          $metadata: { attempts },
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

  async #send(operation: WireOperation, body: string): Promise<Record<string, unknown>> {
    const { request: form, signer } = await this.#formOfRequests();
    const headers = {
      ...form.headers,
      'x-amz-target': `DynamoDB_20120810.${operation}`,
      'content-length': String(Buffer.byteLength(body)),
    };
    const signingDate = new Date(Date.now() + (this.#config.systemClockOffset ?? 0));
    const request = await signer.sign({ ...form, headers, body }, { signingDate });
    const { response } = await this.#config.requestHandler.handle(request);
    const text = await collect(response.body, this.#bodyMsMax);
    if (response.statusCode === 200) return JSON.parse(text) as Record<string, unknown>;
    throw new WireError(response.statusCode, text);
  }

  #formOfRequests(): Promise<Form> {
    this.#form ??= this.#makeOutOne().catch((error: unknown) => {
      // Credentials may be there a moment later.
      this.#form = undefined;
      throw error;
    });
    return this.#form;
  }

  /** Lets the SDK make out a request, with all that it knows of endpoints, and takes it from where it would be sent. */
  async #makeOutOne(): Promise<Form> {
    const made = Promise.withResolvers<WireRequest>();
    const requestHandler = {
      handle: (request: WireRequest) => {
        made.resolve(request);
        const body = new Blob(['{}']).stream();
        return Promise.resolve({ response: { statusCode: 200, headers: {}, body } });
      },
    };
    const command = new GetItemCommand({ TableName: 'form', Key: { pk: { S: 'form' } } });
    const config = { ...this.#client.config, requestHandler } as unknown as DynamoDBClient['config'];
    await command.resolveMiddleware(this.#client.middlewareStack, config, {})(command);
    const { protocol, hostname, port, path, headers } = await made.promise;
    const lasting = Object.entries(headers).filter(([name]) => !headersOfOneRequest.test(name));
    const request: WireRequest = {
      protocol,
      hostname,
      ...(port === undefined ? {} : { port }),
      path,
      method: 'POST',
      query: {},
      headers: Object.fromEntries(lasting),
    };
    // It asks for the credentials each time it signs, so expired ones are replaced.
    return { request, signer: await this.#config.signer() };
  }
}

/** What DynamoDB answered instead of a result. */
class WireError extends Error {
  readonly statusCode: number;

  constructor(statusCode: number, text: string) {
    const told = parsed(text);
    super(String(told.message ?? told.Message ?? `DynamoDB answered ${statusCode}.`));
    this.name = String(told.__type ?? 'UnknownError').replace(/^.*#/, '');
    this.statusCode = statusCode;
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
