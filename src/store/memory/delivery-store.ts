import { type Delivery, type DeliveryStore, undelivered } from '../delivery-store.ts';
import type { LockKey } from '../lock-store.ts';

/** Deliveries in memory, for simulation and for users' own tests. */
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
