import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

const isWrite = (target: string): boolean =>
  /\.(PutItem|UpdateItem|DeleteItem|TransactWriteItems|BatchWriteItem)$/.test(target);

export interface RequestCount {
  /** What was sent since the last call, as reads and writes. */
  take(): { reads: number; writes: number };
}

/** Counts what a client really sends to its engine, repeats included: at the point where it leaves, whatever code built it. */
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
