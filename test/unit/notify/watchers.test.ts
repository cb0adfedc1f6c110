import { marshall } from '@aws-sdk/util-dynamodb';
import type { DynamoDBRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { createWorld, lockKey, settled, type World } from './world.ts';

const holder = 'lease-holder-00001';

/** The stream's record of a new watcher's item. */
const arrival = (connectionId: string): DynamoDBRecord => {
  const key = { pk: 'test/watchers', sk: `watcher/${connectionId}` };
  return {
    eventID: `arrival of ${connectionId}`,
    eventName: 'INSERT',
    dynamodb: {
      SequenceNumber: '1',
      Keys: marshall(key) as never,
      NewImage: marshall({ ...key, at: 1, prefix: '' }) as never,
    },
  };
};

async function worldWithNewWatcher(): Promise<World> {
  const world = createWorld();
  const connectedAt = world.clock.now();
  const subject = { prefix: '' };
  await world.watchers.add({ namespace: 'test', caller: 'anonymous', connectionId: 'new', connectedAt, subject });
  return world;
}

const textsTo = (world: World, connectionId: string) =>
  world.posted.filter((message) => message.connectionId === connectionId).map(({ text }) => JSON.parse(text));

describe('the first message of a watcher', () => {
  it('is sent as soon as its connection has been answered', async () => {
    const world = await worldWithNewWatcher();
    let tries = 0;
    world.ways.post = async () => (++tries <= 3 ? 'gone' : 'sent');
    const delivering = world.deliver([arrival('new')]);
    await settled();
    expect(tries, 'the next try comes after a pause').toBe(1);
    await world.clock.advance(1_000);
    expect(await delivering).toEqual({ batchItemFailures: [] });
    expect(textsTo(world, 'new')).toEqual([{ type: 'connected', connectionId: 'new' }]);
  });

  it('comes before every event', async () => {
    const world = await worldWithNewWatcher();
    await world.acquire(holder);
    await world.drain();
    expect(world.posted).toEqual([]);
    await world.release(holder);
    await world.deliver([...world.records().slice(-1), arrival('new')]);
    expect(textsTo(world, 'new').map(({ type }) => type)).toEqual(['connected', 'released']);
  });

  it('is sent with the next try of its record, if the first try fails', async () => {
    const world = await worldWithNewWatcher();
    world.ways.post = () => Promise.reject(new Error('throttled'));
    const { batchItemFailures } = await world.deliver([arrival('new')]);
    expect([batchItemFailures, world.connected.size]).toEqual([[{ itemIdentifier: '1' }], 1]);
    world.ways.post = async () => 'sent';
    expect(await world.deliver([arrival('new')])).toEqual({ batchItemFailures: [] });
    expect(textsTo(world, 'new')).toEqual([{ type: 'connected', connectionId: 'new' }]);
  });

  it('is given up, and its watcher is deleted, if the connection never opened', async () => {
    const world = await worldWithNewWatcher();
    world.ways.post = async () => 'gone';
    const delivering = world.deliver([arrival('new')]);
    await world.clock.advance(5_000);
    expect([await delivering, world.connected.size]).toEqual([{ batchItemFailures: [] }, 0]);
  });
});

describe('showing events to watchers', () => {
  it('shows each watcher its events, in the form of the history plus the lock', async () => {
    const world = createWorld();
    await world.watch('all');
    await world.watch('this lock', { lock: 'wallet' });
    await world.watch('wall…', { prefix: 'wall' });
    await world.watch('another lock', { lock: 'wall' });
    await world.watch('another prefix', { prefix: 'wallets' });
    await world.acquire(holder);
    await world.drain();
    expect(world.posted.map(({ connectionId }) => connectionId)).toEqual(['all', 'this lock', 'wall…']);
    const { fence } = await world.store.read(lockKey);
    const at = new Date(world.clock.now()).toISOString();
    const shown = { lock: 'wallet', at, type: 'granted', fence, owner: `owner of ${holder}`, waitedMs: 0 };
    expect(textsTo(world, 'all')).toEqual([shown]);
  });

  it('shows no events of another namespace', async () => {
    const world = createWorld();
    await world.watch('here');
    await world.acquire(holder, {}, { namespace: 'elsewhere', name: 'wallet' });
    await world.drain();
    expect(world.posted).toEqual([]);
  });

  it('deletes a thousand watchers that are gone, and still reaches the one that is left', async () => {
    const world = createWorld();
    for (let index = 0; index < 1_000; index++) await world.watch(`gone-${index}`);
    await world.watch('there');
    world.ways.post = async (connectionId) => (connectionId === 'there' ? 'sent' : 'gone');
    await world.acquire(holder);
    expect(await world.drain()).toEqual([]);
    expect([world.connected.size, textsTo(world, 'there').length]).toEqual([1, 1]);
  });

  it('is not delayed and does not fail because of one watcher that hangs', async () => {
    const world = createWorld();
    await world.watch('hangs');
    for (let index = 0; index < 100; index++) await world.watch(`quick-${index}`);
    world.ways.post = (connectionId) => (connectionId === 'hangs' ? new Promise(() => {}) : Promise.resolve('sent'));
    await world.acquire(holder);
    await world.release(holder);
    const draining = world.drain();
    await settled();
    // No time has passed, and all other watchers have seen both events.
    expect(world.posted).toHaveLength(200);
    await world.clock.advance(1_000);
    expect(await draining).toEqual([]);
    expect(world.connected.size).toBe(101);
    const { message, fields } = world.logged[0] ?? {};
    expect([world.logged.length, message, fields]).toEqual([
      1,
      'A watcher missed events.',
      { namespace: 'test', error: expect.any(String) },
    ]);
  });

  it('waits a limited time for many watchers that hang', async () => {
    const world = createWorld();
    for (let index = 0; index < 1_000; index++) await world.watch(`hangs-${index}`);
    world.ways.post = () => new Promise(() => {});
    await world.acquire(holder);
    const draining = world.drain();
    await world.clock.advance(7_000);
    expect(await draining).toEqual([]);
  });
});
