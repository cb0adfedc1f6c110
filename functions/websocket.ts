import middy from '@middy/core';
import { deployedService, deployedTable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';
import { DynamoDBWatchers } from '../src/store/dynamodb/connection-items.ts';
import { DynamoDBSockets } from '../src/store/dynamodb/socket-items.ts';
import { apiGatewayWebsocketHandler } from '../src/websocket/api-gateway.ts';
import { createWebsocketHandler } from '../src/websocket/handler.ts';

const table = deployedTable(process.env);

/** Opens and closes connections: `$connect`, `$disconnect` and `$default` of the WebSocket API. */
export const handler = middy(
  apiGatewayWebsocketHandler(
    createWebsocketHandler({
      watchers: new DynamoDBWatchers(table),
      sockets: new DynamoDBSockets(table),
      locks: deployedService(process.env, table).locks,
      needsTicket: true,
      log: createLogger('holdfast-websocket'),
    }),
  ),
);
