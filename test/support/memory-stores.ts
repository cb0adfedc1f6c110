/** Ports of the store in memory that only tests need. Those that the twin needs too are in src/store/memory. */
import type { LockKey } from '../../src/lock/state.ts';
import type { Delivery, DeliveryStore } from '../../src/store/notices.ts';
import type { Connection, ParkedWait, SocketStore, Ticket } from '../../src/store/sockets.ts';
import type { Watcher, WatcherStore } from '../../src/store/watchers.ts';
import type { EpochMs } from '../../src/time/clock.ts';

const undelivered: Delivery = { tries: 0, delivered: false };

export class MemoryDeliveries implements DeliveryStore {
  readonly #deliveries = new Map<string, Delivery>();

  async begin(key: LockKey, fence: number): Promise<Delivery> {
    const { tries, delivered } = await this.read(key, fence);
    const delivery = { tries: tries + 1, delivered };
    this.#deliveries.set(idOf(key, fence), delivery);
    return delivery;
  }

  read(key: LockKey, fence: number): Promise<Delivery> {
    return Promise.resolve(this.#deliveries.get(idOf(key, fence)) ?? undelivered);
  }

  async markDelivered(key: LockKey, fence: number): Promise<void> {
    const { tries } = await this.read(key, fence);
    this.#deliveries.set(idOf(key, fence), { tries, delivered: true });
  }
}

const idOf = ({ namespace, name }: LockKey, fence: number): string => `${namespace}/${name}/${fence}`;

export class MemorySockets implements SocketStore {
  readonly #tickets = new Map<string, Ticket>();
  readonly #waits = new Map<string, Map<string, ParkedWait>>();
  readonly #connection: (connectionId: string) => Connection | undefined;

  constructor(connection: (connectionId: string) => Connection | undefined) {
    this.#connection = connection;
  }

  async issue(secret: string, ticket: Ticket): Promise<void> {
    this.#tickets.set(secret, ticket);
  }

  async redeem(secret: string, now: EpochMs): Promise<Connection | undefined> {
    const ticket = this.#tickets.get(secret);
    this.#tickets.delete(secret);
    if (ticket === undefined || ticket.expiresAt <= now) return undefined;
    return { namespace: ticket.namespace, caller: ticket.caller };
  }

  async connection(connectionId: string): Promise<Connection | undefined> {
    return this.#connection(connectionId);
  }

  async noteWait(connectionId: string, wait: ParkedWait): Promise<void> {
    const waits = this.#waits.get(connectionId) ?? new Map<string, ParkedWait>();
    waits.set(`${wait.key.name}/${wait.leaseId}`, wait);
    this.#waits.set(connectionId, waits);
  }

  async waitsOn(connectionId: string, namespace: string): Promise<readonly ParkedWait[]> {
    const waits = this.#waits.get(connectionId)?.values() ?? [];
    return [...waits].filter(({ key }) => key.namespace === namespace);
  }
}

export class MemoryWatchers implements WatcherStore {
  readonly #watchers = new Map<string, { readonly watcher: Watcher; welcomed: boolean }>();

  get size(): number {
    return this.#watchers.size;
  }

  add(watcher: Watcher): Promise<void> {
    this.#watchers.set(watcher.connectionId, { watcher, welcomed: false });
    return Promise.resolve();
  }

  welcome({ connectionId }: Watcher): Promise<boolean> {
    const found = this.#watchers.get(connectionId);
    if (found !== undefined) found.welcomed = true;
    return Promise.resolve(found !== undefined);
  }

  welcomed(namespace: string): Promise<readonly Watcher[]> {
    const found = [...this.#watchers.values()].filter(({ watcher, welcomed }) => {
      return welcomed && watcher.namespace === namespace && watcher.subject !== 'nothing';
    });
    return Promise.resolve(found.map(({ watcher }) => watcher));
  }

  /** For tickets and parked waits, which know connections by their id. */
  find(connectionId: string): Watcher | undefined {
    return this.#watchers.get(connectionId)?.watcher;
  }

  remove(connectionId: string): Promise<void> {
    this.#watchers.delete(connectionId);
    return Promise.resolve();
  }
}
