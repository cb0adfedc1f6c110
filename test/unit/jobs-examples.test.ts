/** Runs the examples of docs/jobs.md that need only the twin. */
import type { Context } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import type { Holdfast } from '../../src/client/index.ts';
import { Twin } from '../../src/testing/index.ts';
import { loadExample } from '../support/doc-examples.ts';

const page = 'jobs.md';

describe('docs/jobs.md', () => {
  it('runs a nightly job once a night', async () => {
    type Nightly = (
      locks: Holdfast,
      settle: (fence: number) => Promise<number>,
    ) => Promise<{ ran: boolean; done: boolean; settled: number }>;
    const { nightly } = await loadExample<{ nightly: Nightly }>(page, 'A nightly job');
    const twin = new Twin();
    const fences: number[] = [];
    const settle = async (fence: number) => fences.push(fence);
    expect(await nightly(twin.client(), settle)).toEqual({ ran: true, done: true, settled: 1 });
    expect(await nightly(twin.client(), settle)).toEqual({ ran: false, done: true, settled: 1 });
    await twin.advance(86_400_000);
    expect(await nightly(twin.client(), settle)).toEqual({ ran: true, done: true, settled: 2 });
    expect(fences[1]).toBeGreaterThan(fences[0] ?? 0);
  });

  it('does not skip a night if the runner is killed', async () => {
    type Nightly = (locks: Holdfast, settle: () => Promise<number>) => Promise<{ ran: boolean; done: boolean }>;
    const { nightly } = await loadExample<{ nightly: Nightly }>(page, 'A nightly job');
    const twin = new Twin();
    const killed = twin.client();
    void nightly(killed, () => new Promise(() => {})).catch(() => undefined);
    await twin.settle();
    twin.partition(killed);
    twin.freeze(killed);
    expect(await twin.until(nightly(twin.client(), async () => 1))).toMatchObject({ ran: true, done: true });
  });

  it('answers a webhook and its repeats alike', async () => {
    type Webhook = (
      locks: Holdfast,
      charge: (body: string, fence: number) => Promise<string>,
    ) => (event: object, context: Context) => Promise<unknown>;
    const { webhook } = await loadExample<{ webhook: Webhook }>(page, 'An idempotent webhook');
    const twin = new Twin();
    const charged: string[] = [];
    const charge = async (body: string) => `receipt ${charged.push(body)}`;
    const context = { getRemainingTimeInMillis: () => 30_000 } as Context;
    const event = { headers: { 'webhook-id': 'evt_1' }, body: '5 EUR' };
    const answer = { statusCode: 200, body: 'receipt 1' };
    expect(await webhook(twin.client(), charge)(event, { ...context })).toEqual(answer);
    expect(await webhook(twin.client(), charge)(event, { ...context })).toEqual(answer);
    expect(charged).toEqual(['5 EUR']);
  });

  it('books each message of SQS once', async () => {
    type Booking = (
      locks: Holdfast,
      book: (body: string, fence: number) => Promise<void>,
    ) => (event: object, context: Context) => Promise<unknown>;
    const { booking } = await loadExample<{ booking: Booking }>(page, 'Each message of SQS once');
    const booked: string[] = [];
    const book = async (body: string) => void booked.push(body);
    const context = { getRemainingTimeInMillis: () => 30_000 } as Context;
    const order = JSON.stringify({ orderId: 7 });
    const Records = ['m1', 'm2'].map((messageId) => ({ messageId, body: order, attributes: {} }));
    const locks = new Twin().client();
    for (let time = 0; time < 2; time++)
      expect(await booking(locks, book)({ Records }, context)).toEqual({ batchItemFailures: [] });
    expect(booked).toEqual([order]);
  });
});
