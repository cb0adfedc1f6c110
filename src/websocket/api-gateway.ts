/** The adapter for API Gateway's WebSocket API: `$connect`, `$disconnect`, and `$default` for every message. */
import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import type { WebsocketHandler } from './handler.ts';

/** The parts of a WebSocket API's event that matter here. */
export interface WebsocketEvent {
  readonly requestContext: {
    readonly routeKey: string;
    readonly connectionId: string;
    readonly connectedAt: number;
    readonly requestId: string;
  };
  readonly queryStringParameters?: Record<string, string | undefined> | undefined;
}

export const apiGatewayWebsocketHandler =
  (handler: WebsocketHandler) =>
  async ({ requestContext, queryStringParameters }: WebsocketEvent): Promise<APIGatewayProxyStructuredResultV2> => {
    const { routeKey, connectionId, connectedAt, requestId } = requestContext;
    switch (routeKey) {
      case '$connect': {
        const query = queryStringParameters ?? {};
        const { status, headers, body } = await handler.connect({ requestId, connectionId, connectedAt, query });
        return { statusCode: status, headers: { ...headers }, ...(body === undefined ? {} : { body }) };
      }
      case '$disconnect':
        await handler.disconnect(connectionId);
        return { statusCode: 200 };
      default:
        return { statusCode: 200, body: await handler.message(connectionId) };
    }
  };
