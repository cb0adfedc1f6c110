import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Contestant, Holding } from '../contestant.ts';
import { connectZookeeper, type ZookeeperClient, type ZookeeperStore } from '../stores/zookeeper.ts';

/** Longer than every cell, because only a crash should end a session. */
const sessionMs = 30_000;
const crashSessionMs = 1_000;
const parentOf = (name: string) => `/locks/${name}`;
/** ZooKeeper numbers the nodes of one parent. The text before the number does not matter for the order. */
const numberOf = (node: string) => Number(node.slice(-10));

/** The recipe of ZooKeeper's own documentation: an ephemeral node with a number, and a watch on the one before. */
export async function awaitTurn(
  client: ZookeeperClient,
  name: string,
  count: () => void,
  joined: (own: string) => void = () => {},
): Promise<string> {
  const parent = parentOf(name);
  count();
  const own = await client.createEphemeralSequential(`${parent}/turn-`);
  joined(own);
  for (;;) {
    count();
    const nodes = await client.children(parent);
    if (!nodes.includes(own.slice(parent.length + 1))) throw new Error('The waiter has left, or its session is over.');
    const before = nodes
      .filter((node) => numberOf(node) < numberOf(own))
      .sort((one, other) => numberOf(one) - numberOf(other))
      .at(-1);
    if (before === undefined) return own;
    const changed = Promise.withResolvers<void>();
    count();
    if (await client.exists(`${parent}/${before}`, changed.resolve)) await changed.promise;
  }
}

export async function zookeeperRecipe(store: ZookeeperStore): Promise<Contestant> {
  const client = await connectZookeeper(store.host, sessionMs);
  const made = new Map<string, Promise<unknown>>();
  let requests = 0;
  const count = () => {
    requests += 1;
  };
  const take = async (name: string, joined?: (own: string) => void): Promise<Holding> => {
    // A parent is made once in the life of a lock, so it does not count as part of an acquire.
    if (!made.has(name)) made.set(name, client.makePath(parentOf(name)));
    await made.get(name);
    const own = await awaitTurn(client, name, count, joined);
    return {
      release: () => {
        count();
        return client.remove(own);
      },
    };
  };
  return {
    id: 'zookeeper',
    name: 'ZooKeeper recipe',
    store: 'zookeeper',
    ours: false,
    waitsQuietly: true,
    how: 'Ephemeral sequential nodes, each waiter watching the one before, all in one session.',
    // Create, look, watch, look again after the message, delete.
    requestsMin: 5,
    take: (name) => take(name),
    join: (name) => {
      const node = Promise.withResolvers<string>();
      const granted = take(name, node.resolve);
      return {
        granted,
        leave: async () => {
          granted.catch(() => undefined);
          await client.remove(await node.promise);
        },
      };
    },
    queued: async (name) => Math.max(0, (await client.children(parentOf(name))).length - 1),
    requests: () => requests,
    crash: {
      leaseMs: crashSessionMs,
      holdAndDie: async (name) => {
        await client.makePath(parentOf(name));
        made.set(name, Promise.resolve());
        return holdInChild(store.host, name);
      },
    },
    stop: async () => client.close(),
  };
}

/** A session ends by time only if nobody closes it. So its owner is a process that is killed. */
async function holdInChild(host: string, name: string): Promise<number> {
  const file = fileURLToPath(new URL('./zookeeper-holder.ts', import.meta.url));
  const child = spawn(process.execPath, [file, host, name, String(crashSessionMs)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  return performance.now();
}
