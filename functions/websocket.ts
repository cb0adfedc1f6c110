import middy from '@middy/core';
import { deployedTable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';
import { DynamoDBWatchers } from '../src/store/dynamodb/connection-items.ts';
import { apiGatewayWebsocketHandler } from '../src/websocket/api-gateway.ts';
import { createWebsocketHandler } from '../src/websocket/handler.ts';

/** Opens and closes watching connections: `$connect`, `$disconnect` and `$default` of the WebSocket API. */
export const handler = middy(
  apiGatewayWebsocketHandler(
    createWebsocketHandler(new DynamoDBWatchers(deployedTable(process.env)), createLogger('holdfast-websocket')),
  ),
);
