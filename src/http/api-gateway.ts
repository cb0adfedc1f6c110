/** The adapter for API Gateway's HTTP API, payload format 2.0. Nothing of its shape leaks past here. */
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { lockLimits } from '../contract/limits.ts';
import { type Operation, routes } from '../contract/operations.ts';
import type { Handler } from './handler.ts';
import { anonymous, type Request } from './request.ts';

const byRouteKey = new Map<string, Operation>(
  routes.map(({ method, path, operation }) => [`${method} ${path}`, operation]),
);

/**
 * The operation of a route as API Gateway names it, such as `GET /v1/health`. The gateway's word counts and not the path: it is what
 * the caller was authorized for.
 */
export const operationOf = (routeKey: string): Operation | undefined => byRouteKey.get(routeKey);

export interface ApiGatewayOptions {
  /** The claim of a token that lists the namespaces which it may touch. Absent: every namespace. */
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

/** No name allows a percent sign, so what is left of one that can't be decoded is refused in the service's own words. */
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

/** API Gateway hands on a claim that is a list as one text, such as `[orders jobs]`. Anything else lists nothing. */
function listOf(claim: unknown): string[] {
  if (Array.isArray(claim)) return claim.filter((entry) => typeof entry === 'string');
  if (typeof claim !== 'string') return [];
  return claim.split(/[\s,[\]"]+/).filter((entry) => entry !== '');
}

/** The subject of a token, or the ARN that IAM vouches for; of one that is too long its end, which tells two roles apart. */
function callerOf(event: APIGatewayProxyEventV2): string {
  const { authorizer } = event.requestContext as { authorizer?: { iam?: { userArn?: unknown } } };
  const subject = claimsOf(event)?.sub ?? authorizer?.iam?.userArn;
  return typeof subject === 'string' && subject !== '' ? subject.slice(-lockLimits.ownerLengthMax) : anonymous;
}
