import { describe, expect, it } from 'vitest';
import { ask } from '../../../src/console/server/questions.ts';
import { Twin } from '../../../src/testing/index.ts';
import { callsOf } from '../client/inside.ts';

function world() {
  const client = new Twin().client();
  const sent = callsOf(client);
  const { signal } = new AbortController();
  const question = (path: string, query = '', body?: unknown) =>
    ask({ client, path: path.split('/'), query: new URLSearchParams(query), signal, ...(body ? { body } : {}) });
  return { client, sent, question };
}

describe('a question of the page', () => {
  it('looks at no more than a hundred locks', async () => {
    const { sent, question } = world();
    const names = Array.from({ length: 150 }, (_, index) => `lock=l${index}`).join('&');
    expect(await question('look', names)).toMatchObject({ locks: expect.objectContaining({ length: 100 }) });
    expect(sent).toHaveLength(100);
  });

  it('gets no more locks than it can show, and is told that there are more', async () => {
    const { client, question } = world();
    const lock = { lock: 'a' };
    const listed = (count: number) =>
      Object.assign(client, {
        list: async function* () {
          for (let index = 0; index < count; index++) yield lock;
        },
      });
    listed(5_000);
    expect(await question('locks')).toMatchObject({ complete: true, locks: { length: 5_000 } });
    listed(5_001);
    expect(await question('locks')).toMatchObject({ complete: false, locks: { length: 5_000 } });
  });

  it.each([
    ['limit=2', 2],
    ['limit=0', 1],
    ['limit=x', 6],
    ['', 6],
  ])('gets as much history as it asks for: %s', async (query, length) => {
    const { client, question } = world();
    for (let turn = 0; turn < 3; turn++) await client.withLock('a', () => 1);
    expect(await question('locks/a/history', query)).toMatchObject({ events: { length } });
  });

  it.each([{ fence: 1 }, { fence: 1, reason: ' ' }, { fence: '1', reason: 'stuck' }, { reason: 'stuck' }])(
    'revokes nothing without a fence and a reason: %o',
    async (body) => {
      const { sent, question } = world();
      await expect(question('locks/a/revoke', '', body)).rejects.toMatchObject({ code: 'invalid-request' });
      expect(sent).toEqual([]);
    },
  );
});
