import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { serveEngine } from '../../../src/engine/server.ts';
import { createDirect, type DirectOptions } from '../../../src/server/index.ts';
import { refusingDynamoDB } from '../../support/refusing-dynamodb.ts';

const region = 'us-east-1';
const keys = { accessKeyId: 'local', secretAccessKey: 'local' };

/** Fails at once: there is only one try, so no backoff. The deadline is for a busy machine. */
async function failure(options: Partial<DirectOptions>) {
  let retries = 0;
  await using locks = createDirect({
    tableName: 'missing',
    namespace: 'test',
    region,
    credentials: keys,
    deadlineMs: 60_000,
    onEvent: ({ type }) => {
      if (type === 'retry') retries += 1;
    },
    ...options,
  });
  const error = await locks.tryAcquire('a').then(
    () => expect.unreachable(),
    (caught: unknown) => caught as Error & { code: string },
  );
  return { error, retries };
}

describe('direct mode, wrongly set up', () => {
  it('names a missing table, at once', async () => {
    const engine = await serveEngine({ region });
    onTestFinished(() => engine.stop());
    const { error, retries } = await failure({ endpoint: engine.endpoint });
    expect(error).toMatchObject({ code: 'misconfigured', cause: { name: 'ResourceNotFoundException' } });
    expect(error.message).toMatch(/table missing: there is no such table/);
    expect(error.message).not.toContain('Repeat the same request');
    expect(retries).toBe(0);
  });

  it('says that there are no credentials', async () => {
    const missing = Object.assign(new Error('Could not load credentials'), { name: 'CredentialsProviderError' });
    const { error, retries } = await failure({
      endpoint: 'http://127.0.0.1:9',
      credentials: () => Promise.reject(missing),
    });
    expect(error).toMatchObject({ code: 'misconfigured', cause: missing });
    expect(error.message).toContain('no AWS credentials were found');
    expect(retries).toBe(0);
  });

  it('says that no Region is set', async () => {
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const name of ['AWS_REGION', 'AWS_DEFAULT_REGION', 'AWS_PROFILE']) vi.stubEnv(name, undefined);
    for (const name of ['AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE']) vi.stubEnv(name, '/dev/null');
    const { error, retries } = await failure({ region: undefined, endpoint: 'http://127.0.0.1:9' });
    expect(error).toMatchObject({ code: 'misconfigured' });
    expect(error.message).toContain('no AWS Region is set');
    expect(retries).toBe(0);
  });

  it.each(['AccessDeniedException', 'UnrecognizedClientException'])(
    'says that %s means missing rights',
    async (type) => {
      const { error, retries } = await failure({ endpoint: await refusingDynamoDB(type) });
      expect(error).toMatchObject({ code: 'misconfigured', cause: { name: type } });
      expect(retries).toBe(0);
    },
  );

  it('keeps the cause if the store cannot be reached', async () => {
    const { error } = await failure({ endpoint: 'http://127.0.0.1:9', deadlineMs: 500 });
    expect(error).toMatchObject({ code: 'unavailable' });
    expect(error.cause).toBeInstanceOf(Error);
  });
});
