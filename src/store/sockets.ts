/**
 * Tickets and parked waits in the table.
 *
 *     #ticket/{digest}       ticket    namespace, caller, end: the ticket itself is a secret, so its key is a digest
 *     {ns}/waits/{id}        {digest}  a wait that is parked on this connection, by a digest of its lease
 *
 * No namespace begins with "#", so a right to one namespace's keys never reaches a ticket or a connection.
 */
import { randomUUID } from 'node:crypto';
import type { LockKey } from '../lock/state.ts';
import type { ItemKey } from '../table/attributes.ts';
import { text, update } from '../table/attributes.ts';
import { digestOf } from '../table/digest.ts';
import { TableStore } from '../table/item-table.ts';
import { after, type EpochMs, toTtlSeconds } from '../time/clock.ts';
import { connectionKey } from './watchers.ts';

/** The waits of a connection are read when it ends. API Gateway may report that late. */
const waitKeptMs = 3_600_000;

const words = { partition: 'pk', expiresAt: 'end', usedBy: 'used' };

const ticketKey = (secret: string): ItemKey => ({ pk: `#ticket/${digestOf(secret)}`, sk: 'ticket' });
const waitsPartition = (namespace: string, connectionId: string): string => `${namespace}/waits/${connectionId}`;

/** The caller of a WebSocket connection. It never changes while the connection lasts. */
export interface Connection {
  readonly namespace: string;
  readonly caller: string;
}

/** The right to open one connection, one time. */
export interface Ticket extends Connection {
  readonly expiresAt: EpochMs;
}

/** A waiter that is parked on a connection. */
export interface ParkedWait {
  readonly key: LockKey;
  readonly leaseId: string;
}

/** Tickets, open connections, and the waits parked on them. */
export class SocketStore extends TableStore {
  async issue(secret: string, { namespace, caller, expiresAt }: Ticket): Promise<void> {
    const ttl = toTtlSeconds(expiresAt);
    await this.table.replace({ ...ticketKey(secret), namespace, caller, [words.expiresAt]: expiresAt, ttl });
  }

  /** Uses a ticket, which is then invalid. Undefined if it is unknown, used or too old. The caller is not told which. */
  async redeem(secret: string, now: EpochMs): Promise<Connection | undefined> {
    // A ticket works once. If two callers use the same ticket, one of them is refused.
    const by = randomUUID();
    const used = update(
      {
        set: ['usedBy = :by'],
        when: 'attribute_exists(partition) AND attribute_not_exists(usedBy) AND expiresAt > :now',
      },
      words,
      { by, now },
    );
    const { item } = await this.table.update(ticketKey(secret), used);
    // If the answer to a first try was lost, the refused repeat shows that this call has used the ticket.
    if (item?.[words.usedBy] !== by) return undefined;
    return { namespace: text(item, 'namespace'), caller: text(item, 'caller') };
  }

  /** Strongly consistent, so that a connection is not found after its end was noted. */
  async connection(connectionId: string): Promise<Connection | undefined> {
    const item = await this.table.get(connectionKey(connectionId));
    return item === undefined ? undefined : { namespace: text(item, 'namespace'), caller: text(item, 'caller') };
  }

  /** Notes a wait before it begins, so that it is found when its connection ends. */
  async noteWait(connectionId: string, { key, leaseId }: ParkedWait, until: EpochMs): Promise<void> {
    const { namespace, name } = key;
    const pk = waitsPartition(namespace, connectionId);
    const sk = digestOf(`${name}/${leaseId}`);
    await this.table.replace({ pk, sk, lock: name, leaseId, ttl: toTtlSeconds(after(until, waitKeptMs)) });
  }

  /** All waits noted for a connection. Some may be over, or parked on another connection now. */
  async waitsOn(connectionId: string, namespace: string): Promise<readonly ParkedWait[]> {
    const items = await this.table.query({
      where: 'partition = :waits',
      words,
      values: { waits: waitsPartition(namespace, connectionId) },
      consistent: true,
    });
    return items.map((item) => ({ key: { namespace, name: text(item, 'lock') }, leaseId: text(item, 'leaseId') }));
  }
}
