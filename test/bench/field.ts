import type { BenchService } from './bench-service.ts';
import type { Contestant, Store, Yardstick } from './contestant.ts';
import { etcd3Lock, etcdLockService } from './contestants/etcd.ts';
import { postgresAdvisory } from './contestants/postgres.ts';
import { redisSet, redlock } from './contestants/redis.ts';
import { zookeeperRecipe } from './contestants/zookeeper.ts';
import {
  type Counted,
  type CountedService,
  type DynamoDBSide,
  type EngineName,
  startDynamoDBSide,
} from './dynamodb-side.ts';
import { peersInstalled } from './peers.ts';
import { NotInstalled } from './server-process.ts';
import { Started } from './started.ts';
import type { DynamoDBStore } from './stores/dynamodb.ts';
import { startEtcd } from './stores/etcd.ts';
import { startPostgres } from './stores/postgres.ts';
import { startRedis } from './stores/redis.ts';
import { startZookeeper } from './stores/zookeeper.ts';

interface Server {
  readonly store: Store;
  readonly contestants: readonly Contestant[];
}

/** Each server with the contestants that run on it. */
const peerServers: readonly ((started: Started) => Promise<Server>)[] = [
  async (started) => {
    const store = started.add(await startRedis());
    return { store, contestants: [redlock(store), redisSet(store)] };
  },
  async (started) => {
    const store = started.add(await startEtcd());
    return { store, contestants: [etcd3Lock(store), etcdLockService(store)] };
  },
  async (started) => {
    const store = started.add(await startZookeeper());
    return { store, contestants: [await zookeeperRecipe(store)] };
  },
  async (started) => {
    const store = started.add(await startPostgres());
    return { store, contestants: [await postgresAdvisory(store)] };
  },
];

/** All contestants that are installed. */
export class Field {
  /** Why contestants are missing, one line each. */
  readonly absent: string[] = [];
  readonly #engine: EngineName;
  readonly #started = new Started();
  readonly #servers: Server[] = [];
  #side: DynamoDBSide | undefined;

  private constructor(engine: EngineName) {
    this.#engine = engine;
  }

  /** Starts everything that is installed. */
  static async take(engine: EngineName): Promise<Field> {
    const field = new Field(engine);
    try {
      await field.#startServers();
      await field.refresh({ counting: false });
      return field;
    } catch (error) {
      await field.stop();
      throw error;
    }
  }

  /**
   * Starts a new engine for all contestants on DynamoDB. DynamoDB Local keeps every change of a table with a stream, and the more it keeps,
   * the longer every write takes. So each part of the run gets its own engine.
   */
  async refresh({ counting }: { counting: boolean }): Promise<void> {
    await this.#side?.stop();
    this.#side = undefined;
    this.#side = await startDynamoDBSide(this.#engine, { counting });
  }

  get contestants(): readonly Contestant[] {
    return [...this.#dynamodb.contestants, ...this.#servers.flatMap(({ contestants }) => contestants)];
  }

  get counted(): readonly Counted[] {
    return this.#dynamodb.counted;
  }

  get countedService(): CountedService {
    const { countedService } = this.#dynamodb;
    if (countedService === undefined) throw new Error('Nothing is counted in this part of the run.');
    return countedService;
  }

  get dynamodb(): DynamoDBStore {
    return this.#dynamodb.store;
  }

  get service(): BenchService {
    return this.#dynamodb.service;
  }

  get stores(): readonly Store[] {
    return [this.dynamodb, ...this.#servers.map(({ store }) => store)];
  }

  /** The figures of a contestant are divided by the single write of this store. */
  storeOf({ store: id, table }: Pick<Contestant, 'store' | 'table'>): Yardstick {
    const { dynamodb } = this;
    if (id === 'dynamodb')
      return { singleWrite: table === undefined ? dynamodb.plainWrite : (key) => dynamodb.writeTo(table, key) };
    const server = this.#servers.find(({ store }) => store.id === id);
    if (server === undefined) throw new Error(`There is no ${id} in this run.`);
    return server.store;
  }

  async stop(): Promise<void> {
    await this.#side?.stop();
    await this.#started.stop();
  }

  get #dynamodb(): DynamoDBSide {
    if (this.#side === undefined) throw new Error('There is no engine at the moment.');
    return this.#side;
  }

  async #startServers(): Promise<void> {
    if (!peersInstalled()) {
      this.absent.push("The peers' packages are not installed: run `node test/bench/install-peers.ts`.");
      return;
    }
    for (const start of peerServers) {
      try {
        const server = await start(this.#started);
        for (const contestant of server.contestants) this.#started.add(contestant);
        this.#servers.push(server);
      } catch (error) {
        if (!(error instanceof NotInstalled)) throw error;
        this.absent.push(`${error.message}.`);
      }
    }
  }
}
