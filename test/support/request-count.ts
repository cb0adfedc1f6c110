import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

const writes = new Set([
  'PutItemCommand',
  'UpdateItemCommand',
  'DeleteItemCommand',
  'TransactWriteItemsCommand',
  'BatchWriteItemCommand',
]);

export interface RequestCount {
  /** What was sent since the last call, as reads and writes. */
  take(): { reads: number; writes: number };
}

/** Counts what a client really sends to its engine, repeats included. */
export function countRequests(client: DynamoDBClient): RequestCount {
  let sent = { reads: 0, writes: 0 };
  client.middlewareStack.add(
    (next, context) => (args) => {
      const isWrite = writes.has(context.commandName ?? '');
      sent = { reads: sent.reads + (isWrite ? 0 : 1), writes: sent.writes + (isWrite ? 1 : 0) };
      return next(args);
    },
    { step: 'finalizeRequest', priority: 'low' },
  );
  return {
    take: () => {
      const taken = sent;
      sent = { reads: 0, writes: 0 };
      return taken;
    },
  };
}
