import middy from '@middy/core';
import { requireVariable } from '../src/http/deployed.ts';
import { createLogger } from '../src/http/logger.ts';
import { createWebsocketHandler } from '../src/http/websocket.ts';
import { createDynamoDBClient, documentClient } from '../src/store/dynamodb/client.ts';
import { DynamoDBWatchers } from '../src/store/dynamodb/connection-items.ts';

const env = process.env;

/** Who watches: `$connect`, `$disconnect` and `$default` of the WebSocket API. */
export const handler = middy(
  createWebsocketHandler(
    new DynamoDBWatchers({
      client: documentClient(createDynamoDBClient({ endpoint: env.HOLDFAST_ENDPOINT || undefined })),
      tableName: requireVariable(env, 'HOLDFAST_TABLE'),
    }),
    createLogger('holdfast-websocket'),
  ),
);
