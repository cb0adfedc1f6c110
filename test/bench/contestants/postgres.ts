import type { Contestant, Holding, Place } from '../contestant.ts';
import type { PostgresClient, PostgresStore } from '../stores/postgres.ts';

/** Advisory locks belong to a connection, and a connection that waits can do nothing else. So each waiter has its own. */
export async function postgresAdvisory(store: PostgresStore): Promise<Contestant> {
  const idle: PostgresClient[] = [];
  const onlooker = await store.connect();
  let requests = 0;
  const borrow = async () => idle.pop() ?? store.connect();
  const lockOn = async (client: PostgresClient, name: string): Promise<Holding> => {
    requests += 1;
    await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [name]);
    return {
      release: async () => {
        requests += 1;
        await client.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [name]);
        idle.push(client);
      },
    };
  };
  const take = async (name: string) => lockOn(await borrow(), name);
  return {
    id: 'postgres',
    name: 'PostgreSQL advisory',
    store: 'postgres',
    ours: false,
    waitsQuietly: true,
    how: 'pg_advisory_lock on one connection per waiter. The server queues. No lease: the lock lives as long as the connection.',
    requestsMin: 2,
    take,
    join: (name): Place => {
      const client = borrow();
      const granted = client.then((connected) => lockOn(connected, name));
      granted.catch(() => undefined);
      return {
        granted,
        leave: async () => {
          const connected = await client;
          await onlooker.query('SELECT pg_cancel_backend($1)', [connected.processID]);
          await granted.then(
            (holding) => holding.release(),
            () => idle.push(connected),
          );
        },
      };
    },
    queued: async () => {
      const { rows } = await onlooker.query<{ waiting: number }>(
        "SELECT count(*)::int AS waiting FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
      );
      return rows[0]?.waiting ?? 0;
    },
    requests: () => requests,
    crash: {
      leaseMs: null,
      holdAndDie: async (name) => {
        const client = await store.connect();
        await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [name]);
        client.connection.stream.destroy();
        return performance.now();
      },
    },
    stop: async () => {
      await Promise.allSettled([onlooker, ...idle].map((client) => client.end()));
    },
  };
}
