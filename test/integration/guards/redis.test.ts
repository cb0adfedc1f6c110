import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  evalArguments,
  fencedCall,
  fencedSet,
  fenceScript,
  floorKey,
  raiseRedisFloor,
  runFenced,
} from '../../../src/guards/redis.ts';
import { freePort } from '../../../src/local/engine/endpoint.ts';
import { eventually } from '../../support/eventually.ts';
import { findProgram, Program } from '../../support/program.ts';
import { describePauseStory, describeWithEngine } from './pause-story.ts';
import { connectRedis } from './redis-wire.ts';

const path = findProgram('redis-server') ?? findProgram('valkey-server');

describeWithEngine('Redis', path, 'apt-get install -y redis-server', (program) => {
  let server: Program;
  let redis: Awaited<ReturnType<typeof connectRedis>>;
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-redis-'));
  let resources = 0;

  // In cluster mode the server refuses a script whose keys are in different slots. This proves that the floor's key is
  // chosen correctly.
  beforeAll(async () => {
    const port = await freePort();
    const busPort = await freePort();
    const words = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'];
    server = new Program(program, [...words, '--cluster-enabled', 'yes', '--cluster-port', `${busPort}`]);
    await server.said(/Ready to accept/);
    redis = await connectRedis(port);
    await redis.send(['CLUSTER', 'ADDSLOTSRANGE', '0', '16383']);
    await eventually(async () => expect(await redis.send(['CLUSTER', 'INFO'])).toContain('cluster_state:ok'));
  });

  afterAll(async () => {
    redis.close();
    await server.end();
    rmSync(folder, { recursive: true });
  });

  const freshKey = () => `resource-${++resources}`;

  describePauseStory(
    'fencedSet',
    async () => {
      const key = freshKey();
      return {
        write: (fence, value) => runFenced((words) => redis.send(words), fencedSet({ key, value, fence })),
        async read() {
          const floor = await redis.send(['GET', floorKey(key)]);
          return {
            value: (await redis.send(['GET', key])) as string | null,
            floor: floor === null ? null : Number(floor),
          };
        },
      };
    },
    { runs: 50 },
  );

  describe('fencedSet', () => {
    it('keeps the floor when the value has expired', async () => {
      const key = freshKey();
      await runFenced(redis.send, fencedSet({ key, value: 'short', fence: 34, ttlMs: 1 }));
      await expect.poll(() => redis.send(['GET', key]), { interval: 5 }).toBeNull();
      expect(await runFenced(redis.send, fencedSet({ key, value: 'late', fence: 33 }))).toMatchObject({
        kind: 'stale',
        floor: 34,
      });
    });

    it('sends the script again when the server has forgotten it', async () => {
      const call = fencedSet({ key: freshKey(), value: 'kept', fence: 33 });
      await redis.send(['SCRIPT', 'FLUSH']);
      expect(await runFenced(redis.send, call)).toEqual({ kind: 'written', reply: 'OK' });
      const send = vi.fn(redis.send);
      await runFenced(send, call);
      expect(send.mock.calls.map(([words]) => words[0])).toEqual(['EVALSHA']);
    });

    it('stores the digits of a fence, not a rounded number', async () => {
      const key = freshKey();
      await redis.send(evalArguments(fencedSet({ key, value: 'x', fence: Number.MAX_SAFE_INTEGER })));
      expect(await redis.send(['GET', floorKey(key)])).toBe('9007199254740991');
    });

    it.each(['plain', '{tag}:name', 'odd{name', 'a{tag}b{c}'])(
      'keeps the floor of %s in the slot of its key',
      async (key) => {
        const slots = await Promise.all([key, floorKey(key)].map((name) => redis.send(['CLUSTER', 'KEYSLOT', name])));
        expect(slots[0]).toBe(slots[1]);
        expect(await runFenced(redis.send, fencedSet({ key, value: 'x', fence: 33 }))).toMatchObject({
          kind: 'written',
        });
      },
    );

    it('refuses every write, by an error, when the floor is not a number', async () => {
      const key = freshKey();
      await redis.send(['SET', floorKey(key), 'garbage']);
      await expect(runFenced(redis.send, fencedSet({ key, value: 'x', fence: 33 }))).rejects.toThrow('not an integer');
      expect(await redis.send(['GET', key])).toBeNull();
    });
  });

  describe('fenceScript', () => {
    const lua = fenceScript(`return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])`);
    const add = (key: string, fence: number) =>
      runFenced(redis.send, fencedCall({ lua, resource: key, keys: [key], arguments: ['apples', '5'], fence }));

    it("runs the caller's script with its own keys and arguments", async () => {
      const key = freshKey();
      expect(await add(key, 33)).toEqual({ kind: 'written', reply: 5 });
      expect(await add(key, 33)).toEqual({ kind: 'written', reply: 10 });
    });

    it("does not run the caller's script for a stale fence", async () => {
      const key = freshKey();
      await add(key, 34);
      expect(await add(key, 33)).toEqual({ kind: 'stale', fence: 33, floor: 34 });
      expect(await redis.send(['HGET', key, 'apples'])).toBe('5');
    });
  });

  describe('raiseRedisFloor', () => {
    it('raises the floor of a resource that is not a key', async () => {
      const resource = freshKey();
      expect(await runFenced(redis.send, raiseRedisFloor({ resource, fence: 34 }))).toMatchObject({ kind: 'written' });
      expect(await runFenced(redis.send, raiseRedisFloor({ resource, fence: 33 }))).toMatchObject({
        kind: 'stale',
        floor: 34,
      });
    });
  });
});
