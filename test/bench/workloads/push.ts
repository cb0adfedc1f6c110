/** Waiting by push, compared with waiting by long poll: how long a hand-off takes, and what waiting alone costs. */
import { HoldfastError } from '../../../src/client/errors.ts';
import { Holdfast } from '../../../src/client/holdfast.ts';
import type { WebSocketClass } from '../../../src/client/http-transport.ts';
import type { Contestant, Holding, Yardstick } from '../contestant.ts';
import { holdfastByPush, PushConnection } from '../contestants/holdfast-push.ts';
import type { Field } from '../field.ts';
import { type Bounds, pauseMs, summarize } from '../measure.ts';
import type { CrowdRow, PushHandOffRow, PushResults, WaitingRow } from '../results.ts';
import { QuietWrites } from './hand-off.ts';
import { Relay } from './relay.ts';

export interface PushPlan {
  readonly waiters: readonly number[];
  /** Both take turns, so they run under the same load of the machine. */
  readonly turns: number;
  readonly paced: Bounds;
  readonly idle: { readonly waiters: number; readonly watchedMs: number };
  readonly crowd: { readonly locks: number; readonly perLock: number };
}

type Way = PushHandOffRow['way'];

const namespace = 'bench';
const waitMs = 600_000;
/** Waiters for each lock. */
const perLock = 10;
/** The time for a thousand joins, on a machine that others use too. */
const settledWithinMs = 120_000;
/** Some long polls have just ended, and are about to be sent again. */
const nearlyAll = 0.95;
/** After this time the notifier has written everything about the new waiters. */
const arrivalsToldMs = 5_000;

async function timedOf(
  contestant: Contestant,
  store: Yardstick,
  waiters: number,
  paced: Bounds,
): Promise<{ times: readonly number[]; writeMs: number }> {
  const writes = new QuietWrites(store);
  const relay = new Relay(contestant);
  if (!(await relay.fill(waiters))) throw new Error(`${waiters} could not wait.`);
  const { times } = await relay.pass(paced, () => writes.take(1));
  await relay.empty();
  return { times, writeMs: writes.medianMs };
}

async function benchHandOffs(field: Field, plan: PushPlan): Promise<PushHandOffRow[]> {
  const connection = await PushConnection.open(field.service);
  const longPoll = field.contestants.find(({ id }) => id === 'holdfast-http') as Contestant;
  const ways: readonly [Way, Contestant][] = [
    ['long poll', longPoll],
    ['push', holdfastByPush(field.service, connection)],
  ];
  const rows: PushHandOffRow[] = [];
  for (const waiters of plan.waiters) {
    const found = new Map<Way, number[]>(ways.map(([way]) => [way, []]));
    for (let turn = 0; turn < plan.turns; turn++)
      for (const [way, contestant] of ways) {
        const { times, writeMs } = await timedOf(contestant, field.storeOf(contestant), waiters, plan.paced);
        found.get(way)?.push(...times.map((ms) => ms / writeMs));
      }
    for (const [way, times] of found) {
      const { p50, p99, count } = summarize(times);
      rows.push({ way, waiters, p50, p99, samples: count });
    }
  }
  connection.close();
  return rows;
}

/** A client of the service whose requests are counted. */
class CountedClient {
  readonly locks: Holdfast;
  readonly parked = new Set<string>();
  /** Requests that are open now, without safety looks: those are answered at once. */
  open = 0;
  requests = 0;
  /** Requests that ask after a wait that is parked. */
  looks = 0;

  constructor(url: string, way: Way) {
    const counted: typeof fetch = async (input, init) => {
      const { notify, leaseId } = JSON.parse(String(init?.body ?? '{}')) as { notify?: object; leaseId?: string };
      if (notify !== undefined && this.parked.has(leaseId ?? '')) {
        this.looks += 1;
        return fetch(input, init);
      }
      this.requests += 1;
      this.open += 1;
      try {
        const response = await fetch(input, init);
        if (notify !== undefined && response.status === 202) this.parked.add(leaseId ?? '');
        return response;
      } finally {
        this.open -= 1;
      }
    };
    const webSocket = way === 'push' ? {} : { webSocket: NoWebSocket as unknown as WebSocketClass };
    this.locks = new Holdfast({ url, namespace, fetch: counted, ...webSocket });
  }
}

/** The client decides at once, and not only after some tries, that it must poll. */
class NoWebSocket {
  constructor() {
    throw new HoldfastError('unsupported', 'This client waits by long poll.');
  }
}

