import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import type * as z from 'zod';
import { Problem } from './problems.ts';
import { namespaceName, resourceName } from './schemas.ts';
import { validate } from './validation.ts';

/** Everything but a record's value fits into this many times over. */
export const bodyBytesMax = 64 * 1024;

/** A request as operations see it: nothing of API Gateway's shape leaks past here. */
export class Request {
  readonly #event: APIGatewayProxyEventV2;
  /** Fires when the caller's connection broke, where that can be known. */
  readonly gone: AbortSignal | undefined;

  constructor(event: APIGatewayProxyEventV2, gone?: AbortSignal) {
    this.#event = event;
    this.gone = gone;
  }

  get id(): string {
    return this.#event.requestContext.requestId;
  }

  get routeKey(): string {
    return this.#event.routeKey;
  }

  get method(): string {
    return this.#event.requestContext.http.method;
  }

  get path(): string {
    return this.#event.rawPath;
  }

  get namespace(): string {
    return validate(namespaceName, this.parameter('ns'), 'ns');
  }

  /** A name in the path. */
  name(parameter = 'name'): string {
    return validate(resourceName, this.parameter(parameter), parameter);
  }

  parameter(name: string): string {
    const raw = this.#event.pathParameters?.[name] ?? '';
    if (!raw.includes('%')) return raw;
    try {
      return decodeURIComponent(raw);
    } catch {
      throw new Problem('invalid-request', `${name} is not percent-encoded UTF-8.`, {
        errors: [{ field: name, message: 'must be percent-encoded UTF-8' }],
      });
    }
  }

  header(name: string): string | undefined {
    return this.#event.headers[name];
  }

  query<Schema extends z.ZodType>(schema: Schema): z.output<Schema> {
    return validate(schema, this.#event.queryStringParameters ?? {}, 'query');
  }

  /** The JSON body. None at all counts as an empty object, so that a lock can be taken with all defaults. */
  body<Schema extends z.ZodType>(schema: Schema): z.output<Schema> {
    return validate(schema, parseJson(this.bodyText(bodyBytesMax) || '{}'), 'body');
  }

  bodyText(bytesMax: number): string {
    const { body, isBase64Encoded } = this.#event;
    if (body === undefined || body === '') return '';
    const bytes = isBase64Encoded ? Buffer.from(body, 'base64') : undefined;
    const size = bytes === undefined ? Buffer.byteLength(body) : bytes.length;
    if (size > bytesMax) throw new Problem('too-large', `The body has ${size} bytes; ${bytesMax} are allowed.`);
    const type = this.header('content-type') ?? '';
    if (!/^application\/json\s*(;|$)/i.test(type)) {
      throw new Problem(
        'unsupported-media-type',
        `The body must be application/json, got ${type === '' ? 'no content-type' : type.slice(0, 100)}.`,
      );
    }
    return bytes === undefined ? body : bytes.toString('utf8');
  }

  /** Who calls, as far as the gateway knows. */
  get caller(): string {
    const { authorizer } = this.#event.requestContext as { authorizer?: Record<string, Record<string, unknown>> };
    const subject = (authorizer?.jwt?.claims as Record<string, unknown> | undefined)?.sub ?? authorizer?.iam?.userArn;
    return typeof subject === 'string' && subject !== '' ? subject.slice(-128) : 'anonymous';
  }
}

export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    // The engine's message quotes the text around the error, which may be a leaseId: only what comes before the quote is told.
    const [what] = (error as Error).message.split(/, (?:\.\.\.)?"/);
    throw new Problem('invalid-request', `The body is not JSON: ${what}.`, {
      errors: [{ field: 'body', message: 'must be JSON' }],
    });
  }
}

export interface Reply {
  readonly status: number;
  readonly body: unknown;
  /** JSON text that is sent as it is, in place of `body`: for what must not change by being parsed and written again. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
}
