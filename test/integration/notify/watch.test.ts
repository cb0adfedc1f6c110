import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { history as historySchema } from '../../../src/contract/locks.ts';
import { exactOnly, untilReadsFollow } from '../../support/engine.ts';
import { eventually } from '../../support/eventually.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../../support/service.ts';
import { type EventSink, startSink, watch } from './sink.ts';

let service: TestService;
let sink: EventSink;
beforeAll(async () => {
  sink = await startSink();
  service = await startService({ eventsUrl: sink.url });
});
afterAll(async () => {
  await service.stop();
  await sink[Symbol.asyncDispose]();
});

const historyOf = async (name: string, query = '') =>
  (await service.call('GET', `/v1/test/locks/${name}/history${query}`)).body;

/**
 * The history is written at the same time as watchers get messages, not before. So this reads it until it is complete.
 */
const wholeHistory = (name: string, count: number) =>
  eventually(async () => {
    const page = await historyOf(name);
    expect(page.events.length).toBeGreaterThanOrEqual(count);
    return page;
  });

/** One of each event that can happen to a lock without a session. */
async function liveThrough(name: string): Promise<void> {
  const lock = lockAt(service.call, name);
  const [holder, cancelled, timedOut, next] = [newLeaseId(), newLeaseId(), newLeaseId(), newLeaseId()];
  await lock.acquire({ leaseId: holder, owner: 'first' });
  await lock.renew({ leaseId: holder });
  await lock.acquire({ leaseId: cancelled, owner: 'second', waitMs: 60_000, notify: { type: 'event', ref: 'x' } });
  await lock.release(cancelled);
  expect((await lock.acquire({ leaseId: timedOut, owner: 'third', waitMs: 100 })).body.code).toBe('wait-timeout');
  await lock.acquire({
    leaseId: next,
    owner: 'fourth',
    leaseMs: 4_000,
    waitMs: 60_000,
    notify: { type: 'event', ref: 'y' },
  });
  await lock.release(holder);
  const { body: fifth } = await lock.acquire({ owner: 'fifth', waitMs: 55_000 });
  await lock.revoke({ fence: fifth.fence, reason: 'stuck' });
}

describe.concurrent('history, watch and bus', () => {
  it('agree with each other and with what happened', exactOnly('a record of the stream may come again'), async () => {
    const name = randomUUID();
    const watcher = await watch(service.url, `namespace=test&lock=${name}`);
    await liveThrough(name);
    await watcher.messages.until(({ type }) => type === 'revoked');
    const watched = watcher.messages.all.slice(1);
    expect(watched.map(({ type, owner }) => `${type} ${owner}`)).toEqual([
      'granted first',
      'queued second',
      'wait-cancelled second',
      'queued third',
      'wait-timeout third',
      'queued fourth',
      'released first',
      'granted fourth',
      'queued fifth',
      'expired fourth',
      'granted fifth',
      'revoked fifth',
    ]);
    expect(watched.at(-1)).toMatchObject({ reason: 'stuck', heldMs: expect.any(Number) });

    await sink.events.until(({ detail, ...message }) => detail.lock === name && message['detail-type'] === 'revoked');
    const { events, cursor } = await wholeHistory(name, watched.length);
    expect(historySchema.parse({ events })).toEqual({ events });
    expect([cursor, events.map((event: object) => ({ lock: name, ...event })).reverse()]).toEqual([undefined, watched]);

    const published = sink.events.all.filter(
      ({ detail, ...message }) => detail.lock === name && message['detail-type'] !== 'granted-to-waiter',
    );
    expect(published.every(({ source }) => source === 'holdfast')).toBe(true);
    expect(published.map(({ detail: { id: _id, namespace: _ns, ...event } }) => event)).toEqual(watched);
    expect(new Set(published.map(({ detail }) => detail.id)).size).toBe(published.length);
    await watcher.close();
  });

  it('page through the history by a cursor, complete and newest first', async () => {
    const name = randomUUID();
    const lock = lockAt(service.call, name);
    const watcher = await watch(service.url, `namespace=test&lock=${name}`);
    for (let turn = 0; turn < 5; turn++) await lock.release((await lock.acquire()).body.leaseId);
    await watcher.messages.untilCount(11);
    const whole = (await wholeHistory(name, 10)).events;
    // The history is read without consistency, so a later page may be older than an earlier one.
    await untilReadsFollow();
    const pages = [];
    let query = '?limit=4';
    for (;;) {
      const { events, cursor } = await historyOf(name, query);
      pages.push(events);
      if (cursor === undefined) break;
      query = `?limit=4&cursor=${cursor}`;
    }
    expect(pages.map(({ length }) => length)).toEqual([4, 4, 2]);
    expect([pages.flat(), whole.length]).toEqual([whole, 10]);
    await watcher.close();
  });

  it.each(['?limit=0', '?limit=1001', '?limit=x', '?cursor=bm9uc2Vuc2U', '?unknown=1'])(
    'refuse the history query %s',
    async (query) => {
      const { status, body } = await service.call('GET', `/v1/test/locks/a/history${query}`);
      expect([status, body.code, body.errors.length]).toEqual([400, 'invalid-request', 1]);
    },
  );
});

describe('watching', () => {
  it.each([
    ['without a namespace', 'lock=a'],
    ['with a namespace that can not be', 'namespace=NO&lock=a'],
    ['without a lock or a prefix', 'namespace=test'],
    ['with both', 'namespace=test&lock=a&prefix=b'],
    ['with an unknown field', 'namespace=test&lock=a&extra=1'],
  ])('is refused %s', async (_title, query) => {
    const socket = new WebSocket(`${service.url.replace('http', 'ws')}/v1/watch?${query}`);
    socket.on('error', () => {});
    const [, response] = await once(socket, 'unexpected-response');
    let text = '';
    for await (const chunk of response) text += chunk;
    expect([response.statusCode, JSON.parse(text).code]).toEqual([400, 'invalid-request']);
  });

  it(
    'shows locks by prefix, each watcher its own, and answers any message with the connection id',
    exactOnly('a stream record may come twice, and the first message with it'),
    async () => {
      const [mine, other] = [`${randomUUID()}:`, `${randomUUID()}:`];
      const watcher = await watch(service.url, `namespace=test&prefix=${encodeURIComponent(mine)}`);
      await lockAt(service.call, `${other}1`).acquire();
      await lockAt(service.call, `${mine}1`).acquire();
      await lockAt(service.call, `${mine}1`, 'another').acquire();
      await lockAt(service.call, `${mine}2`).acquire();
      await watcher.messages.until(({ lock }) => lock === `${mine}2`);
      expect(watcher.messages.all.slice(1).map(({ lock }) => lock)).toEqual([`${mine}1`, `${mine}2`]);
      watcher.send('still here');
      const [, , , answer] = await watcher.messages.untilCount(4);
      expect(answer).toEqual({ type: 'connected', connectionId: watcher.connectionId });
      await watcher.close();
    },
  );
});
