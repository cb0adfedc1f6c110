import { randomUUID } from 'node:crypto';
import { type Contestant, dieAfter, type Holding, pollFor, pollMs, type Terms } from '../contestant.ts';
import { loadPeer } from '../peers.ts';
import type { RedisClient, RedisStore } from '../stores/redis.ts';

/** Version 5, a beta, because the documentation describes it. Version 4 uses Bluebird and callbacks. */
interface RedlockLock {
  release(): Promise<unknown>;
}

interface Redlock {
  acquire(resources: string[], leaseMs: number): Promise<RedlockLock>;
}

type RedlockClass = new (clients: object[], settings: object) => Redlock;
type Evaluate = (script: string, keys: number, args: (string | number)[]) => Promise<unknown>;

/** Redlock over one node, with a retry as often as the other pollers. */
export function redlock(store: RedisStore): Contestant {
  const { default: Class } = loadPeer<{ default: RedlockClass }>('redlock');
  const client = store.connect();
  let requests = 0;
  // After a waiter has left, its client answers that it has the lock. There is no other way to stop it.
  const clientUntil = (hasLeft: () => boolean) => {
    const guard =
      (evaluate: 'eval' | 'evalsha'): Evaluate =>
      async (script, keys, args) => {
        if (hasLeft()) return keys;
        requests += 1;
        return client[evaluate](script, keys, ...args);
      };
    return { eval: guard('eval'), evalsha: guard('evalsha') };
  };
  const settings = { retryCount: -1, retryDelay: pollMs, retryJitter: pollMs / 10 };
  const usual = new Class([clientUntil(() => false)], settings);
  const once = new Class([clientUntil(() => false)], { ...settings, retryCount: 0 });
  return {
    id: 'redlock',
    name: 'redlock',
    store: 'redis',
    ours: false,
    waitsQuietly: false,
    how: `Over one node: two scripts. Waiters try every ${pollMs} ms.`,
    requestsMin: 2,
    take: (name, { leaseMs }) => usual.acquire([name], leaseMs),
    takeAll: (names, { leaseMs }) => usual.acquire([...names], leaseMs),
    attempt: (name, { leaseMs }) =>
      once.acquire([name], leaseMs).then(
        () => true,
        () => false,
      ),
    join: (name, { leaseMs }) => {
      let left = false;
      const granted = new Class([clientUntil(() => left)], settings).acquire([name], leaseMs);
      return {
        granted,
        leave: async () => {
          left = true;
          await granted;
        },
      };
    },
    requests: () => requests,
    crash: {
      leaseMs: 1_000,
      holdAndDie: (name) => dieAfter(() => usual.acquire([name], 1_000)),
    },
    stop: async () => client.disconnect(),
  };
}

const releaseScript = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** The pattern in Redis's own documentation: SET with NX and PX, and a script that deletes only one's own lock. */
export function redisSet(store: RedisStore): Contestant {
  const client: RedisClient = store.connect();
  const sha = client.script('LOAD', releaseScript) as Promise<string>;
  let requests = 0;
  const ask = async (name: string, { leaseMs }: Terms): Promise<Holding | undefined> => {
    const token = randomUUID();
    requests += 1;
    if ((await client.set(name, token, 'PX', leaseMs, 'NX')) !== 'OK') return undefined;
    return {
      release: async () => {
        requests += 1;
        await client.evalsha(await sha, 1, name, token);
      },
    };
  };
  const take = async (name: string, terms: Terms): Promise<Holding> => {
    const holding = await ask(name, terms);
    if (holding === undefined) throw new Error(`${name} is held.`);
    return holding;
  };
  return {
    id: 'redis-set',
    name: 'Redis SET NX PX',
    store: 'redis',
    ours: false,
    waitsQuietly: false,
    how: `SET with NX and PX, and a script that deletes one's own. Waiters try every ${pollMs} ms.`,
    requestsMin: 2,
    take,
    attempt: async (name, terms) => (await ask(name, terms)) !== undefined,
    join: (name, terms) => pollFor(() => ask(name, terms)),
    requests: () => requests,
    crash: {
      leaseMs: 1_000,
      holdAndDie: (name) => dieAfter(() => take(name, { leaseMs: 1_000, renew: false })),
    },
    stop: async () => client.disconnect(),
  };
}