/** Counts the requests of waiters while nothing happens. */
async function watchIdle(field: Field, way: Way, { waiters, watchedMs }: PushPlan['idle']): Promise<WaitingRow> {
  const { service, proxy } = field.countedService;
  const holder = new Holdfast({ url: service.url, namespace });
  const names = Array.from(
    { length: Math.ceil(waiters / perLock) },
    (_, index) => `idle-${way.replace(' ', '-')}-${index}`,
  );
  await Promise.all(names.map((name) => holder.acquire(name, { leaseMs: waitMs, autoRenew: false })));
  const client = new CountedClient(service.url, way);
  const leaving = new AbortController();
  const waits = Array.from({ length: waiters }, (_, index) =>
    client.locks
      .acquire(names[index % names.length] as string, { waitMs, signal: leaving.signal })
      .catch(() => undefined),
  );
  const endsAt = performance.now() + settledWithinMs;
  const isSettled = () => (way === 'push' ? client.parked.size === waiters : client.open >= waiters * nearlyAll);
  while (!isSettled()) {
    if (performance.now() > endsAt) throw new Error(`${client.parked.size} of ${waiters} were parked in time.`);
    await pauseMs(50);
  }
  // The history of their arrival is not part of the cost of waiting.
  await pauseMs(arrivalsToldMs);
  proxy.take();
  const [requests, looks] = [client.requests, client.looks];
  const samples: number[] = [];
  const startedAt = performance.now();
  while (performance.now() - startedAt < watchedMs) {
    samples.push(client.open);
    await pauseMs(100);
  }
  const minutes = (waiters * (performance.now() - startedAt)) / 60_000;
  const { locks: asked, news } = proxy.take();
  const row: WaitingRow = {
    way,
    waiters,
    open: summarize(samples).p50,
    requestsPerMinute: (client.requests - requests) / minutes,
    looksPerMinute: (client.looks - looks) / minutes,
    writeUnitsPerMinute: (asked.writeUnits + news.writeUnits) / minutes,
    readUnitsPerMinute: (asked.readUnits + news.readUnits) / minutes,
  };
  leaving.abort();
  await Promise.all(waits);
  await Promise.all([client.locks.close(), holder.close()]);
  return row;
}

/** Thousands of waits on one connection. Each is granted in order and delivered there. */
async function tellCrowd(field: Field, { locks, perLock }: PushPlan['crowd']): Promise<CrowdRow> {
  const connection = await PushConnection.open(field.service);
  const contestant = holdfastByPush(field.service, connection);
  const terms = { leaseMs: waitMs, renew: false };
  let inOrder = 0;
  const lines = Array.from({ length: locks }, async (_, line) => {
    const name = `crowd-${line}`;
    let holding = await contestant.take(name, terms);
    const granted: number[] = [];
    const places: Promise<Holding>[] = [];
    for (let place = 0; place < perLock; place++) {
      const { granted: turn } = contestant.join(name, terms, place);
      const told = turn.then((held) => {
        granted.push(place);
        return held;
      });
      // If it fails, this line fails when it comes to its place. Until then, nobody listens.
      told.catch(() => undefined);
      places.push(told);
      while ((await contestant.queued?.(name)) !== place + 1) await pauseMs(5);
    }
    return async () => {
      for (const place of places) {
        await holding.release();
        holding = await place;
      }
      await holding.release();
      if (granted.every((place, index) => place === index)) inOrder += granted.length;
    };
  });
  const goes = await Promise.all(lines);
  await Promise.all(goes.map((go) => go()));
  connection.close();
  return { waits: locks * perLock, told: connection.told, unexpected: connection.unexpected, inOrder };
}

export async function benchPush(
  field: Field,
  plan: PushPlan,
  onProgress: (what: string) => void,
): Promise<PushResults> {
  onProgress('hand-off by push and by long poll');
  const handOff = await benchHandOffs(field, plan);
  await field.refresh({ counting: true });
  const waiting: WaitingRow[] = [];
  for (const way of ['long poll', 'push'] as const) {
    onProgress(`${plan.idle.waiters} who wait: ${way}`);
    waiting.push(await watchIdle(field, way, plan.idle));
  }
  await field.refresh({ counting: false });
  onProgress('a crowd on one connection');
  return { handOff, waiting, crowd: await tellCrowd(field, plan.crowd) };
}
