import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

const isWrite = (target: string): boolean =>
  /\.(PutItem|UpdateItem|DeleteItem|TransactWriteItems|BatchWriteItem)$/.test(target);

export interface RequestCount {
  /** The reads and writes that were sent since the last call. */
  take(): { reads: number; writes: number };
}

/**
 * Counts the requests that a client really sends to its engine, repeats included. It counts where they leave the
 * process, so it does not matter which code built them.
 */
export function countRequests(client: DynamoDBClient): RequestCount {
  let sent = { reads: 0, writes: 0 };
  const { requestHandler } = client.config;
  const handle = requestHandler.handle.bind(requestHandler);
  requestHandler.handle = (request, options) => {
    const write = isWrite(request.headers['x-amz-target'] ?? '');
    sent = { reads: sent.reads + (write ? 0 : 1), writes: sent.writes + (write ? 1 : 0) };
    return handle(request, options);
  };
  return {
    take: () => {
      const taken = sent;
      sent = { reads: 0, writes: 0 };
      return taken;
    },
  };
}
