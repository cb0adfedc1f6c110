import middy from '@middy/core';
import { deployedTable } from '../src/http/deployed.ts';
import { createLogger } from '../src/http/logger.ts';
import { createWebsocketHandler } from '../src/http/websocket.ts';
import { DynamoDBWatchers } from '../src/store/dynamodb/connection-items.ts';

/** Opens and closes watching connections: `$connect`, `$disconnect` and `$default` of the WebSocket API. */
export const handler = middy(
  createWebsocketHandler(new DynamoDBWatchers(deployedTable(process.env)), createLogger('holdfast-websocket')),
);
