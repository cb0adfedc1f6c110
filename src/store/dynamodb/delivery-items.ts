import { after, type Clock, systemClock, toTtlSeconds } from '../../time/clock.ts';
import type { Delivery, DeliveryStore } from '../delivery-store.ts';
import type { LockKey } from '../lock-store.ts';
import type { Item, ItemKey } from './attributes.ts';
import { integer, optional, update } from './attributes.ts';
import { ItemTable, type TableAccess } from './item-table.ts';

/** A stream keeps its records for a day. After twice that time no repeat can come. */
const deliveryKeptMs = 2 * 86_400_000;

const words = { tries: 'tries', delivered: 'told', collectAt: 'ttl' };

const deliveryKey = ({ namespace, name }: LockKey, fence: number): ItemKey => ({
  pk: `${namespace}/told/${name}`,
  sk: String(fence),
});

export class DynamoDBDeliveries implements DeliveryStore {
  readonly #table: ItemTable;
  readonly #clock: Clock;

  constructor({ clock, ...access }: TableAccess & { readonly clock?: Clock }) {
    this.#table = new ItemTable(access);
    this.#clock = clock ?? systemClock;
  }

  begin(key: LockKey, fence: number): Promise<Delivery> {
    // Without a condition, because every try must be counted.
    return this.#update(key, fence, { set: ['collectAt = :collectAt'], add: 'tries :one' }, { one: 1 });
  }

  async read(key: LockKey, fence: number): Promise<Delivery> {
    return fromItem((await this.#table.get(deliveryKey(key, fence))) ?? {});
  }

  async markDelivered(key: LockKey, fence: number): Promise<void> {
    await this.#update(key, fence, { set: ['collectAt = :collectAt', 'delivered = :yes'] }, { yes: true });
  }

  async #update(key: LockKey, fence: number, clauses: Parameters<typeof update>[0], values: Item): Promise<Delivery> {
    const collectAt = toTtlSeconds(after(this.#clock.now(), deliveryKeptMs));
    const written = await this.#table.update(deliveryKey(key, fence), update(clauses, words, { ...values, collectAt }));
    return fromItem(written.item ?? {});
  }
}

const fromItem = (item: Item): Delivery => ({
  tries: optional(integer, item, words.tries) ?? 0,
  delivered: item[words.delivered] === true,
});
