import middy from '@middy/core';
import { deployedService, deployedTable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';
import { SocketStore } from '../src/store/sockets.ts';
import { WatcherStore } from '../src/store/watchers.ts';
import { apiGatewayWebsocketHandler } from '../src/websocket/api-gateway.ts';
import { createWebsocketHandler } from '../src/websocket/handler.ts';

const access = deployedTable(process.env);

/** Opens and closes connections: `$connect`, `$disconnect` and `$default` of the WebSocket API. */
export const handler = middy(
  apiGatewayWebsocketHandler(
    createWebsocketHandler({
      watchers: new WatcherStore(access),
      sockets: new SocketStore(access),
      locks: deployedService(process.env, access).locks,
      needsTicket: true,
      log: createLogger('holdfast-websocket'),
    }),
  ),
);
