/** The adapter for API Gateway's HTTP API, payload format 2.0. No other file knows that format. */
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { lockLimits } from '../contract/limits.ts';
import { type Operation, operations } from '../contract/operations.ts';
import type { Handler } from './handler.ts';
import { anonymous, type Request } from './request.ts';

const byRouteKey = new Map<string, Operation>(
  Object.entries(operations).map(([operation, { route }]) => [route, operation as Operation]),
);

/**
 * The operation of a route as API Gateway names it, such as `GET /v1/health`. The route counts, not the path, because
 * the caller was authorized for the route.
 */
export const operationOf = (routeKey: string): Operation | undefined => byRouteKey.get(routeKey);

export interface ApiGatewayOptions {
  /** The claim of a token that lists its namespaces. If undefined, tokens may use every namespace. */
  readonly namespacesClaim?: string | undefined;
}

export const apiGatewayHandler =
  (handle: Handler, options: ApiGatewayOptions = {}) =>
  async (event: APIGatewayProxyEventV2): Promise<APIGatewayProxyStructuredResultV2> => {
    const { status, headers, body } = await handle(requestOf(event, options));
    return { statusCode: status, headers: { ...headers }, ...(body === undefined ? {} : { body }) };
  };

export function requestOf(event: APIGatewayProxyEventV2, { namespacesClaim }: ApiGatewayOptions = {}): Request {
  const { routeKey, rawPath, pathParameters, queryStringParameters, headers, body, isBase64Encoded } = event;
  const { requestId, http } = event.requestContext;
  return {
    id: requestId,
    operation: operationOf(routeKey),
    method: http.method,
    path: rawPath,
    parameters: decodeAll(pathParameters ?? {}),
    query: queryStringParameters ?? {},
    headers,
    body: body !== undefined && isBase64Encoded ? Buffer.from(body, 'base64').toString('utf8') : body,
    caller: callerOf(event),
    ...(namespacesClaim === undefined ? {} : { namespaces: listOf(claimsOf(event)?.[namespacesClaim]) }),
  };
}

/**
 * A text that can't be decoded keeps its percent sign. No name allows a percent sign, so the service refuses it as
 * usual.
 */
function decodeAll(parameters: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const decoded: Record<string, string> = {};
  for (const [name, value = ''] of Object.entries(parameters)) decoded[name] = decodePath(value);
  return decoded;
}

export function decodePath(encoded: string): string {
  if (!encoded.includes('%')) return encoded;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

function claimsOf({ requestContext }: APIGatewayProxyEventV2): Record<string, unknown> | undefined {
  const { authorizer } = requestContext as { authorizer?: { jwt?: { claims?: Record<string, unknown> } } };
  return authorizer?.jwt?.claims;
}

/** API Gateway passes a claim that is a list as one text, such as `[orders jobs]`. Anything else lists nothing. */
function listOf(claim: unknown): string[] {
  if (Array.isArray(claim)) return claim.filter((entry) => typeof entry === 'string');
  if (typeof claim !== 'string') return [];
  return claim.split(/[\s,[\]"]+/).filter((entry) => entry !== '');
}

/**
 * The subject of a token, or the ARN from IAM. If it is too long, its end is kept, because the end tells two roles
 * apart.
 */
function callerOf(event: APIGatewayProxyEventV2): string {
  const { authorizer } = event.requestContext as { authorizer?: { iam?: { userArn?: unknown } } };
  const subject = claimsOf(event)?.sub ?? authorizer?.iam?.userArn;
  return typeof subject === 'string' && subject !== '' ? subject.slice(-lockLimits.ownerLengthMax) : anonymous;
}
