import { randomUUID } from 'node:crypto';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type DynamoDBDocumentClient, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { serviceOn } from '../../src/http/wiring.ts';
import { acquire } from '../../src/service/acquire.ts';
import { release } from '../../src/service/lease.ts';
import { documentClient } from '../../src/store/dynamodb/client.ts';
import { countRequests } from '../support/request-count.ts';
import type { BenchService } from './bench-service.ts';
import { ratio, summarize, takeTurns } from './measure.ts';

export interface Row {
  readonly what: string;
  readonly figure: string;
}

/** One write as a raw caller makes it: a counter raised under a condition, old and new item asked for, as ours are. */
export const rawUpdate = (client: DynamoDBDocumentClient, table: string, name: string) =>
  client.send(
    new UpdateCommand({
      TableName: table,
      Key: { pk: `raw/${name}`, sk: 'raw' },
      UpdateExpression: 'SET #n = if_not_exists(#n, :zero) + :one',
      ConditionExpression: 'attribute_not_exists(#n) OR #n >= :zero',
      ExpressionAttributeNames: { '#n': 'n' },
      ExpressionAttributeValues: { ':zero': 0, ':one': 1 },
      ReturnValues: 'ALL_NEW',
    }),
  );

const pathOf = (name: string) => `/v1/bench/locks/${name}`;

async function expectStatus(answer: Promise<{ status: number; body: unknown }>): Promise<void> {
  const { status, body } = await answer;
  if (status !== 200) throw new Error(`Expected 200, got ${status}: ${JSON.stringify(body)}`);
}

/** An uncontended cycle over HTTP, and in process, against two raw updates. */
export async function benchCycle(service: BenchService, client: DynamoDBDocumentClient, table: string): Promise<Row[]> {
  const { locks } = serviceOn({ client, tableName: table, alone: true, engine: 'bench' });
  const names = Array.from({ length: 50 }, () => randomUUID());
  let turn = 0;
  const next = () => names[turn++ % names.length] as string;
  const contestants = {
    raw: async () => {
      const name = next();
      await rawUpdate(client, table, name);
      await rawUpdate(client, table, name);
    },
    http: async () => {
      const path = pathOf(next());
      const leaseId = randomUUID();
      await expectStatus(service.post(`${path}/acquire`, { leaseId }));
      await expectStatus(service.post(`${path}/release`, { leaseId }));
    },
    inProcess: async () => {
      const key = { namespace: 'bench', name: next() };
      const leaseId = randomUUID();
      await acquire(locks, key, { leaseId, owner: 'bench', waitMs: 0 });
      await release(locks, key, { leaseId });
    },
  };
  await takeTurns(100, contestants);
  const { raw, http, inProcess } = await takeTurns(600, contestants);
  return [
    { what: 'uncontended cycle over HTTP, against two raw UpdateItem calls (p50)', figure: ratio(http.p50, raw.p50) },
    {
      what: 'uncontended cycle in process, against two raw UpdateItem calls (p50)',
      figure: ratio(inProcess.p50, raw.p50),
    },
  ];
}

/** From the call of release to the moment at which the next waiter has its answer, in writes of the same store. */
export async function benchHandOff(
  service: BenchService,
  client: DynamoDBDocumentClient,
  table: string,
  waiters: number,
): Promise<Row[]> {
  const path = pathOf(randomUUID());
  const raw: number[] = [];
  const handOffs: number[] = [];
  let inversions = 0;
  let over = false;
  let holder: string = randomUUID();
  await expectStatus(service.post(`${path}/acquire`, { leaseId: holder, leaseMs: 600_000 }));
  const queue: { leaseId: string; granted: Promise<number> }[] = [];
  const join = () => {
    const leaseId = randomUUID();
    const granted = (async () => {
      for (;;) {
        const { status } = await service.post(`${path}/acquire`, { leaseId, waitMs: 600_000, leaseMs: 600_000 });
        if (status === 200) return performance.now();
        if (status !== 202) return over ? Number.NaN : Promise.reject(new Error(`Expected to wait, got ${status}.`));
      }
    })();
    queue.push({ leaseId, granted });
  };
  for (let index = 0; index < waiters; index++) join();
  await settled(service, path, waiters);
  const rounds = Math.min(150, Math.max(40, waiters));
  for (let round = 0; round < rounds; round++) {
    const rawStartedAt = performance.now();
    await rawUpdate(client, table, 'hand-off');
    raw.push(performance.now() - rawStartedAt);

    const startedAt = performance.now();
    const released = expectStatus(service.post(`${path}/release`, { leaseId: holder }));
    const winner = await Promise.race(queue.map(async ({ granted }, index) => ({ at: await granted, index })));
    handOffs.push(winner.at - startedAt);
    await released;
    // Those who queued at once are in an order that only the service knows; after the first turns it must be kept.
    if (winner.index > 0 && round >= waiters) inversions += 1;
    holder = queue.splice(winner.index, 1)[0]?.leaseId ?? holder;
    join();
    await settled(service, path, waiters);
  }
  const [one, handOff] = [summarize(raw), summarize(handOffs)];
  over = true;
  // One after the other, from the back: many that leave at once would fight over the revision.
  for (const { leaseId } of queue.toReversed()) await service.post(`${path}/release`, { leaseId });
  await service.post(`${path}/release`, { leaseId: holder });
  return [
    {
      what: `hand-off with ${waiters} waiting, in writes of the same store (p50)`,
      figure: ratio(handOff.p50, one.p50),
    },
    {
      what: `hand-off with ${waiters} waiting, in writes of the same store (p99)`,
      figure: ratio(handOff.p99, one.p50),
    },
    { what: `order inversions with ${waiters} waiting, in ${rounds} hand-offs`, figure: String(inversions) },
  ];
}

/** Until all who joined are in the queue: what is timed must not compete with arrivals. */
async function settled(service: BenchService, path: string, depth: number): Promise<void> {
  for (;;) {
    const response = await fetch(`${service.url}${path}`);
    const { queueDepth } = (await response.json()) as { queueDepth: number };
    if (queueDepth >= depth) return;
  }
}

/** What a hand-off costs the store, counted. */
export async function benchRequests(client: DynamoDBClient, table: string, waiters: number): Promise<Row[]> {
  const sent = countRequests(client);
  const { locks } = serviceOn({ client: documentClient(client), tableName: table, alone: true, engine: 'bench' });
  const key = { namespace: 'bench', name: randomUUID() };
  const ask = (waitMs: number) => ({ leaseId: randomUUID(), owner: 'bench', waitMs });
  let holder = ask(0);
  await acquire(locks, key, holder);
  const queue = [];
  for (let index = 0; index < waiters; index++) {
    const waiter = ask(600_000);
    const granted = acquire(locks, key, waiter);
    queue.push({ waiter, granted });
    while ((await locks.store.read(key)).queue.length <= index);
  }
  sent.take();
  for (const { waiter, granted } of queue) {
    await release(locks, key, holder);
    await granted;
    holder = waiter;
  }
  const { reads, writes } = sent.take();
  return [
    { what: `store requests per hand-off with ${waiters} waiting`, figure: ((reads + writes) / waiters).toFixed(2) },
  ];
}
