import { describe, expect, it } from 'vitest';
import { defaultGatewayLimits } from '../../../src/local/gateway.ts';
import { createDynamoDBClient, localPatience } from '../../../src/table/aws/table.ts';

/** For the pauses between tries, and for the network. */
const besidesMs = 3_000;

describe('the time limit for a store that does not answer', () => {
  it.each([
    ['DynamoDB', undefined],
    ['a local engine', localPatience],
  ])('ends before the gateway gives up, so that a caller of %s gets 503', async (_name, patience) => {
    const client = createDynamoDBClient({ region: 'us-east-1' }, patience);
    const tries = await client.config.maxAttempts();
    const { requestTimeout = Number.POSITIVE_INFINITY } = await configOf(client.config.requestHandler);
    client.destroy();
    expect(tries).toBeGreaterThan(1);
    expect(tries * requestTimeout + besidesMs).toBeLessThan(defaultGatewayLimits.answerMs);
  });
});

/** The handler keeps its settings in a promise, under a name that its type hides. */
async function configOf(handler: unknown): Promise<{ requestTimeout?: number }> {
  return (await (handler as { configProvider?: Promise<{ requestTimeout?: number }> }).configProvider) ?? {};
}
